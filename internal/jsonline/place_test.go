package jsonline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The place of any value in any text is the names and numbers that lead to it, also where the value
// is no UTF-8 and where the text ends behind it.
func TestPlaceOf(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		var want string
		var draw func(depth int, place string, hasMark bool) any
		draw = func(depth int, place string, hasMark bool) any {
			kind := rapid.IntRange(0, 2).Draw(t, "kind")
			if depth == 0 || kind == 0 {
				if hasMark {
					want = place
					return "a]\"{\\MARK,:"
				}
				return rapid.SampledFrom([]any{nil, 1.5, "x", "]},:\"\\", true}).Draw(t, "value")
			}
			n := rapid.IntRange(1, 4).Draw(t, "entries")
			marked := rapid.IntRange(0, n-1).Draw(t, "marked")
			list := make([]any, n)
			object := map[string]any{}
			for i := range n {
				name := fmt.Sprintf("n%d", i)
				if kind == 1 {
					list[i] = draw(depth-1, fmt.Sprintf("%s[%d]", place, i), hasMark && i == marked)
				} else {
					object[name] = draw(depth-1, strings.TrimPrefix(place+"."+name, "."),
						hasMark && i == marked)
				}
			}
			if kind == 1 {
				return list
			}
			return object
		}
		text, err := json.Marshal(draw(3, "", true))
		require.NoError(t, err)
		offset := strings.Index(string(text), "MARK")
		text[offset] = 0xff
		require.Equal(t, want, PlaceOf(text, offset), "%s", text)
		require.Equal(t, want, PlaceOf(text[:offset+1], offset), "%s", text)
		if want != "" {
			seen++
		}
	})
	require.Greater(t, seen, 10)
	require.Empty(t, PlaceOf([]byte(strings.Repeat("[", 1000)), 1000))
}
