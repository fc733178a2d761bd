package server_test

import (
	"fmt"
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
		var clock stopped
		g, s, h := gatedAt(t, server.Options{Keys: keys, Queue: 3, Timeout: time.Minute}, clock.now)
		measurePace(t, g, h, "bob-secret:1", &clock)
		waiting := 0
		// ask returns the status and the answer of a request that is refused, 0 for one that waits.
		ask := func(key, fields string, seed int) (status int, answer string) {
			done := laterBy(t, key, h.URL+"/v1/completions",
				fmt.Sprintf(`{"prompt":"A","seed":%d,%s}`, seed, fields))
			eventually(t, func() bool { return len(done) > 0 || s.Watching() > waiting }, "it waits")
			if len(done) == 0 {
				waiting++
				return 0, ""
			}
			a := <-done
			require.NoError(t, a.err)
			return a.status, string(a.data)
		}
		refused := 0
		for seed := 0; seed < 9 && refused == 0; seed++ {
			refused, _ = ask("alice-secret", fill, seed)
		}
		require.Equal(t, 429, refused, name)
		status, data := ask("bob-secret:1", `"max_tokens":9,"steps":2`, 100)
		require.Equal(t, 0, status, "%s: %s", name, data)
		g.unshut()
		s.Close() // which gives all of them up
	}
}
