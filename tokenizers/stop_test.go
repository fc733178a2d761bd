package tokenizers

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// looks is a context that counts how often it is asked, and ends with one of these.
type looks struct {
	context.Context
	cancel func()

	count int
	last  int
}

// newLooks returns a context that ends when it is asked for the last time; 0 for never.
func newLooks(t *testing.T, last int) *looks {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &looks{Context: ctx, cancel: cancel, last: last}
}

func (l *looks) Err() error {
	l.count++
	if l.count == l.last {
		l.cancel()
	}
	return l.Context.Err()
}

// Encoding looks at its context all the time, whatever takes the time (many words, one that merges
// over many levels, a path through a word), ends at the first look that says so, and gives the ids
// of the tokenizer itself otherwise.
func TestEncodingEndsWithItsContext(t *testing.T) {
	unigram, err := Parse([]byte(`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0],
		["a", -1], ["b", -2], ["ab", -2.5], ["ba", -3]]}}`))
	require.NoError(t, err)
	wordPiece, err := Parse([]byte(`{"model": {"type": "WordPiece", "unk_token": "[UNK]",
		"vocab": {"[UNK]": 0, "a": 1, "##b": 2, "b": 3, "##a": 4}},
		"pre_tokenizer": {"type": "Whitespace"}}`))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		tokenizer Tokenizer
		unit      string
	}{
		"words":     {GPT2(), "The model's masks weren't filled. "},
		"merges":    {GPT2(), "internationalisation"},
		"digits":    {GPT2(), "7"},
		"a path":    {unigram, "abba"},
		"pieces":    {wordPiece, "abab ba "},
		"with mask": {WithMask(GPT2(), 50257, "[MASK]"), "The mask. "},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(c.unit, (64<<10)/len(c.unit))
			want, err := c.tokenizer.Encode(text)
			require.NoError(t, err)
			never := newLooks(t, 0)
			got, err := WithContext(never, c.tokenizer).Encode(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Greater(t, never.count, 8)

			for last := 1; last <= never.count; last += 1 + never.count/4 {
				for name, encode := range map[string]func(t Tokenizer) ([]int32, error){
					"Encode":        func(t Tokenizer) ([]int32, error) { return t.Encode(text) },
					"EncodeSpecial": func(t Tokenizer) ([]int32, error) { return t.EncodeSpecial(text) },
					"EncodeParts": func(t Tokenizer) ([]int32, error) {
						return EncodeParts(t, []Part{{Text: text}})
					},
				} {
					ending := newLooks(t, last)
					_, err := encode(WithContext(ending, c.tokenizer))
					require.ErrorIs(t, err, context.Canceled, name)
					require.Equal(t, last, ending.count, "%s goes on after it", name)
				}
			}
		})
	}
}
