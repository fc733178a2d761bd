//go:build !nofleet

package fleet

import (
	"cmp"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// hubUser is the hub's user of the embedded server; a worker's is the key of its connection. The
// hub's password is never sent: it connects within the process.
const hubUser = "hub"

// maxConnections bounds the workers of a hub.
const maxConnections = 4096

// maxSubscriptions bounds what one connection listens to: a worker has two subscriptions.
const maxSubscriptions = 8

// overhead is the largest size of a message besides the bytes of a result or a piece.
const overhead = 1 << 20

// engine is NATS as a hub sees it: a server in this process, or a connection to one outside.
type engine struct {
	// server is nil where the server is outside this process.
	server *server.Server

	conn *nats.Conn
	join JoinLine

	// secret is the hub's password.
	secret string

	// ownKey is the key of the hub's own worker.
	ownKey string
}

// openEngine starts a server at o.Listen, or connects to o.URL.
func openEngine(o HubOptions, s *secrets) (_ *engine, err error) {
	e := &engine{
		join:   JoinLine{ID: s.id},
		secret: randomHex(tokenBytes),
		ownKey: randomHex(keyBytes),
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if o.URL != "" {
		e.join.URL = o.URL
		e.conn, err = nats.Connect(o.URL, append(connectionOptions(), nats.Name("unmask hub"))...)
		if err != nil {
			return nil, fmt.Errorf("--nats: %w", err)
		}
		return e, nil
	}
	if err := e.listen(o.Listen, s, o.now); err != nil {
		return nil, err
	}
	e.conn, err = nats.Connect("", append(connectionOptions(), nats.InProcessServer(e.server),
		nats.UserInfo(hubUser, e.secret), nats.Name("unmask hub"))...)
	return e, err
}

// listen starts the server.
func (e *engine) listen(listen string, s *secrets, now clock) error {
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--hub is %q, want HOST:PORT such as 10.0.0.5:4333", listen)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return fmt.Errorf("--hub is %q, want a port from 0 to 65535", listen)
	}
	port = cmp.Or(port, server.RANDOM_PORT)
	host = cmp.Or(host, "0.0.0.0")
	o := &server.Options{
		ServerName:                 "unmask-" + s.id,
		Host:                       host,
		Port:                       port,
		NoLog:                      true,
		NoSigs:                     true,
		MaxConn:                    maxConnections,
		MaxSubs:                    maxSubscriptions,
		MaxPayload:                 MaxResult + overhead,
		MaxPending:                 256 << 20,
		AuthTimeout:                5,
		TLSTimeout:                 5,
		WriteDeadline:              30 * time.Second,
		CustomClientAuthentication: e,
	}
	e.join.Token = s.token
	ip := net.ParseIP(host)
	isLoopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !isLoopback {
		pair, err := tls.X509KeyPair(s.cert, s.cert)
		if err != nil {
			return err
		}
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{pair},
			MinVersion:   tls.VersionTLS13,
			Time:         now,
		}
		e.join.Cert = digest(pair.Certificate[0])
	}

	// The server would end the process if its port is taken, so it is tried before.
	probe, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(max(port, 0))))
	if err != nil {
		return fmt.Errorf("--hub: %w", err)
	}
	probe.Close()
	e.server, err = server.NewServer(o)
	if err != nil {
		return err
	}
	e.server.Start()
	if !e.server.ReadyForConnections(10 * time.Second) {
		return errors.New("--hub: the server does not answer")
	}
	port = e.server.Addr().(*net.TCPAddr).Port
	e.join.Host = net.JoinHostPort(reachableHost(host), strconv.Itoa(port))
	return nil
}

// Check admits a connection that knows the token, or the hub's own password. The user name of a
// worker is a key that it drew. Under this key alone it may ask to join, for jobs and files, and
// hand in results, and it hears answers to itself and the end of the run.
func (e *engine) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	hasPassword := func(secret string) bool {
		return subtle.ConstantTimeCompare([]byte(o.Password), []byte(secret)) == 1
	}
	switch {
	case o.Username == hubUser && hasPassword(e.secret):
		c.RegisterUser(&server.User{Username: hubUser})
		return true
	case isHex(o.Username, keyBytes) && hasPassword(e.join.Token):
		id := e.join.ID
		key := o.Username
		c.RegisterUser(&server.User{Username: key, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{subject(id, "hello."+key),
				subject(id, "done."+key), subject(id, "blob."+key)}},
			Subscribe: &server.SubjectPermission{Allow: []string{inbox(id, key) + ".>",
				subject(id, "over")}},
		}})
		return true
	}
	return false
}

// connectionOptions returns the options of hub and workers: they reconnect for ever, as either may
// restart.
func connectionOptions() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.Timeout(5 * time.Second),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return min(50*time.Millisecond<<min(attempts, 6), 2*time.Second)
		}),
		nats.ReconnectBufSize(-1), // what cannot be sent is an error, and is sent again by its sender
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
}

// close ends the connection and the server.
func (e *engine) close() {
	if e.conn != nil {
		e.conn.Close()
	}
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
}

// ownOptions returns the options with which this process's own worker connects.
func (e *engine) ownOptions() []nats.Option {
	if e.server == nil {
		return nil
	}
	return []nats.Option{nats.InProcessServer(e.server), nats.UserInfo(hubUser, e.secret)}
}
