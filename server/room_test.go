package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// Each key has a queue of its own: one that has filled its own, by number or by time, keeps no
// other out.
func TestRoomPerKey(t *testing.T) {
	keys, err := server.LoadKeys(keyFile(t, "alice:alice-secret\nbob:bob-secret:1\n"))
	require.NoError(t, err)
	for name, fill := range map[string]string{"number": `"max_tokens":9,"steps":2`,
		"time": `"max_tokens":255,"steps":255,"n":64`} {
		g, s, h := gated(t, server.Options{Keys: keys, Queue: 3, Timeout: time.Minute})
		s.Pace(200)
		g.shut()
		job := func(key, fields string, seed int) (int, string) {
			body := fmt.Sprintf(`{"kind":"completions","request":{"prompt":"A","seed":%d,%s}}`, seed,
				fields)
			r, err := http.NewRequest("POST", h.URL+"/v1/jobs", strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+key)
			a, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer a.Body.Close()
			data, err := io.ReadAll(a.Body)
			require.NoError(t, err)
			return a.StatusCode, string(data)
		}
		refused := ""
		for seed := range 9 {
			if status, data := job("alice-secret", fill, seed); status == 429 {
				refused = data
				break
			}
		}
		require.NotEmpty(t, refused, name)
		status, data := job("bob-secret:1", `"max_tokens":9,"steps":2`, 100)
		require.Equal(t, 202, status, "%s: %s", name, data)
		g.unshut()
	}
}
