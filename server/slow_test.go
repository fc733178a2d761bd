package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"unmask/server"
)

// running is a server that listens as unmask serve does, with another patience; see Server.Hurry.
func running(t testing.TB, what string, patience time.Duration) (address string, s *server.Server) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	s.Hurry(what, patience)
	require.NoError(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}))
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- s.Run(ctx, context.Background(), server.Listeners{Address: "127.0.0.1:0",
			Drain: time.Second}, func(url string) { ready <- url })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return strings.TrimPrefix(<-ready, "http://"), s
}

func dial(t testing.TB, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Headers and bodies that come a byte at a time are not waited for.
func TestSlowClients(t *testing.T) {
	address, _ := running(t, "header", 300*time.Millisecond)
	c := dial(t, address)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	header := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("y", 100)
	go func(c net.Conn) {
		for i := range len(header) {
			if _, err := io.WriteString(c, header[i:i+1]); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}(c)
	_, err := io.ReadAll(c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is closed, or reset")

	address, _ = running(t, "body", 300*time.Millisecond)
	c = dial(t, address)
	_, err = io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	data, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	refusal{"", 408, "body_timeout", "", "the body took more than"}.compare(t, a.StatusCode, a.Header,
		data)

	// Headers that are too large.
	patient, _ := running(t, "header", time.Minute)
	c = dial(t, patient)
	_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+
		strings.Repeat("x", 1<<20)+"\r\n\r\n")
	_ = err // the server may not read it all
	if a, err = http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		data, _ := io.ReadAll(a.Body)
		require.Equal(t, 431, a.StatusCode, "%s", data)
	}
}

// narrow is a listener whose connections hold little that was not read.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// A reader that stops is gone after a while, and its work ends.
func TestReadersThatStop(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	s.Hurry("write", 300*time.Millisecond)
	require.NoError(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}))
	h := httptest.NewUnstartedServer(s.Handler())
	h.Listener = narrow{h.Listener}
	h.Start()
	defer s.Close()
	defer h.Close()
	c := dial(t, h.Listener.Addr().String())
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
	body := `{"prompt":"A","max_tokens":200,"steps":300,"sampler":"remdm","n":8,"stream":true,` +
		`"diffusing":true,"stop":["` + strings.Repeat("x", 60) + `"]}`
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	eventually(t, func() bool {
		return strings.Contains(metrics(t, s), `unmask_cancelled_total{why="client"} 1`)
	}, "the work is given up")
}

// Prometheus' own parser reads what is counted, and no label comes from a request.
func TestMetrics(t *testing.T) {
	s, h := serving(t, server.Options{})
	ask(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":9,"steps":3,"seed":1}`)
	ask(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":9,"steps":3,"seed":1}`)
	get(t, h.URL+"/secret-path")
	post(t, h.URL+"/v1/completions", `{"model":"secret-model"}`)
	text := metrics(t, s)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	require.NotContains(t, text, "secret")
	families, err := (&parser).TextToMetricFamilies(
		strings.NewReader(text))
	require.NoError(t, err)
	for _, name := range []string{"requests_total", "queue_requests", "queue_rows", "queue_seconds",
		"request_seconds", "first_step_seconds", "pass_seconds", "pass_rows", "pass_sequences",
		"rows_total", "tokens_opened_total", "cancelled_total", "cache_hits_total", "streams",
		"repeated_passes_total", "model_info"} {
		require.Contains(t, families, "unmask_"+name)
		require.NotEmpty(t, families["unmask_"+name].GetHelp())
	}
	require.Contains(t, families, "go_goroutines")
	require.Contains(t, families, "process_resident_memory_bytes")
	require.Equal(t, 1.0, families["unmask_cache_hits_total"].Metric[0].Counter.GetValue())
	require.Equal(t, 9.0, families["unmask_tokens_opened_total"].Metric[0].Counter.GetValue())
	require.Equal(t, uint64(3), families["unmask_pass_seconds"].Metric[0].Histogram.GetSampleCount())
	require.Contains(t, text, `unmask_requests_total{code="404",route="unknown"} 1`)
	require.Contains(t, text, `unmask_requests_total{code="200",route="/v1/completions"} 2`)
}
