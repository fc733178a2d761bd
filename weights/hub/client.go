// Package hub downloads model repositories from the Hugging Face Hub to the cache of
// huggingface_hub, so that both share every file:
//
//	<cache>/models--org--name/blobs/<etag>                 contents
//	<cache>/models--org--name/refs/<revision>              a commit
//	<cache>/models--org--name/snapshots/<commit>/<file>    links to blobs
//	<cache>/.locks/models--org--name/<etag>.lock
//
// The layout is described at https://huggingface.co/docs/hub/local-cache. A blob's name is the hash
// of its contents, which is checked before the blob gets its name: files in the cache are complete
// and correct.
package hub

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Client downloads from one endpoint to one cache. Cache and Endpoint must be set; zero values of
// the other fields are usable. A Client is safe for concurrent use.
type Client struct {
	Cache    string // directory of the models--org--name folders
	Endpoint string // URL without a slash at its end
	Token    string // sent to Endpoint and to no other host
	Offline  bool   // never use the network

	// Transport carries the requests; nil is http.DefaultTransport.
	Transport http.RoundTripper

	// Retries is the number of attempts, after the first, without progress; 0 means 5, negative
	// means none.
	Retries int

	// Backoff is the wait before the first retry, doubled up to 16 times that; 0 means half a
	// second.
	Backoff time.Duration

	// Idle is the longest silence of a server; 0 means 30 seconds. There is no bound on the whole
	// time: a model of many gigabytes takes hours on a slow line.
	Idle time.Duration
}

// DefaultEndpoint is the public Hub.
const DefaultEndpoint = "https://huggingface.co"

// FromEnv returns the client described by the environment variables of huggingface_hub: HF_HOME,
// HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_OFFLINE
// and TRANSFORMERS_OFFLINE.
func FromEnv() (*Client, error) {
	userCache := cmp.Or(firstEnv("XDG_CACHE_HOME"), "~/.cache")
	home := cmp.Or(firstEnv("HF_HOME"), filepath.Join(userCache, "huggingface"))
	cache, err := expandPath(cmp.Or(firstEnv("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
		filepath.Join(home, "hub")))
	if err != nil {
		return nil, err
	}
	c := &Client{
		Cache:    cache,
		Endpoint: DefaultEndpoint,
		Offline:  isTrue(firstEnv("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
	}
	if endpoint := firstEnv("HF_ENDPOINT"); endpoint != "" {
		c.Endpoint = strings.TrimRight(endpoint, "/")
	}
	if _, err := c.endpointURL(); err != nil {
		return nil, fmt.Errorf("HF_ENDPOINT: %w", err)
	}
	c.Token, err = readToken(home)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readToken returns the token of the environment or of the file where `hf auth login` puts it; ""
// if there is none.
func readToken(home string) (string, error) {
	if isTrue(firstEnv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return "", nil
	}
	source := "HF_TOKEN"
	token := firstEnv("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
	if token == "" {
		source = cmp.Or(firstEnv("HF_TOKEN_PATH"), filepath.Join(home, "token"))
		file, err := expandPath(source)
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return "", fmt.Errorf("token file: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	// It becomes a header, in which a line break would begin another one.
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: the token has characters that no token has", source)
	}
	return token, nil
}

// firstEnv returns the first variable that is not blank.
func firstEnv(names ...string) string {
	for _, name := range names {
		if v := strings.TrimSpace(os.Getenv(name)); v != "" {
			return v
		}
	}
	return ""
}

// isTrue reads a variable as huggingface_hub does.
func isTrue(v string) bool {
	switch strings.ToUpper(v) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

var envVariable = regexp.MustCompile(`\$(?:\w+|\{[^}]*\})`)

// expandPath replaces a leading ~ by the user's home, then $NAME and ${NAME} by variables, as
// Python's expanduser and expandvars do: unset ones stay.
func expandPath(name string) (string, error) {
	if name == "~" || strings.HasPrefix(name, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%s: no home directory, set HF_HOME: %w", name, err)
		}
		name = filepath.Join(home, name[1:])
	}
	return envVariable.ReplaceAllStringFunc(name, func(ref string) string {
		if value, ok := os.LookupEnv(strings.Trim(ref, "${}")); ok {
			return value
		}
		return ref
	}), nil
}

// endpointURL parses Endpoint.
func (c *Client) endpointURL() (*url.URL, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("endpoint is %.100q, want https://host", c.Endpoint)
	}
	return u, nil
}

// List calls [Client.List] with the client of the environment.
func List() ([]Snapshot, error) {
	c, err := FromEnv()
	if err != nil {
		return nil, err
	}
	return c.List()
}
