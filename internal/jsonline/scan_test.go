package jsonline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// jsonPieces are what drawn texts are made of: tokens of JSON, and what almost is one.
var jsonPieces = []string{"{", "}", "[", "]", ",", ":", " ", "\n", `"a"`, `"b"`, `"\u0061"`, `"\n"`,
	`"\ud83d\ude00"`, `"\ud800"`, `"\x"`, `"\u12"`, `"`, "\\", "é", "0", "-", "1.5", "2e+3", "01",
	"1.", "true", "false", "null", "nul", "\x00", `{"a":1}`, `[1,2]`, `"a":`, `"b":`,
	`"c":{"d":[]}`}

// A text is read as encoding/json reads it, but for what Check refuses beside; with two names that
// are one, or half of a pair, it is refused by its kind.
func TestScanReadsWhatJSONReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom(jsonPieces), 0, 12).Draw(t, "pieces")
		text := []byte(strings.Join(pieces, ""))
		err := Check(text)
		if err == nil {
			require.True(t, json.Valid(text), "%q", text)
			return
		}
		kind := err.(*Error).Kind
		require.Equal(t, !json.Valid(text), kind == Syntax, "%q: %v", text, err)
	})
}

// jsonValue draws a value of JSON.
func jsonValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 {
			kind = min(kind, 3)
		}
		switch kind {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "flag")
		case 2:
			return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
		case 3:
			return rapid.String().Draw(t, "text")
		case 4:
			return rapid.SliceOfN(jsonValue(depth-1), 0, 4).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.String(), jsonValue(depth-1), 0, 4).Draw(t, "object")
	})
}

// Values of an object, and elements of a list, are those that encoding/json finds, wherever there
// is white space.
func TestPartsAreThoseOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValue(3).Draw(t, "value")
		text, err := json.Marshal(value)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, text, " ", "\t"))
			text = append([]byte("\r\n "), indented.Bytes()...)
		}
		require.NoError(t, Check(text))

		var fields map[string]json.RawMessage
		if ValueKind(text) != "an object" {
			require.Nil(t, Fields(text))
		} else {
			require.NoError(t, json.Unmarshal(text, &fields))
			require.Equal(t, fields, Fields(text))
			read, err := Limits{Depth: MaxDepth}.ReadObject(t.Context(), text)
			require.NoError(t, err)
			require.Equal(t, fields, read)
		}
		var list []json.RawMessage
		if ValueKind(text) == "a list" {
			require.NoError(t, json.Unmarshal(text, &list))
			require.ElementsMatch(t, list, slices.Collect(Elements(text)))
		} else if ValueKind(text) != "an object" {
			require.Empty(t, slices.Collect(Elements(text)))
		}
	})
}

// Names and values are counted in the whole text.
func TestLimitsOfAWholeText(t *testing.T) {
	text := []byte(`{"a":[1,2,{"b":3}],"c":"{[,"}`)
	for _, limits := range []Limits{{Names: 3}, {Values: 7}, {Items: 3}} {
		limits.Depth = MaxDepth
		require.NoError(t, limits.Check(text))
		limits.Names--
		limits.Values--
		limits.Items--
		var refused *Error
		require.ErrorAs(t, limits.Check(text), &refused)
		require.Equal(t, TooMany, refused.Kind)
	}
}

// A client that leaves ends the reading.
func TestReadingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := fmt.Sprintf(`{"a":[%s0]}`, strings.Repeat("0,", 1<<16))
	_, err := Limits{Depth: MaxDepth}.ReadObject(ctx, []byte(text))
	require.ErrorIs(t, err, context.Canceled)
}
