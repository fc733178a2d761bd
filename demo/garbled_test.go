package demo_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/demo/scenes"
	"unmask/generate"
	"unmask/model"
)

var (
	garbledModel = flag.String("garbled-model", "", "a folder; by default the embedded image model")
	garbledDrawn = flag.Int("garbled-drawn", 60, "drawn landscapes that TestGarbled learns from")
	garbledCount = flag.Int("garbled", 0, "pictures that TestGarbled makes and checks")
)

// newSceneChecker learns from drawn landscapes that went through the codec of a model.
func newSceneChecker(t *testing.T, m *unmask.Model, n int) *scenes.Checker {
	codec, err := m.Pictures.Codec()
	require.NoError(t, err)
	encoder, ok := codec.(model.Encoder)
	require.True(t, ok)
	list, _ := scenes.Draw(n, 1)
	drawn := make([]scenes.Sample, n)
	for i, picture := range list {
		drawn[i].Codes, err = encoder.EncodeImage(picture.NRGBA())
		require.NoError(t, err)
		drawn[i].Picture, err = codec.Image(drawn[i].Codes)
		require.NoError(t, err)
	}
	return scenes.NewChecker(drawn, m.Spec().Shape[1])
}

// The checker finds the garbled pictures that people found, and with -garbled N it counts those
// among N pictures (with -garbled-drawn 1200: demo/recipe/README.md has the figures). A decoder
// that is trained on what the model samples shall make sound pictures of the same codes.
func TestGarbled(t *testing.T) {
	m := weighed(t, *garbledModel, demo.Image())
	checker := newSceneChecker(t, m, *garbledDrawn)
	t.Logf("most faults of a drawn landscape: %+v", checker.Most())

	data, err := os.ReadFile("testdata/garbled.json")
	require.NoError(t, err)
	var found []struct {
		Seed  uint64
		Index int
		Codes []int32
	}
	require.NoError(t, json.Unmarshal(data, &found))
	for _, f := range found {
		picture, err := m.Pictures.Image(f.Codes)
		require.NoError(t, err)
		s := scenes.Sample{Picture: picture, Codes: f.Codes}
		t.Logf("seed %d, picture %d: %+v", f.Seed, f.Index, checker.Count(s))
		if *garbledModel == "" {
			assert.True(t, checker.IsGarbled(s), "seed %d, picture %d", f.Seed, f.Index)
		}
	}
	if *garbledCount > 0 {
		countGarbled(t, m, checker, *garbledCount)
	}
}

// countGarbled makes n pictures and logs how many are garbled, and how many days have no sun.
func countGarbled(t *testing.T, m *unmask.Model, checker *scenes.Checker, n int) {
	requests := make([]generate.Request, n)
	for i := range requests {
		var err error
		requests[i], err = m.Prepare(t.Context(), unmask.Request{Seed: 100, Index: uint32(i)})
		require.NoError(t, err)
	}
	garbled := 0
	days := 0
	sunless := 0
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 8},
		slices.Values(requests)) {
		require.NoError(t, err)
		for _, p := range step.Sequences {
			if !p.Done {
				continue
			}
			picture, err := m.Pictures.Image(p.Tokens)
			require.NoError(t, err)
			s := scenes.Sample{Picture: picture, Codes: slices.Clone(p.Tokens)}
			if checker.IsGarbled(s) {
				garbled++
				t.Logf("picture %d: %+v", p.Number, checker.Count(s))
			}
			if scenes.IsDay(picture) {
				days++
				if !scenes.HasSun(picture) {
					sunless++
				}
			}
		}
	}
	t.Logf("%d of %d pictures are garbled, %d of %d days have no sun", garbled, n, sunless, days)
	assert.LessOrEqual(t, garbled, n*6/100)
}
