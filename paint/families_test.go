package paint_test

import (
	"context"
	"image"
	"image/color"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/model"
	"unmask/paint"
	"unmask/samplers"
	"unmask/testkit/refusal"
)

// family is a published family of image models, at the sizes of its packs.
type family struct {
	name   string
	folder func(t *testing.T) string
	grid   bool // its codes have a place in the picture
	prompt bool
}

var families = []family{
	{"titok", titokFolder, false, false},
	{"halton", haltonFolder, true, false},
	{"maskgen", maskgenFolder, false, true},
	{"amused", func(*testing.T) string { return filepath.Join(packs, "amused-256-tiny") }, true, true},
}

// load returns the family's model and a condition of it.
func (f family) load(t *testing.T) (*unmask.Model, *model.Condition) {
	t.Helper()
	m, err := unmask.Load(context.Background(), f.folder(t),
		unmask.Options{Backend: cpu.New(cpu.Options{Threads: 1})})
	require.NoError(t, err)
	if !f.prompt {
		c, err := m.ClassCondition("7")
		require.NoError(t, err)
		return m, c
	}
	list, err := m.PromptConditions(context.Background(), []string{"a photo of a cat"}, "")
	require.NoError(t, err)
	return m, list[0]
}

// Every sampler runs on every family, with partial caching where the rule has intermediate stages:
// all four networks have partial passes.
func TestSamplersRunOnAllFamilies(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m, condition := f.load(t)
			require.Implements(t, (*model.Refiner)(nil), m.Denoiser)
			spec := m.Spec()
			// but for a part, as some rules open one position a step
			known := spec.BlankTokens(spec.Length())
			for i := 16; i < len(known); i++ {
				known[i] = int32(i % 7)
			}
			partial := 0 // rules that made partial passes; some open one position a step
			for _, info := range samplers.List() {
				s, err := samplers.Parse(info.Name)
				require.NoError(t, err)
				r := generate.Recipe{Sampler: s, Steps: 3, Guidance: generate.Guidance{Scale: 1}}
				if samplers.CacheRefusal(s) == "" {
					r.Cache = 1
				}
				o := generate.Options{Request: generate.Request{Recipe: r, Condition: condition, Seed: 5,
					Known: known}, N: 2}
				together := tokensOf(t, m, o)
				o.Index, o.N = 1, 1
				for q, err := range generate.Samples(context.Background(), m.Denoiser, o) {
					require.NoError(t, err, info.Name)
					require.Equal(t, together[1], q.Tokens, info.Name)
					if q.Work.Partial > 0 {
						require.Equal(t, 1, r.Cache, info.Name)
						partial++
					}
				}
			}
			require.Greater(t, partial, 8)
		})
	}
}

// Families whose codes have a place in the picture inpaint and outpaint, by their own published run
// and by others; the other families return an error that gives the reason.
func TestFamiliesInpaint(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m, condition := f.load(t)
			width, height, err := m.Pictures.Size()
			require.NoError(t, err)
			picture := gradient(width, height)
			hole := image.NewGray(picture.Rect)
			for y := range height / 2 {
				for x := range width / 2 {
					hole.SetGray(x, y, color.Gray{255})
				}
			}
			tokens, err := m.Pictures.Mask(picture, hole)
			_, grows := m.Pictures.Outpaint(m.Denoiser, picture, paint.Margins{Left: width / 2})
			if !f.grid {
				require.ErrorContains(t, err, "the model's codes have no place in the picture")
				require.ErrorContains(t, grows, "the model's codes have no place in the picture")
				return
			}
			require.NoError(t, err)
			require.NoError(t, grows)
			recipes := []generate.Recipe{recipe(t, "moment cache=1 steps=4 guidance=2"),
				recipe(t, "maskgit-redraw schedule=late-arccos steps=3"),
				recipe(t, "p2 steps=3"), recipe(t, "hybrid cache=1 steps=4")}
			published, err := m.Defaults()
			require.NoError(t, err)
			if own := m.Presets["inpaint"]; own != "" {
				published = recipe(t, own)
			}
			published.Steps = 4
			for _, r := range append(recipes, published) {
				o := generate.Options{Request: generate.Request{Recipe: r, Condition: condition, Seed: 5,
					Known: tokens}, N: 2}
				for _, made := range tokensOf(t, m, o) {
					for i, token := range tokens {
						if token != m.Spec().Mask {
							require.Equal(t, token, made[i], "%s, cell %d", r, i)
						}
					}
				}
			}
			grown, err := m.Pictures.Outpaint(m.Denoiser, picture,
				paint.Margins{Left: width / 2, Bottom: height / 4})
			require.NoError(t, err)
			made, err := grown.Draw(context.Background(), []generate.Request{
				{Recipe: published, Condition: condition, Seed: 3},
				{Recipe: published, Condition: condition, Seed: 3, Index: 1}})
			require.NoError(t, err)
			require.Len(t, made, 2)
			require.Equal(t, grown.Size(), made[1].Rect.Size())
		})
	}
}

// Guidance below 0, a mask of the wrong size and an unknown class are refused. Presets run.
func TestFamiliesRefuse(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m, condition := f.load(t)
			_, err := generate.Request{Condition: condition,
				Recipe: generate.Recipe{Guidance: generate.Guidance{Scale: -2}}}.Check(m.Denoiser)
			refusal.Require(t, err, "guidance", "-2")
			if f.grid {
				width, height, err := m.Pictures.Size()
				require.NoError(t, err)
				_, err = m.Pictures.Mask(gradient(width, height), image.NewGray(image.Rect(0, 0, 3, 5)))
				require.ErrorContains(t, err, "the mask is 3 x 5 pixels, want ")
			}
			if !f.prompt {
				_, err := m.ClassCondition("4711")
				refusal.Require(t, err, "class", "4711")
			}
			for name, text := range m.Presets {
				r, err := generate.ParseRecipe(text)
				require.NoError(t, err, name)
				_, err = generate.Request{Condition: condition, Recipe: r}.Check(m.Denoiser)
				if err != nil { // the packs have fewer positions than the published sizes
					require.ErrorContains(t, err, "steps is ", name)
				}
			}
		})
	}
}
