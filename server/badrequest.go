package server

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// net/http answers what is no request of HTTP, such as one with a control character in a header,
// before any handler sees it, with a line of plain text. Clients read JSON, so the connections of
// the public listener put our form of errors in its place.

// plainHeader ends the header of such an answer. No answer of a handler has this header alone.
const plainHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// faultListener accepts connections whose answers are all in our form.
type faultListener struct{ net.Listener }

// Accept implements net.Listener.
func (l faultListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &faultConn{c}, nil
}

// faultConn is a connection whose answers are all in our form.
type faultConn struct{ net.Conn }

// CloseWrite ends what is sent; net/http does so after some answers, so that a client that still
// sends can read them.
func (c *faultConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Write implements net.Conn. net/http writes such an answer at once.
func (c *faultConn) Write(p []byte) (int, error) {
	const longest = 512 // bytes of such an answer
	answer := p
	if len(p) > longest {
		answer = nil
	}
	header, text, found := bytes.Cut(answer, []byte(plainHeader))
	statusLine, isAnswer := strings.CutPrefix(string(header), "HTTP/1.1 ")
	if !found || !isAnswer {
		return c.Conn.Write(p)
	}

	statusText, reason, _ := strings.Cut(statusLine, ": ")
	code, name, _ := strings.Cut(statusText, " ")
	status, _ := strconv.Atoi(code)
	if reason == "" {
		reason = strings.TrimPrefix(string(text), statusText)
	}
	if reason == "" {
		reason = strings.ToLower(name)
	}
	body := newFault(status, "invalid_http", "this is no request of HTTP: %s", reason).JSON()
	_, err := fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n\r\n%s\n", statusText, jsonType, len(body)+1, body)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
