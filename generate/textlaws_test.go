package generate_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
)

// inBlocks is an exact model whose sequences open block after block. Masks behind a block change
// nothing, so it is a model whose positions see their own block and those before it.
type inBlocks struct {
	*exact.Denoiser
	block int
}

func (d *inBlocks) Spec() model.Spec {
	s := d.Denoiser.Spec()
	s.Block = d.block
	return s
}

// dynamicLaw is a step of block_diffusion_generate of SDAR's generate.py, which TraDo's samples are
// made by, with low_confidence_dynamic and as many steps as a block has positions: tokens are drawn
// from the tempered distributions, and in the first block with masks those stay whose probability
// there is above theta, or the most probable one.
func dynamicLaw(mask int32, block int, theta, temperature float64) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		first := slices.Index(x, mask)
		if first < 0 {
			add(x, 1)
			return
		}
		begin := first / block * block
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = []float64{1} // of an open position nothing is drawn, nor behind the block
			if x[i] == mask && i < begin+block {
				q[i] = tempered(p[i], temperature, 0, 1)
			}
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			confidence := make([]float64, len(x))
			sure := 0
			for i := range x {
				confidence[i] = math.Inf(-1)
				if x[i] == mask && i < begin+block {
					confidence[i] = q[i][drawn[i]]
				}
				if confidence[i] > theta {
					sure++
				}
			}
			after := slices.Clone(x)
			for _, i := range highest(confidence, max(sure, 1)) {
				after[i] = drawn[i]
			}
			add(after, probability)
		})
	}
}

// TraDo's published run is at temperature 1, with theta 0.9 and a step for each of a block's four
// positions. At another temperature confidence is that of what is drawn from.
func TestTraDoDrawsItsAuthorsLaw(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		model              string
		block              int
		recipe             string
		theta, temperature float64
		other              float64 // a theta with which the law is another one, 0 for none
	}{
		{"hmm:length=4,tokens=4,hidden=3,seed=5,sharp=5", 4, "dynamic(theta=0.9,temperature=1)",
			0.9, 1, 0},
		{"hmm:length=4,tokens=4,hidden=3,seed=5,sharp=5", 2, "dynamic(theta=0.6,temperature=1)",
			0.6, 1, 0},
		{"hmm:length=4,tokens=4,hidden=3,seed=9", 2, "dynamic(theta=0.4,temperature=1)", 0.4, 1, 1},
		{"hmm:length=4,tokens=4,hidden=3,seed=5", 4, "dynamic(theta=0.6,temperature=1) temperature=0.8",
			0.6, 0.8, 0.1},
	} {
		m := exactModel(t, c.model)
		mask := int32(m.Tokens())
		d := &inBlocks{exact.NewDenoiser(m), c.block}
		recipe := fmt.Sprintf("%s schedule=llada steps=%d reuse=blocks", c.recipe, c.block)
		want := enumerateLaw(m, m.Length(), dynamicLaw(mask, c.block, c.theta, c.temperature))
		require.Less(t, ratioOf(t, d, m.Tokens(), recipe, n, want), 1.0, "%s: %s", c.model, recipe)
		if c.other == 0 {
			continue
		}
		other := enumerateLaw(m, m.Length(), dynamicLaw(mask, c.block, c.other, c.temperature))
		require.Greater(t, ratioOf(t, d, m.Tokens(), recipe, n, other), 1.5, recipe)
	}
}

// wedlmLaw is a step of the decoder of WeDLM's engine (Sampler.process_mask_positions of
// engine/sampler.py over the window of wedlm_decoder.py): entropies are the model's own, tokens are
// drawn at the temperature, and the positions below the bound open, or the one with the least.
func wedlmLaw(mask int32, entropy, penalty float64, window int, temperature float64) law {
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		first := slices.Index(x, mask)
		if first < 0 {
			add(x, 1)
			return
		}
		scores := make([]float64, len(x))
		below := 0
		for i := range x {
			scores[i] = math.Inf(-1)
			if x[i] != mask || i >= first+window {
				continue
			}
			scores[i] = -penalty * float64(i-first)
			for _, v := range p[i] {
				if v > 0 {
					scores[i] += v * math.Log(v)
				}
			}
			if -scores[i] < entropy {
				below++
			}
		}
		opened := highest(scores, max(below, 1))
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = []float64{1}
			if slices.Contains(opened, i) {
				q[i] = tempered(p[i], temperature, 0, 1)
			}
		}
		eachDraw(q, func(drawn []int32, probability float64) {
			after := slices.Clone(x)
			for _, i := range opened {
				after[i] = drawn[i]
			}
			add(after, probability)
		})
	}
}

// WeDLM's engine draws at 0.2 and orders by the entropies of the model, not of what it draws from.
func TestWeDLMDrawsItsAuthorsLaw(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		model            string
		recipe           string
		entropy, penalty float64
		window           int
		temperature      float64
	}{
		{"hmm:length=4,tokens=4,hidden=3,seed=5,sharp=5", "wedlm(temperature=0.2)", 0.4, 0.02, 16, 0.2},
		{"hmm:length=4,tokens=4,hidden=3,seed=5,sharp=4", "wedlm(temperature=0.8,entropy=0.9,window=2)",
			0.9, 0.02, 2, 0.8},
		{"hmm:length=5,tokens=3,hidden=3,seed=9", "wedlm(entropy=1,penalty=0.3,window=3,temperature=0.6)",
			1, 0.3, 3, 0.6},
		{"hmm:length=5,tokens=3,hidden=3,seed=9", "wedlm(entropy=0.7,penalty=0.001,temperature=1)",
			0.7, 0.001, 16, 1},
	} {
		m := exactModel(t, c.model)
		mask := int32(m.Tokens())
		want := enumerateLaw(m, m.Length(),
			wedlmLaw(mask, c.entropy, c.penalty, c.window, c.temperature))
		require.Less(t, lawRatio(t, m, c.recipe, n, want), 1.0, "%s: %s", c.model, c.recipe)

		all := enumerateLaw(m, m.Length(), wedlmLaw(mask, 9, c.penalty, 16, c.temperature))
		require.Greater(t, lawRatio(t, m, c.recipe, n, all), 1.5, "all at once: %s", c.recipe)
	}
}

// resizing is a model of texts whose holes grow and shrink: the marginals of a position are a
// table's row for its two neighbours. Of its five outcomes the last two are those that resize.
type resizing struct {
	spec  model.Spec
	dense model.Dense
}

// The tokens of resizing.
const (
	expandToken = 3
	deleteToken = 4
	resizeMask  = 5
	// noNeighbour stands for what is before the first position and behind the last.
	noNeighbour = 6
)

func newResizing() *resizing {
	return &resizing{spec: model.Spec{
		Shape:    []int{16},
		Outcomes: 5,
		Mask:     resizeMask,
		Ragged:   true,
		Growth:   &model.Growth{Expand: expandToken, Delete: deleteToken},
	}}
}

func (d *resizing) Spec() model.Spec { return d.spec }

// logits returns those of a position of x.
func (d *resizing) logits(x []int32, i int) []float32 {
	left, right := int32(noNeighbour), int32(noNeighbour)
	if i > 0 {
		left = x[i-1]
	}
	if i+1 < len(x) {
		right = x[i+1]
	}
	row := make([]float32, d.spec.Outcomes)
	for token := range row {
		row[token] = 0.6 * float32(math.Sin(float64(1+7*left+13*right+5*int32(token)*(left+2))))
	}
	return row
}

func (d *resizing) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	d.dense.Columns = d.spec.Outcomes
	d.dense.Logits = slices.Grow(d.dense.Logits[:0], len(b.Tokens)*5)[:len(b.Tokens)*5]
	for i := range b.Size {
		x := b.Tokens[i*b.Length:][:b.UsedLength(i)]
		for position := range x {
			copy(d.dense.Logits[(i*b.Length+position)*5:], d.logits(x, position))
		}
	}
	return &d.dense, nil
}

// growing is a text on its way, and how often a position of it may still become two.
type growing struct {
	text       string
	expansions int
}

// dreamOnLaw returns the probability of each text that DreamOn's program makes of x (the sampling
// of its generation_utils.py with alg entropy and number_transfer_tokens 1): the masked position
// whose tempered, filtered distribution has the least entropy gets a token of it. One that expands
// becomes two masks, one that deletes goes.
func dreamOnLaw(d *resizing, x []int32, longest int, temperature, topP float64) map[string]float64 {
	now := map[growing]float64{
		{string(runesOf(x)), 2 * (longest - slices.Index(x, resizeMask))}: 1,
	}
	done := map[string]float64{}
	for len(now) > 0 {
		later := map[growing]float64{}
		for g, weight := range now {
			x := tokensOf(g.text)
			if !slices.Contains(x, resizeMask) {
				done[g.text] += weight
				continue
			}
			scores := make([]float64, len(x))
			q := make([][]float64, len(x))
			for i := range x {
				scores[i] = math.Inf(-1)
				if x[i] != resizeMask {
					continue
				}
				p := softmaxOf(d.logits(x, i))
				if len(x) == longest || g.expansions == 0 {
					p[expandToken] = 0
				}
				q[i] = tempered(p, temperature, 0, topP)
				scores[i] = 0
				for _, v := range q[i] {
					if v > 0 {
						scores[i] += v * math.Log(v)
					}
				}
			}
			i := highest(scores, 1)[0]
			for token, v := range q[i] {
				if v == 0 {
					continue
				}
				into := []int32{int32(token)}
				expansions := g.expansions
				switch token {
				case expandToken:
					into = []int32{resizeMask, resizeMask}
					expansions--
				case deleteToken:
					into = nil
				}
				after := slices.Replace(slices.Clone(x), i, i+1, into...)
				later[growing{string(runesOf(after)), expansions}] += weight * v
			}
		}
		now = later
	}
	return done
}

func softmaxOf(logits []float32) []float64 {
	p := make([]float64, len(logits))
	for i, v := range logits {
		p[i] = math.Exp(float64(v))
	}
	scaleToOne(p)
	return p
}

// DreamOn draws from the tempered, filtered distributions, and orders positions by them too, while
// its hole grows and shrinks.
func TestDreamOnDrawsItsAuthorsLaw(t *testing.T) {
	const n = 4000
	d := newResizing()
	known := []int32{1, resizeMask, resizeMask, 0}
	for _, c := range []struct {
		filter            string
		room              int
		temperature, topP float64
	}{
		{"temperature=0.2 top-p=0.9", 4, 0.2, 0.9},
		{"temperature=1 top-p=0.9", 3, 1, 0.9},
		{"temperature=0.6", 3, 0.6, 1},
	} {
		recipe := fmt.Sprintf("dreamon(new=%d) %s", c.room, c.filter)
		r, err := generate.ParseRecipe(recipe)
		require.NoError(t, err)
		o := generate.Options{N: n, Batch: 200,
			Request: generate.Request{Recipe: r, Seed: 7, Known: known}}
		law := dreamOnLaw(d, known, len(known)-2+c.room, c.temperature, c.topP)

		var texts []string
		for text := range law {
			texts = append(texts, text)
		}
		slices.Sort(texts)
		want := make([]float64, len(texts))
		for i, text := range texts {
			want[i] = law[text] * n
		}
		count := make([]float64, len(texts))
		for q, err := range generate.Samples(t.Context(), d, o) {
			require.NoError(t, err)
			i, found := slices.BinarySearch(texts, string(runesOf(q.Tokens)))
			require.True(t, found, "%s: %v", recipe, q.Tokens)
			count[i]++
		}
		require.Less(t, chiSquare(count, want), 1.0, recipe)
		require.Greater(t, len(texts), 3, recipe)
	}
}
