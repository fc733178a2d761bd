package server_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/server"
)

// Requests that begin as earlier ones take keys and values from them and get the same answers as
// from a server that keeps none: conversations in turn, of a model whose final tokens are causal
// and of one with blocks.
func TestConversationsContinue(t *testing.T) {
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-8b-tiny", "sdar-tiny"} {
		m, err := unmask.LoadFS(os.DirFS("../testdata/packs/"+pack), pack,
			unmask.Options{Backend: cpu.New(cpu.Options{})})
		require.NoError(t, err)
		urls := map[int64]string{}
		for _, keep := range []int64{0, -1} {
			s, err := server.New(server.Options{Keep: keep})
			require.NoError(t, err)
			require.NoError(t, s.Add(server.Model{Name: pack, Model: m}))
			h := httptest.NewServer(describedHandler(t, s.Handler()))
			t.Cleanup(func() { h.Close(); s.Close() })
			urls[keep] = h.URL
		}
		talks, recalled := []string{"12", "13"}, 0
		for turn := range 8 {
			talk := &talks[turn%2]
			for i := range 30 {
				*talk += fmt.Sprint(" ", 20+(7*i+turn)%70)
			}
			body := fmt.Sprintf(`{"prompt":"%s","max_tokens":8,"seed":%d,"logprobs":1}`, *talk, turn)
			got, want := ask(t, urls[0]+"/v1/completions", body), ask(t, urls[-1]+"/v1/completions", body)
			require.Equal(t, want.Choices, got.Choices, "%s, turn %d", pack, turn)
			require.Zero(t, want.Unmask.Evaluated.Recalled)
			recalled += got.Unmask.Evaluated.Recalled
			*talk += " " + strings.TrimSpace(want.Choices[0].Text)
		}
		require.Greater(t, recalled, 100, pack)
	}
}
