package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/server"
	refused "unmask/testkit/refusal"
)

// keyFile writes a file of keys.
func keyFile(t testing.TB, text string) string {
	name := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestKeys(t *testing.T) {
	file := keyFile(t, "# clients\nalice:alice-secret\n\nbob:bob-secret:1\n")
	keys, err := server.LoadKeys(file)
	require.NoError(t, err)
	_, h := serving(t, server.Options{Keys: keys})
	status, header, data := get(t, h.URL+"/v1/models")
	refusal{"", 401, "missing_api_key", "", "there is no key"}.compare(t, status, header, data)
	require.Equal(t, `Bearer realm="unmask"`, header.Get("WWW-Authenticate"))
	for _, wrong := range []string{"Bearer wrong-secret", "Bearer alice-secre", "Bearer alice",
		"Basic YTpi",
		"Bearer ", "Bearer alice-secret bob-secret:1"} {
		status, header, data = get(t, h.URL+"/v1/models", "Authorization", wrong)
		refusal{wrong, 401, "invalid_api_key", "", "not known"}.compare(t, status, header, data)
	}
	alice, bob := "Bearer alice-secret", "Bearer bob-secret:1"
	for _, right := range []string{alice, bob} {
		status, _, _ = get(t, h.URL+"/v1/models", "Authorization", right)
		require.Equal(t, 200, status)
	}
	for _, open := range []string{"/healthz", "/readyz"} {
		status, _, _ = get(t, h.URL+open)
		require.Equal(t, 200, status)
	}
	// The file is read again; one that is wrong changes nothing.
	require.NoError(t, os.WriteFile(file, []byte("carol:carol-secret\n"), 0o600))
	require.NoError(t, keys.Reload())
	status, _, _ = get(t, h.URL+"/v1/models", "Authorization", alice)
	require.Equal(t, 401, status)
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	require.EqualError(t, keys.Reload(),
		"line 1 is no NAME:KEY with a name of letters, digits, dots, "+
			"dashes and underscores")
	status, _, _ = get(t, h.URL+"/v1/models", "Authorization", "Bearer carol-secret")
	require.Equal(t, 200, status)
}

func TestKeyFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "there is no key, want lines NAME:KEY",
		"a:short":                        "line 1 has a key of 5 bytes, want 8 to 1024",
		"a b:long-enough":                "line 1 is no NAME:KEY",
		"a:" + strings.Repeat("x", 1025): "line 1 has a key of 1025 bytes",
		"a:long-enough\nb:long-enough":   "line 2 gives b the key of a, want one of its own",
	} {
		_, err := server.LoadKeys(keyFile(t, text))
		require.ErrorContains(t, err, want)
	}
	file := keyFile(t, "a:long-enough")
	require.NoError(t, os.Chmod(file, 0o644))
	_, err := server.LoadKeys(file)
	require.EqualError(t, err, "mode is 0644, want 0600: others may read it")
	_, err = server.LoadKeys(t.TempDir())
	require.ErrorContains(t, err, "want 0600")
	_, err = server.LoadKeys(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestHostsAndOrigins(t *testing.T) {
	_, h := serving(t, server.Options{Hosts: []string{"gpu.example.org"}, Listen: "10.0.0.5:8080",
		Origins: []string{"https://app.example.org"}})
	for _, host := range []string{"localhost", "localhost:8080", "127.0.0.1:9", "[::1]:80",
		"LOCALHOST",
		"10.0.0.5:8080", "gpu.example.org", "gpu.example.org:443"} {
		status, _, data := get(t, h.URL+"/v1/models", "Host", host)
		require.Equal(t, 200, status, "%s: %s", host, data)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example",
		"10.0.0.6",
		"127.0.0.1.nip.io"} {
		status, header, data := get(t, h.URL+"/v1/models", "Host", host)
		refusal{host, 403, "host_not_allowed", "", "host"}.compare(t, status, header, data)
	}
	status, _, _ := get(t, h.URL+"/healthz", "Host", "10.1.2.3:8080") // a probe's
	require.Equal(t, 200, status)

	send := func(header ...string) (int, http.Header, []byte) {
		r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(with(`"steps":1`)))
		require.NoError(t, err)
		return do(t, r, append(header, "Content-Type", "application/json")...)
	}
	for _, bad := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		status, header, data := send(bad...)
		refusal{bad[1], 403, "origin_not_allowed", "", "another origin"}.compare(t, status, header, data)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"))
	}
	for _, good := range [][]string{{"Origin", h.URL}, {"Sec-Fetch-Site", "same-origin"},
		{"Sec-Fetch-Site", "none"}, {"Origin", "https://app.example.org", "Sec-Fetch-Site",
			"cross-site"}} {
		status, _, data := send(good...)
		require.Equal(t, 200, status, "%s: %s", good, data)
	}
	_, header, _ := send("Origin", "https://app.example.org")
	require.Equal(t, "https://app.example.org", header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, header.Get("Vary"), "Origin")
	require.Empty(t, header.Get("Access-Control-Allow-Credentials"))
	for origin, want := range map[string]int{"https://app.example.org": 204,
		"https://evil.example": 405} {
		r, err := http.NewRequest("OPTIONS", h.URL+"/v1/completions", nil)
		require.NoError(t, err)
		const asked = "authorization,content-type,x-stainless-lang" // as OpenAI's client
		status, header, _ := do(t, r, "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", asked)
		require.Equal(t, want, status)
		if want == 204 {
			require.Equal(t, asked, header.Get("Access-Control-Allow-Headers"))
		}
	}
	_, err := server.New(server.Options{Origins: []string{"example.org"}})
	refused.Require(t, err, "allow-origin", `"example.org"`)
}

// Options that no server can run with are refused when it is made, and so is no model.
func TestOptionsAreChecked(t *testing.T) {
	for text, o := range map[string]server.Options{
		"queue is -1":               {Queue: -1},
		"memory is -1":              {Memory: -1},
		"cache is -1":               {Cache: -1},
		"timeout is -1s":            {Timeout: -time.Second},
		"rows is -1":                {Rows: -1},
		`voices is "guard_test.go"`: {Voices: "guard_test.go"},
	} {
		s, err := server.New(o)
		refused.RequireText(t, err, text)
		require.Nil(t, s)
	}
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	defer s.Close()
	refused.Require(t, s.Add(server.Model{Name: "x"}), "model", "nil")
}

// A server on all addresses answers to the one that it was asked by.
func TestWildcardListeners(t *testing.T) {
	_, h := serving(t, server.Options{Listen: ":8080"})
	status, _, _ := get(t, h.URL+"/v1/models", "Host", "10.0.0.6:8080")
	require.Equal(t, 403, status)
	status, _, _ = get(t, h.URL+"/v1/models")
	require.Equal(t, 200, status)
	for address, ok := range map[string]bool{"127.0.0.1:8080": true, "localhost:0": true,
		"[::1]:1":      true,
		"0.0.0.0:8080": false, ":8080": false, "10.0.0.5:1": false, "example.org:1": false,
		"8080": false} {
		require.Equal(t, ok, server.CheckAddress(address) == nil, address)
	}
	require.ErrorContains(t, server.CheckAddress("0.0.0.0:8080"), "want --keys FILE, or --no-keys")
}

func TestRequestIDs(t *testing.T) {
	_, h := serving(t, server.Options{})
	for given, kept := range map[string]bool{"my-request.7_A": true, "": false, "a b": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, `<script>`: false} {
		_, header, _ := get(t, h.URL+"/healthz", "X-Request-Id", given)
		require.Equal(t, kept, header.Get("X-Request-Id") == given, given)
		require.NotEmpty(t, header.Get("X-Request-Id"))
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
	}
}
