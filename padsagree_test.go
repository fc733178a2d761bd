package unmask_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
)

// A padding token that is the empty word is so everywhere: in completions, behind a prompt and in
// holes of a text it stands anywhere, is not shown and breaks no pattern; as --end it ends the
// text; banned, it is never drawn. Lines to score leave it out, see research/judges.
func TestPadsAgree(t *testing.T) {
	for path, pad := range map[string]int32{
		"demo/text":                          550,
		"testdata/packs/genmol-tiny":         3,
		"testdata/packs/lfm2-diffusion-tiny": 0,
	} {
		m := loadPack(t, path)
		letters := regexp.MustCompile(`^[A-Za-z0-9 ,.]*$`)
		word := someWord(t, m, letters)
		endings := 0
		for _, sampler := range []string{"maskgit", "moment", "random", "p2"} {
			for seed := range uint64(3) {
				r := unmask.Request{Seed: seed, Overrides: generate.Overrides{"sampler": sampler,
					"steps": "4", "temperature": "1"}}
				r.Bias = []string{fmt.Sprintf("%d=12", pad)}
				r.Regex = letters.String()[1 : len(letters.String())-1]
				count := func(r unmask.Request) int {
					tokens, text := fillIn(t, m, r)
					require.Regexp(t, letters, text)
					return len(slices.DeleteFunc(slices.Clone(tokens), func(v int32) bool {
						return v != pad
					}))
				}

				r.Length = 16
				require.Positive(t, count(r), "%s %s", path, sampler)

				continued := r
				continued.Length = 24
				continued.Prompt = word
				require.Positive(t, count(continued), "%s %s", path, sampler)

				infilled := r
				infilled.Length = 0
				infilled.Infill = word + "[8]" + word
				require.Positive(t, count(infilled), "%s %s", path, sampler)

				ended := r
				ended.Cut = true
				ended.End = fmt.Sprint(pad)
				tokens, text := fillIn(t, m, ended)
				if first := slices.Index(tokens, pad); first >= 0 {
					tokens = tokens[:first]
					endings++
				}
				require.Equal(t, m.Text.Decode(tokens), text, "%s %s", path, sampler)

				banned := r
				banned.Ban = []string{fmt.Sprint(pad)}
				require.Zero(t, count(banned), "%s %s", path, sampler)
			}
		}
		require.Positive(t, endings, path)
	}
}

// fillIn returns what a request fills in, in tokens and as a text.
func fillIn(t *testing.T, m *unmask.Model, r unmask.Request) ([]int32, string) {
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	answer := m.AnswerOf(&r, &q)
	answer.HidePrompt()
	var tokens []int32
	for step, err := range generate.Run(t.Context(), m.Denoiser,
		generate.Options{Request: q, N: 1}) {
		require.NoError(t, err)
		tokens = slices.Clone(step.Sequences[0].Tokens)
	}
	return tokens[answer.From:], answer.Render(tokens).Text
}

// someWord returns a text of letters that a model reads.
func someWord(t *testing.T, m *unmask.Model, letters *regexp.Regexp) string {
	for id := range int32(m.Spec().Outcomes) {
		text := m.Text.Decode([]int32{id})
		if _, err := m.Text.Encode(text); err == nil && text != "" && letters.MatchString(text) {
			return text
		}
	}
	require.Fail(t, "no token is a text of letters")
	return ""
}
