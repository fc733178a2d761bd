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
	list atomic.Pointer[[]key]
}

// key is a client's name and the SHA-256 of its key.
type key struct {
	name string
	sum  [sha256.Size]byte
}

// Bounds of a key, in bytes.
const (
	shortestKey = 8
	longestKey  = 1024
)

// LoadKeys reads a file of keys: a line NAME:KEY each, blank lines and those that begin with # left
// out. Its owner alone may read it, and no two names have one key. Errors do not name the file.
func LoadKeys(file string) (*Keys, error) {
	k := &Keys{file: file}
	return k, k.Reload()
}

// maxKeys bounds a file of keys or of a certificate, in bytes.
const maxKeys = 1 << 20

// Reload reads the file again. After an error the keys stay as they were.
func (k *Keys) Reload() error {
	info, err := os.Stat(k.file)
	if err != nil {
		return atomicfile.WithoutPath(err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return fmt.Errorf("mode is %04o, want 0600: others may read it", mode.Perm())
	}
	text, err := atomicfile.ReadSmall(k.file, maxKeys)
	if err != nil {
		return atomicfile.WithoutPath(err)
	}
	var list []key
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
			return fmt.Errorf("line %d is no NAME:KEY with a name of letters, digits, dots, dashes and "+
				"underscores", i+1)
		case len(secret) < shortestKey || len(secret) > longestKey:
			return fmt.Errorf("line %d has a key of %d bytes, want %d to %d", i+1, len(secret), shortestKey,
				longestKey)
		case owner != name:
			return fmt.Errorf("line %d gives %s the key of %s, want one of its own", i+1, name, owner)
		}
		owners[sum] = name
		list = append(list, key{name, sum})
	}
	if len(list) == 0 {
		return errors.New("there is no key, want lines NAME:KEY")
	}
	k.list.Store(&list)
	return nil
}

// find returns the name of a key, in the same time for every key.
func (k *Keys) find(secret string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, one := range *k.list.Load() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			name, ok = one.name, true
		}
	}
	return name, ok
}

// authorize refuses a request without a valid key if the server has keys, and notes the key's name.
func (s *Server) authorize(r *http.Request) *Fault {
	if s.o.Keys == nil {
		return nil
	}
	given := r.Header.Get("Authorization")
	if own := r.Header.Get("X-Api-Key"); given == "" && own != "" { // as Anthropic's clients send it
		given = "Bearer " + own
	}
	scheme, secret, _ := strings.Cut(given, " ")
	f := fault(http.StatusUnauthorized, "invalid_api_key", "the key is not known")
	f.header = [2]string{"WWW-Authenticate", `Bearer realm="unmask"`}
	if given == "" {
		f.Code, f.Message = "missing_api_key", "there is no key, want Authorization: Bearer KEY"
		return f
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return f
	}
	name, ok := s.o.Keys.find(strings.TrimSpace(secret))
	if !ok {
		return f
	}
	note(r).key = name
	return nil
}
