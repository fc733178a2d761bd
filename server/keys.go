package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"unmask/internal/atomicfile"
)

// Keys are the clients' keys, read from a file of lines NAME:KEY. Its methods may be called
// concurrently.
type Keys struct {
	file string
	keys atomic.Pointer[[]clientKey]
}

// clientKey is a client's name and the SHA-256 of its key.
type clientKey struct {
	name string
	sum  [sha256.Size]byte
}

// Bounds of a key, in bytes.
const (
	minKeyBytes = 8
	maxKeyBytes = 1024
)

// maxKeyFile bounds a file of keys or of a certificate, in bytes.
const maxKeyFile = 1 << 20

// LoadKeys reads a file of keys: a line NAME:KEY each, blank lines and those that begin with # left
// out. Its owner alone may read it, and no two names have one key. Errors do not name the file.
func LoadKeys(file string) (*Keys, error) {
	k := &Keys{file: file}
	return k, k.Reload()
}

// Reload reads the file again. After an error the keys stay as they were, so that a mistake in the
// file locks nobody out.
func (k *Keys) Reload() error {
	info, err := os.Stat(k.file)
	if err != nil {
		return atomicfile.WithoutPath(err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return fmt.Errorf("mode is %04o, want 0600: others may read it", mode.Perm())
	}
	text, err := atomicfile.ReadSmall(k.file, maxKeyFile)
	if err != nil {
		return atomicfile.WithoutPath(err)
	}

	var keys []clientKey
	owners := map[[sha256.Size]byte]string{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, secret, ok := strings.Cut(line, ":")
		sum := sha256.Sum256([]byte(secret))
		owner := cmp.Or(owners[sum], name)
		switch {
		case !ok || !requestID.MatchString(name):
			return fmt.Errorf("line %d is no NAME:KEY with a name of letters, digits, dots, dashes "+
				"and underscores", i+1)
		case len(secret) < minKeyBytes || len(secret) > maxKeyBytes:
			return fmt.Errorf("line %d has a key of %d bytes, want %d to %d", i+1, len(secret),
				minKeyBytes, maxKeyBytes)
		case owner != name:
			return fmt.Errorf("line %d gives %s the key of %s, want one of its own", i+1, name, owner)
		}
		owners[sum] = name // of a hash: keys themselves are not kept in memory
		keys = append(keys, clientKey{name, sum})
	}
	if len(keys) == 0 {
		return errors.New("there is no key, want lines NAME:KEY")
	}
	k.keys.Store(&keys)
	return nil
}

// find returns the name of a key. It compares all keys, each in constant time, so that the time of
// an answer tells nothing about them.
func (k *Keys) find(secret string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, key := range *k.keys.Load() {
		if subtle.ConstantTimeCompare(sum[:], key.sum[:]) == 1 {
			name = key.name
			ok = true
		}
	}
	return name, ok
}

// authorize refuses a request without a valid key if the server has keys, and notes the key's name.
func (s *Server) authorize(r *http.Request) *Fault {
	if s.o.Keys == nil {
		return nil
	}
	credentials := r.Header.Get("Authorization")
	if key := r.Header.Get("X-Api-Key"); credentials == "" && key != "" { // Anthropic's clients
		credentials = "Bearer " + key
	}
	f := newFault(http.StatusUnauthorized, "invalid_api_key", "the key is not known")
	f.header = [2]string{"WWW-Authenticate", `Bearer realm="unmask"`}
	if credentials == "" {
		f.Code = "missing_api_key"
		f.Message = "there is no key, want Authorization: Bearer KEY"
		return f
	}
	scheme, secret, _ := strings.Cut(credentials, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return f
	}
	name, ok := s.o.Keys.find(strings.TrimSpace(secret))
	if !ok {
		return f
	}
	notesOf(r).key = name
	return nil
}
