package constrain_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/constrain"
	"unmask/exact"
	"unmask/generate"
	"unmask/grammar"
)

// The probabilities of choices are the sums over all spellings that a network's marginals give, and
// one step draws the choices with them.
func TestProbabilitiesOfChoices(t *testing.T) {
	const length, end = 4, 3
	pieces := []string{"a", "b", "ab", "", " "}
	texts := []string{"ab", "abb", "ba", "bb", "a"}
	m, err := exact.Parse(fmt.Sprintf("product:length=%d,tokens=%d,sharp=1,seed=4", length,
		len(pieces)))
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	logits := marginals(t, d, slices.Repeat([]int32{int32(len(pieces))}, length))
	v := grammar.NewVocabulary(len(pieces), func(id int32) (string, bool) {
		return pieces[id], pieces[id] != ""
	})
	// The text of tokens, "" if they are none of the language: it ends with end tokens, with spaces,
	// or with the positions.
	text := map[string]func(tokens []int32) string{
		"end": func(tokens []int32) string {
			at := slices.Index(tokens, end)
			if at < 0 || slices.ContainsFunc(tokens[at:], func(v int32) bool { return v != end }) {
				return ""
			}
			return spelled(pieces, tokens[:at])
		},
		"spaces": func(tokens []int32) string {
			if slices.Contains(tokens, end) {
				return ""
			}
			return strings.TrimRight(spelled(pieces, tokens), " ")
		},
		"full": func(tokens []int32) string {
			if slices.Contains(tokens, end) {
				return ""
			}
			return spelled(pieces, tokens)
		},
	}
	for name, read := range text {
		list := texts
		if name == "full" {
			list = []string{"abab", "aabb", "abbbb", "bbab"}
		}
		automaton, labels, err := grammar.LabelledChoices(list, name == "spaces", nil)
		require.NoError(t, err)
		o := grammar.TokenOptions{}
		if name == "end" {
			o.EndTokens, o.FillTokens = []int32{end}, []int32{end}
		}
		a, err := automaton.Tokens(v, o)
		require.NoError(t, err)
		l := &constrain.Language{Tokens: a, EndPosition: length, Choices: constrain.NewChoices(list,
			a, labels)}

		want, whole := map[string]float64{}, 0.0
		each(len(pieces), length, func(tokens []int32) {
			w := 1.0
			for i, v := range tokens {
				w *= math.Exp(float64(logits[i][v]))
			}
			one := read(tokens)
			require.Equal(t, slices.Contains(list, one), accepts(l, tokens), "%s %v", name, tokens)
			if slices.Contains(list, one) {
				want[one] += w
				whole += w
			}
		})
		options := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: rule(t,
			"random"), Steps: 1}, Language: l}, N: 1000}
		counts := map[string]int{}
		for step, err := range generate.Run(context.Background(), d, options) {
			require.NoError(t, err)
			if !step.Done {
				continue
			}
			for _, s := range step.Sequences {
				require.Len(t, s.Choices, len(list))
				for i, c := range s.Choices {
					require.Equal(t, list[i], c.Text)
					require.InDelta(t, want[c.Text]/whole, c.Probability, 1e-6, "%s %q", name, c.Text)
				}
				counts[read(s.Tokens)]++
			}
		}
		for k := range want {
			want[k] /= whole
		}
		requireLaw(t, counts, want, options.N)
	}
}

func spelled(pieces []string, tokens []int32) (text string) {
	for _, v := range tokens {
		text += pieces[v]
	}
	return text
}
