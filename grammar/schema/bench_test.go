package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/grammar"
	"unmask/grammar/schema"
)

// vocabulary returns a vocabulary of a published size: bytes, pieces of JSON, and words of
// syllables with and without a space or a quote before them.
func vocabulary(size int) *grammar.Vocabulary {
	var all []string
	for c := range 256 {
		all = append(all, string([]byte{byte(c)}))
	}
	for _, piece := range strings.Fields(`{" "} ": ", ":" "," }} ]} "] [" }, ], "}, true false null`) {
		all = append(all, piece, piece+" ", " "+piece)
	}
	syllables := strings.Fields("ka lo mi re su ta ne po vi da ho er an in on st th ch qu 12 7 é 日")
	for n := len(syllables); len(all) < size; n++ {
		word := ""
		for k := n; k > 0; k /= len(syllables) {
			word += syllables[k%len(syllables)]
		}
		all = append(all, word, " "+word, `"`+word, word+`"`)
	}
	return grammar.NewVocabulary(size, func(id int32) (string, bool) { return all[id], true })
}

// fields returns a schema of n fields of the kinds that people use.
func fields(n int) []byte {
	kinds := []string{`{"type": "string"}`, `{"type": "integer", "minimum": 0, "maximum": 1000}`,
		`{"enum": ["red", "green", "blue"]}`, `{"type": "array", "items": {"type": "string"}}`,
		`{"type": "string", "format": "date"}`, `{"type": ["number", "null"]}`}
	var list, names []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"field_%d": %s`, i, kinds[i%len(kinds)]))
		names = append(names, fmt.Sprintf(`"field_%d"`, i))
	}
	return fmt.Appendf(nil, `{"type": "object", "properties": {%s}, "required": [%s],
		"additionalProperties": false}`, strings.Join(list, ", "), strings.Join(names, ", "))
}

func TestThirtyFieldsAreSmall(t *testing.T) {
	s, err := schema.Compile(fields(30), schema.Options{})
	require.NoError(t, err)
	m, err := s.Tokens(vocabulary(150_000), grammar.TokenOptions{})
	require.NoError(t, err)
	require.Less(t, m.Bytes(), 64<<20)
	t.Logf("%d states, %d classes, %d sets, %d bytes", m.States(), m.ClassCount, len(m.Sets), m.Bytes())
}

func BenchmarkThirtyFields(b *testing.B) {
	v := vocabulary(150_000)
	for b.Loop() {
		s, err := schema.Compile(fields(30), schema.Options{})
		require.NoError(b, err)
		_, err = s.Tokens(v, grammar.TokenOptions{})
		require.NoError(b, err)
	}
}
