package server

import (
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
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"unmask/internal/atomicfile"
)

// Listeners say where a server listens.
type Listeners struct {
	// Address is that of the public routes, such as 127.0.0.1:8080.
	Address string

	// Cert and Key are files for TLS, "" for none.
	Cert string
	Key  string

	// Metrics is the address of /metrics, "" for none.
	Metrics string

	// Drain is the time for what has begun, after the end of ctx.
	Drain time.Duration
}

// CheckAddress refuses an address beyond loopback for a server that everybody may ask.
func CheckAddress(address string) error {
	if err := CheckHostPort(address); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("address is %s, open to other machines, want --keys FILE, or --no-keys to let "+
		"everybody in", address)
}

// CheckHostPort refuses what is not a host and a port, such as the path of a Unix socket.
func CheckHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && !strings.ContainsAny(host+port, "/\\") && !strings.HasPrefix(address, "unix:") {
		return nil
	}
	return fmt.Errorf("address is %.80q, want HOST:PORT such as 127.0.0.1:8080", address)
}

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 64 << 10

// Run listens until ctx ends, then drains and closes the server. ready is called with the address
// once requests are answered. When hard ends, draining ends too.
func (s *Server) Run(ctx, hard context.Context, l Listeners, ready func(url string)) error {
	defer s.Close()
	var tlsConfig *tls.Config
	scheme := "http"
	if l.Cert != "" {
		pair, err := loadCertificate(l.Cert, l.Key)
		if err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		tlsConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
		scheme = "https"
	}
	servers, listeners, err := s.listen(l)
	if err != nil {
		return err
	}
	failed := make(chan error, len(servers))
	for i, h := range servers {
		go func() {
			if i == 0 && tlsConfig != nil { // metrics have no TLS
				h.TLSConfig = tlsConfig
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

	// Answers of calls that were given up are still on their way.
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, h := range servers {
		if h.Shutdown(last) != nil {
			h.Close()
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// loadCertificate reads the files of a certificate and of its key.
func loadCertificate(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := atomicfile.ReadSmall(certFile, maxKeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := atomicfile.ReadSmall(keyFile, maxKeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// listen listens at the addresses that are set; the first is the public one.
func (s *Server) listen(l Listeners) (servers []*http.Server, listeners []net.Listener, err error) {
	for i, place := range []struct {
		flag    string
		address string
		handler http.Handler
	}{
		{"listen", l.Address, s.Handler()},
		{"metrics", l.Metrics, s.Metrics()},
	} {
		if place.address == "" && i > 0 {
			continue
		}
		listener, err := net.Listen("tcp", place.address)
		if err != nil {
			for _, other := range listeners {
				other.Close()
			}
			if op, ok := errors.AsType[*net.OpError](err); ok {
				err = op.Err // its text has the address again
			}
			return nil, nil, fmt.Errorf("--%s %s: %w", place.flag, place.address, err)
		}
		if i == 0 && l.Cert == "" { // below TLS there is nothing to read
			listener = faultListener{listener}
		}
		listeners = append(listeners, listener)
		servers = append(servers, &http.Server{
			Handler:           place.handler,
			MaxHeaderBytes:    maxHeader - 4096, // it allows 4 KiB more
			ReadHeaderTimeout: s.timeouts.header,
			IdleTimeout:       s.timeouts.idle,
			ErrorLog:          log.New(io.Discard, "", 0), // a log of requests has their faults
		})
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
// gets one processor more than there are: for sockets, which would otherwise wait for a pass. So a
// backend that is opened later must be told its number of threads. Garbage is collected at 25 %
// (GOGC), because weights, keys and values are large and stay.
func TuneProcess() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}
