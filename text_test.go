package unmask_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/generate"
	"unmask/model"
)

// loadDemos returns the embedded models on the plain device, which loads quickly and computes
// slowly.
func loadDemos(t testing.TB) (text, picture *unmask.Model) {
	o := unmask.Options{Backend: plain.New()}
	text, err := unmask.LoadFS(demo.Text(), "demo", o)
	require.NoError(t, err)
	picture, err = unmask.LoadFS(demo.Image(), "demo-image", o)
	require.NoError(t, err)
	return text, picture
}

func TestKindIsWhatTheNetworkSays(t *testing.T) {
	text, picture := loadDemos(t)
	require.Equal(t, model.KindText, text.Kind())
	require.NotNil(t, text.Text)
	require.Nil(t, text.Pictures)
	require.Equal(t, model.KindImage, picture.Kind())
	require.Nil(t, picture.Text)
	require.NotNil(t, picture.Pictures)
	own := unmask.NewModel(&model.Loaded{Denoiser: text.Denoiser}, text.Backend, nil)
	require.Equal(t, model.KindTokens, own.Kind())
	require.Nil(t, own.Text)
	require.Nil(t, own.Pictures)
}

func TestPrompt(t *testing.T) {
	m, _ := loadDemos(t)
	known, err := m.Text.Encode("To be,")
	require.NoError(t, err)
	prepare := func(r unmask.Request) ([]int32, error) {
		q, err := m.Prepare(t.Context(), r)
		return q.Known, err
	}
	tokens, err := prepare(unmask.Request{Prompt: "To be,", Length: 16})
	require.NoError(t, err)
	require.Len(t, tokens, 16+len(m.Spec().Before))
	at := slices.Index(tokens, known[0])
	require.Equal(t, known, tokens[at:at+len(known)])
	require.Equal(t, 16-len(known), masked(tokens, m))
	_, err = prepare(unmask.Request{Prompt: "To be, or not", Length: 2})
	require.ErrorContains(t, err, "want at most 2")
	_, err = prepare(unmask.Request{Prompt: "x", Length: 100000})
	require.ErrorContains(t, err, "length is 100000, want 1 to 255, or 0 for 255")
}

func TestInfill(t *testing.T) {
	m, _ := loadDemos(t)
	tokens, err := m.Text.Infill("To be, [20] that is", 0)
	require.NoError(t, err)
	require.Equal(t, 20, masked(tokens, m))
	require.Equal(t, "To be, "+strings.Repeat(unmask.Hole, 20)+" that is", m.Text.Decode(tokens))
	tokens, err = m.Text.Infill("To be, [20] that is", 64)
	require.NoError(t, err)
	require.Len(t, tokens, 64+len(m.Spec().Before))
	for text, want := range map[string]string{
		"none": "no hole", "[0]": "hole is [0], want 1 to 255 tokens", "[200] [200]": "want at most 255",
	} {
		_, err := m.Text.Infill(text, 0)
		require.ErrorContains(t, err, want)
	}
}

func masked(tokens []int32, m *unmask.Model) (n int) {
	for _, t := range tokens {
		if t == m.Spec().Mask {
			n++
		}
	}
	return n
}

func TestConstraints(t *testing.T) {
	text, picture := loadDemos(t)
	prepare := func(m *unmask.Model, length int, c unmask.Constraints) (generate.Request, error) {
		return m.Prepare(t.Context(), unmask.Request{Length: length, Constraints: c})
	}
	r, err := prepare(text, 0,
		unmask.Constraints{Ban: []string{"3,17", "the"}, Bias: []string{"5=2.5", "5=-1"}})
	require.NoError(t, err)
	the, err := text.Text.Encode("the")
	require.NoError(t, err)
	require.Equal(t, append([]int32{3, 17}, the...), r.Filter.Ban)
	require.Equal(t, map[int32]float32{5: 1.5}, r.Filter.Bias)

	r, err = prepare(text, 8, unmask.Constraints{MinLength: 4, End: "3"})
	require.NoError(t, err)
	logits := make([]float32, 9)
	begin := len(text.Spec().Before)
	r.Adjust(begin+3, logits)
	require.Less(t, logits[3], float32(-1e30))
	clear(logits)
	r.Adjust(begin+4, logits)
	require.Zero(t, logits[3])

	for want, c := range map[string]unmask.Constraints{
		"ban: token is 5000, want 0 to":     {Ban: []string{"5000"}},
		"has no value, want TOKENS=VALUE":   {Bias: []string{"5"}},
		`is "x", want a number`:             {Bias: []string{"5=x"}},
		"min-length is 9, want 0 to 8":      {MinLength: 9, End: "3"},
		`end: "3,4" is 2 tokens, want one`:  {MinLength: 1, End: "3,4"},
		"min-length is -1, want 0 to 8":     {MinLength: -1, End: "3"},
		`ban: tokens are "", want at least`: {Ban: []string{""}},
	} {
		_, err := prepare(text, 8, c)
		require.ErrorContains(t, err, want)
	}
	_, err = prepare(picture, 0, unmask.Constraints{Ban: []string{"x"}})
	require.ErrorContains(t, err, "want ids such as 3,17")
	_, err = prepare(picture, 0, unmask.Constraints{MinLength: 1})
	require.ErrorContains(t, err, "makes no text")
}
