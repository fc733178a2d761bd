package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"unmask/internal/atomicfile"
)

// Listeners say where a server listens.
type Listeners struct {
	Address   string        // of the public routes, such as 127.0.0.1:8080
	Cert, Key string        // files for TLS; "" for none
	Metrics   string        // address of /metrics; "" for none
	Drain     time.Duration // for what has begun, after the end of ctx
}

// CheckAddress refuses an address beyond loopback for a server that everybody may ask.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address is %.80q, want HOST:PORT such as 127.0.0.1:8080", address)
	}
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("address is %s, open to other machines, want --keys FILE, or --no-keys to let "+
		"everybody in", address)
}

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 64 << 10

// Run listens until ctx ends, then drains and closes the server. ready is called with the address
// once requests are answered. When hard ends, draining ends too.
func (s *Server) Run(ctx, hard context.Context, l Listeners, ready func(url string)) error {
	defer s.Close()
	var pair tls.Certificate
	if l.Cert != "" {
		cert, err := atomicfile.ReadSmall(l.Cert, maxKeys)
		key, other := atomicfile.ReadSmall(l.Key, maxKeys)
		if err = cmp.Or(err, other); err == nil {
			pair, err = tls.X509KeyPair(cert, key)
		}
		if err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
	}
	servers, listeners, err := s.open(l)
	if err != nil {
		return err
	}
	failed := make(chan error, len(servers))
	scheme := "http"
	if l.Cert != "" {
		scheme = "https"
	}
	for i, h := range servers {
		go func() {
			if i == 0 && l.Cert != "" {
				h.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
				failed <- h.ServeTLS(listeners[i], "", "")
				return
			}
			failed <- h.Serve(listeners[i])
		}()
	}
	ready(scheme + "://" + listeners[0].Addr().String())
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(hard, l.Drain)
	defer cancel()
	s.Drain(drain)
	s.abandonAll()
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, h := range servers {
		if h.Shutdown(last) != nil {
			h.Close()
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// open listens at the addresses that are set; the first is the public one.
func (s *Server) open(l Listeners) (servers []*http.Server, listeners []net.Listener, err error) {
	for i, at := range []struct {
		flag, address string
		handler       http.Handler
	}{{"listen", l.Address, s.Handler()}, {"metrics", l.Metrics, s.Metrics()}} {
		if at.address == "" && i > 0 {
			continue
		}
		one, err := net.Listen("tcp", at.address)
		if err != nil {
			for _, other := range listeners {
				other.Close()
			}
			if op, ok := errors.AsType[*net.OpError](err); ok {
				err = op.Err
			}
			return nil, nil, fmt.Errorf("--%s %s: %w", at.flag, at.address, err)
		}
		listeners = append(listeners, one)
		servers = append(servers, &http.Server{Handler: at.handler,
			MaxHeaderBytes:    maxHeader - 4096, // it allows 4 KiB more
			ReadHeaderTimeout: s.times.header, IdleTimeout: s.times.idle,
			ErrorLog: log.New(io.Discard, "", 0)})
	}
	return servers, listeners, nil
}

// abandonAll gives up all calls.
func (s *Server) abandonAll() {
	for _, e := range s.engines() {
		e.Abandon()
	}
}

// Metrics returns the handler of /metrics, for a listener of its own.
func (s *Server) Metrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.stats.registry, promhttp.HandlerOpts{}))
	return mux
}

// TuneProcess sets the Go runtime for a process that serves, where its environment does not. Go
// gets one processor more than computes: for sockets, which would otherwise wait for a pass. So a
// backend opened later wants its threads said. Garbage is collected at 25 % (GOGC), because
// weights, keys and values are large and stay.
func TuneProcess() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}
