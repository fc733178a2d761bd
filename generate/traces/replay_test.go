package traces

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rune over three tokens, a grid, and a position that is masked again.
const traced = `{"trace":1,"shape":[2,2],"hole":"_","known":[{"position":0,"token":7,"piece":"a"}]}
{"sample":4,"step":1,"steps":2,"opened":[{"position":1,"token":1,"bytes":"4oI=","p":0.5},{"position":2,"token":2,"bytes":"rA==","stage":1}],"closed":[]}
{"sample":4,"step":2,"steps":2,"opened":[{"position":3,"token":3,"piece":"b"}],"closed":[1],"done":true}
`

func TestReplay(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Read(strings.NewReader(traced), func(r *State, s *Step) error {
		if s.Step == 1 {
			require.Equal(t, []string{"a", "€\n", "", "_"}, r.Texts())
			require.True(t, r.Masked(3))
			require.False(t, r.Masked(2))
		}
		r.Print(&out, s)
		return nil
	}))
	require.Equal(t, "sample 4, step 1 of 2: 1 \"\uFFFD\" p=0.5, 2 \"\uFFFD\" stage 1\n"+
		"sample 4, step 2 of 2: 3 \"b\"; masked again: 1\na_\n\uFFFDb\n", out.String())
}

// Any file can be replayed to its end, with or without an error.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(traced))
	f.Add([]byte(`{"trace":1,"shape":[1048576]}` + "\n{\"step\":1}\n{\"sample\":1,\"step\":1}"))
	f.Add([]byte(`{"trace":2,"shape":[4]}`))
	f.Add([]byte(`{"trace":1,"shape":[-1,99999999999]}`))
	f.Add([]byte(`{"trace":1,"shape":[3]}` + "\n" +
		`{"sample":0,"step":1,"opened":[{"position":-1}],"closed":[7]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		_ = Read(bytes.NewReader(data), func(r *State, s *Step) error {
			if r.length > 1000 {
				return nil
			}
			r.Print(&out, s)
			require.Len(t, r.Texts(), r.length)
			return nil
		})
	})
}

// Missing lines and impossible samples are refused with the line's number.
func TestReplayRefuses(t *testing.T) {
	const head = `{"trace":1,"shape":[2],"hole":"_","known":[]}` + "\n"
	for lines, want := range map[string]string{
		`{"sample":-1,"step":1,"steps":2,"opened":[]}`: "line 2: sample is -1, want at least 0",
		`{"sample":0,"step":3,"steps":2,"opened":[]}`:  "line 2: step is 3 of 2",
		`{"sample":0,"step":2,"steps":2,"opened":[]}`:  "sample 0: step is 2, want 1: lines are missing",
		`{"sample":0,"step":1,"steps":4,"opened":[]}` + "\n" +
			`{"sample":0,"step":3,"steps":4,"opened":[]}`: "sample 0: step is 3, want 2",
		`{"sample":0,"step":1,"steps":9999999,"opened":[]}`: "line 2: step is 1 of 9999999, want at " +
			"most 1048576",
		`{"sample":0,"step":1,"steps":1,"opened":[],"done":true}` + "\n" +
			`{"sample":0,"step":1,"steps":1,"opened":[],"done":true}`: "sample 0 goes on after its end",
		`{"sample":0,"step":1,"steps":4,"opened":[{"position":0,"token":-3}]}`: "line 2: token at " +
			"position 0 is -3, want at least 0",
		`{"sample":3,"step":1,"steps":4,"opened":[]}`: "sample 3 ends after step 1 of 4",
		`{"sample":1,"step":1,"steps":2,"opened":[]}` + "\n" +
			`{"sample":0,"step":1,"steps":2,"opened":[]}`: "sample 0 ends after step 1 of 2; 2 samples do not end",
		`{"sample":0,"step":1,"steps":4,"opened":[{"position":2,"token":0}]}`: "line 2: " +
			"position is 2, want 0 to 1",
		`{"sample":0,"step":1,"steps":4,"opened":[{"position":0,"token":0,"p":2}]}`: "probability " +
			"at position 0 is 2, want 0 to 1",
	} {
		show := func(*State, *Step) error { return nil }
		require.ErrorContains(t, Read(strings.NewReader(head+lines), show), want)
		require.ErrorContains(t, ReadSamples(strings.NewReader(head+lines), show), want)
	}
}

// A key that is missing, or null, is not read as 0.
func TestReplayRefusesMissingKeys(t *testing.T) {
	const head, known = `{"trace":1,"shape":[2],"known":[]}` + "\n", `{"trace":1,"shape":[2],"known":`
	for lines, want := range map[string]string{
		head + `{"step":1,"steps":4,"opened":[]}`:   "line 2: sample is missing, want a number",
		head + `{"sample":0,"step":1,"opened":[]}`:  "line 2: steps is missing, want a number",
		head + `{"sample":0,"steps":4,"opened":[]}`: "line 2: it is no step of unmask text --trace",
		head + `{"sample":0,"step":1,"steps":4}`:    "line 2: opened is missing, want a list of pieces",
		opened(`null`):                              "line 2: opened is missing, want a list of pieces",
		opened(`[{"token":1}]`):                     "line 2: position is missing, want a number",
		opened(`[{"position":null,"token":1}]`):     "line 2: position is missing, want a number",
		opened(`[{"position":0}]`):                  "line 2: token is missing, want a number",
		`{"trace":1,"shape":[2]}`:                   "line 1: known is missing, want a list of pieces",
		known + `[{"token":1}]}`:                    "line 1: position is missing, want a number",
		known + `[{"position":1}]}`:                 "line 1: token is missing, want a number",
	} {
		require.EqualError(t, Read(strings.NewReader(lines), nil), want, lines)
	}
}

// opened returns a trace of one step that opened these pieces.
func opened(pieces string) string {
	return `{"trace":1,"shape":[2],"known":[]}` + "\n" + `{"sample":0,"step":1,"steps":4,"opened":` +
		pieces + "}"
}
