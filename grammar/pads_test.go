package grammar_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/grammar"
)

// After an end anything may follow that stands anywhere in a text, and what is before it need not
// end.
func TestAnyTokensFollowAnEnd(t *testing.T) {
	v := vocabulary()
	end := int32(len(spelled))
	const pad = 3
	for _, e := range []string{"zzzz", "a", "ab"} {
		d, err := grammar.Avoid([]string{e}, "", "", nil)
		require.NoError(t, err)
		m, err := d.Tokens(v, grammar.TokenOptions{EndTokens: []int32{end}, PadTokens: []int32{pad},
			MayTruncate: true, AnyAfterEnd: true})
		require.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			text := ""
			state := m.Start
			ended := false
			for _, id := range rapid.SliceOfN(rapid.Int32Range(0, end), 0, 8).Draw(t, "tokens") {
				isText := id != end && id != pad
				if isText && spelled[id] == "" {
					continue // it is never drawn
				}
				if isText && !d.Match(spelled[id]) && ended {
					require.Negative(t, m.Next(state, id), "it stands nowhere")
					continue
				}
				if isText && !ended {
					text += spelled[id]
				}
				ended = ended || id == end
				state = m.Next(state, id)
				if !d.Match(text) {
					require.Negative(t, state)
					return
				}
				require.True(t, m.Accepts(state))
			}
		})
	}
}

// A token that pads is the empty word: tokens with pads among them are in the language if and only
// if they are without, before an end and behind it. One that is an end token ends a text.
func TestPadsAreTheEmptyWord(t *testing.T) {
	v := vocabulary()
	end := int32(len(spelled))
	const pad = 3 // "x", which no expression below reads then
	for _, e := range expressions {
		d, err := grammar.Regexp(e, nil)
		require.NoError(t, err)
		for _, ends := range [][]int32{nil, {end}, {end, pad}} {
			padIsEnd := slices.Contains(ends, pad)
			m, err := d.Tokens(v, grammar.TokenOptions{EndTokens: ends, FillTokens: ends,
				PadTokens: []int32{pad}})
			require.NoError(t, err)
			rapid.Check(t, func(t *rapid.T) {
				text := ""
				state := m.Start
				ended := false
				for _, id := range rapid.SliceOfN(rapid.Int32Range(0, end), 0, 8).Draw(t, "tokens") {
					if state < 0 {
						return
					}
					before := state
					state = m.Next(state, id)
					switch {
					case id == pad && !padIsEnd:
						require.Equal(t, before, state, "a pad changes nothing")
					case ended:
						if state >= 0 {
							require.Contains(t, ends, id, "an end alone follows an end")
						}
					case slices.Contains(ends, id):
						ended = true
						require.Equal(t, d.Match(text), state >= 0, "%q", text)
					case spelled[min(id, end-1)] == "" || id == end:
						require.Negative(t, state)
					default:
						text += spelled[id]
					}
				}
				if state < 0 {
					return
				}
				if ended || len(ends) == 0 {
					require.Equal(t, d.Match(text), m.Accepts(state))
				}
			})
		}
	}
}
