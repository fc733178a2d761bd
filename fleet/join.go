package fleet

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"unmask/internal/atomicfile"
)

// secrets are the keys with which workers join and recognise the hub. They are in a file beside the
// run, so a restarted hub is the same to its workers.
type secrets struct {
	// id is that of the fleet, in its subjects.
	id string

	// token has 256 bits, in hexadecimal digits.
	token string

	// cert is the PEM of a certificate and its key.
	cert []byte
}

const (
	idBytes    = 8
	tokenBytes = 32
)

// randomHex returns n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// newSecrets makes new ones.
func newSecrets() (*secrets, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// Workers do not check its validity: the join line has its hash, and clocks may be wrong.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "unmask"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Unix(1<<34, 0),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, block := range []pem.Block{{Type: "CERTIFICATE", Bytes: cert},
		{Type: "PRIVATE KEY", Bytes: private}} {
		if err := pem.Encode(&b, &block); err != nil {
			return nil, err
		}
	}
	return &secrets{randomHex(idBytes), randomHex(tokenBytes), b.Bytes()}, nil
}

// maxSecrets bounds files of tokens and certificates, in bytes.
const maxSecrets = 1 << 20

// openSecrets reads the file name, or makes new secrets if it does not exist or name is "".
func openSecrets(name string) (*secrets, error) {
	data, err := atomicfile.ReadSmall(name, maxSecrets)
	if name == "" || errors.Is(err, fs.ErrNotExist) {
		return newSecrets()
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return nil, fmt.Errorf("%s has mode %#o, want 0600: others can read its token", name,
			info.Mode().Perm())
	}

	// The file has the line for workers, then id and token, then the certificate.
	_, afterLine, _ := bytes.Cut(data, []byte("\n"))
	idAndToken, cert, _ := bytes.Cut(afterLine, []byte("\n"))
	fields := strings.Fields(string(idAndToken))
	if len(fields) != 2 || !isHex(fields[0], idBytes) || !isHex(fields[1], tokenBytes) ||
		len(cert) == 0 {
		return nil, fmt.Errorf("%s is no file of a hub, want one that a hub wrote, or none", name)
	}
	return &secrets{fields[0], fields[1], cert}, nil
}

// write puts the secrets into a file that nobody else can read, under the line for workers.
func (s *secrets) write(name, line string) error {
	if name == "" {
		return nil
	}
	return atomicfile.WritePrivate(name, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n%s %s\n%s", line, s.id, s.token, s.cert)
		return err
	})
}

// isHex reports whether text is n bytes in lower-case hexadecimal digits.
func isHex(text string, n int) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == n && strings.ToLower(text) == text
}

// JoinLine is a line that a hub prints, by which workers join.
type JoinLine struct {
	// ID is that of the fleet.
	ID string

	// Token is "" with an outside NATS, whose own URL has what it asks for.
	Token string

	// Host is host:port.
	Host string

	// Cert is the SHA-256 of the hub's certificate in hexadecimal digits. It is "" for a hub that
	// listens on its own machine alone.
	Cert string

	// URL is that of an outside NATS.
	URL string
}

// validName is a worker's name.
var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// String writes the line:
//
//	unmask://TOKEN@10.0.0.5:4333?id=ID&cert=sha256:HASH
//	nats://nats.example:4222?id=ID
func (j JoinLine) String() string {
	if j.URL != "" {
		separator := "?"
		if strings.Contains(j.URL, "?") {
			separator = "&"
		}
		return j.URL + separator + "id=" + j.ID
	}
	line := "unmask://" + j.Token + "@" + j.Host + "?id=" + j.ID
	if j.Cert != "" {
		line += "&cert=sha256:" + j.Cert
	}
	return line
}

// ParseJoinLine reads such a line, or the first line of @FILE. Errors do not have the line, because
// it has a token.
func ParseJoinLine(text string) (JoinLine, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		data, err := atomicfile.ReadSmall(file, maxSecrets)
		if err != nil {
			return JoinLine{}, err
		}
		line, _, _ := strings.Cut(string(data), "\n")
		text = strings.TrimSpace(line)
	}
	invalid := func(format string, args ...any) (JoinLine, error) {
		problem := fmt.Sprintf(format, args...)
		return JoinLine{}, fmt.Errorf("join line %s, want the line that a hub printed, or @FILE",
			problem)
	}
	u, err := url.Parse(text)
	if err != nil {
		return invalid("is no URL")
	}
	query := u.Query()
	id := query.Get("id")
	if !isHex(id, idBytes) {
		return invalid("has no id")
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
		query.Del("id")
		u.RawQuery = query.Encode()
		return JoinLine{ID: id, URL: u.String()}, nil
	case "unmask":
	default:
		return invalid("begins with %q", u.Scheme+"://")
	}
	j := JoinLine{ID: id, Token: u.User.Username(), Host: u.Host}
	cert, isSHA256 := strings.CutPrefix(query.Get("cert"), "sha256:")
	_, _, err = net.SplitHostPort(j.Host)
	switch {
	case err != nil:
		return invalid("has no host and port")
	case !isHex(j.Token, tokenBytes):
		return invalid("has no token of %d bits", 8*tokenBytes)
	case query.Has("cert") && (!isSHA256 || !isHex(cert, sha256.Size)):
		return invalid("has no hash of a certificate")
	}
	j.Cert = cert
	return j, nil
}

// pinCertificate returns the TLS of a worker: the hub's certificate must be the one of the join
// line, whatever its name and dates. That is safer than an authority, which could certify another.
func pinCertificate(hash string, now clock) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true,
		MinVersion:         tls.VersionTLS13,
		Time:               now,
		VerifyPeerCertificate: func(certs [][]byte, _ [][]*x509.Certificate) error {
			if len(certs) > 0 && digest(certs[0]) == hash {
				return nil
			}
			return errCertificate
		},
	}
}

var errCertificate = errors.New("the hub's certificate is not the one of the join line")

// reachableHost returns the address under which others find a listener. For one that listens on all
// addresses it is the first of this machine that others can reach.
func reachableHost(host string) string {
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return host
	}
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
