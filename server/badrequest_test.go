package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is no request of HTTP is answered in our form of errors, whatever is wrong with it.
func TestWhatIsNoRequest(t *testing.T) {
	address, _ := running(t, "header", time.Minute)
	const host = " HTTP/1.1\r\nHost: localhost\r\n"
	longValue := strings.Repeat("y", 1<<17)
	for name, c := range map[string]struct {
		request string
		status  int
		message string
	}{
		"control character": {"GET /" + host + "X-A: a\x01b\r\n\r\n", 400, "bad request"},
		"name of a header":  {"GET /" + host + "X A: b\r\n\r\n", 400, "invalid header name"},
		"no host":           {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"no HTTP":           {"hello\r\n\r\n", 400, "bad request"},
		"version":           {"GET / HTTP/7.0\r\n\r\n", 505, "unsupported protocol version"},
		"long header": {"GET /" + host + "X: " + longValue + "\r\n\r\n", 431,
			"request header fields too large"},
		"encoding": {"POST /v1/completions" + host + "Transfer-Encoding: zip\r\n\r\n", 501,
			"Unsupported transfer encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, address)
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			go io.WriteString(conn, c.request) // of a long header the server reads a part
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, c.status, response.StatusCode)
			require.Equal(t, "application/json", response.Header.Get("Content-Type"))
			var body struct {
				Error struct{ Message, Type, Code string }
			}
			require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
			require.Equal(t, "this is no request of HTTP: "+c.message, body.Error.Message)
			require.Equal(t, "invalid_http", body.Error.Code)
		})
	}
}
