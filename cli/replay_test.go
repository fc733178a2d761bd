package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// A rune over three tokens, a grid, and a position that is masked again.
const traced = `{"trace":1,"shape":[2,2],"hole":"_","known":[{"position":0,"token":7,"piece":"a"}]}
{"sample":4,"step":1,"steps":2,"opened":[{"position":1,"token":1,"bytes":"4oI=","p":0.5},{"position":2,"token":2,"bytes":"rA==","stage":1}],"closed":[]}
{"sample":4,"step":2,"steps":2,"opened":[{"position":3,"token":3,"piece":"b"}],"closed":[1],"done":true}
`

func TestReplay(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, replay(strings.NewReader(traced), func(r *replayed, s *traceStep) error {
		if s.Step == 1 {
			require.Equal(t, []string{"a", "€\n", "", "_"}, r.texts())
			p := r.picture(s)
			require.True(t, p.masked(3))
			require.True(t, p.fresh(2))
			require.False(t, p.fresh(0))
		}
		r.print(&out, s)
		return nil
	}))
	require.Equal(t, "sample 4, step 1 of 2: 1 \"\uFFFD\" p=0.5, 2 \"\uFFFD\" stage 1\n"+
		"sample 4, step 2 of 2: 3 \"b\"; masked again: 1\na_\n\uFFFDb\n", out.String())
}

// Whatever a file holds, replaying it ends, with an error or without.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(traced))
	f.Add([]byte(`{"trace":1,"shape":[1048576]}` + "\n{\"step\":1}\n{\"sample\":1,\"step\":1}"))
	f.Add([]byte(`{"trace":2,"shape":[4]}`))
	f.Add([]byte(`{"trace":1,"shape":[-1,99999999999]}`))
	f.Add([]byte(`{"trace":1,"shape":[3]}` + "\n" + `{"sample":0,"step":1,"opened":[{"position":-1}],"closed":[7]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		_ = replay(bytes.NewReader(data), func(r *replayed, s *traceStep) error {
			if r.length > 1000 {
				return nil
			}
			r.print(&out, s)
			require.Len(t, r.texts(), r.length)
			return nil
		})
	})
}

// Whatever a file holds, a schedule that is read opens everything in the end.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte(`{"times":[0.5,0.25,0]}`))
	f.Add([]byte(`{"times":[1,0]}`))
	f.Add([]byte(`{"times":[0.1,0.2,-1e999]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := readSchedule(data); err == nil {
			require.Equal(t, 64, samplers.Open(s, 4, 4, 64))
			require.LessOrEqual(t, samplers.Open(s, 1, 4, 64), samplers.Open(s, 2, 4, 64))
		}
	})
}
