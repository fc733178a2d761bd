package generate_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/research/theory"
)

// shiftedLogits adds a number of its own to all logits of a position. The marginals stay, but a
// rule that ranks by logits sees another rank.
type shiftedLogits struct {
	*exact.Denoiser
	shifts []float32
}

func (d *shiftedLogits) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	m, err := d.Denoiser.Forward(ctx, b)
	if err != nil {
		return nil, err
	}
	dense := m.(*model.Dense)
	for i := range dense.Logits {
		dense.Logits[i] += d.shifts[i/dense.Columns%len(d.shifts)]
	}
	return dense, nil
}

// shiftsOf returns those of shiftedLogits in tests.
func shiftsOf(length int) []float32 { return []float32{1.5, -1, 0, 2, -2}[:length] }

// eachTop visits each set of n positions that may have the largest scores once noise times a Gumbel
// number is added to each, with its probability. Positions of score -Inf are in none.
func eachTop(scores []float64, n int, noise float64, visit func(top []int, probability float64)) {
	if noise == 0 {
		visit(highest(scores, n), 1)
		return
	}
	var next func(top []int, probability float64)
	next = func(top []int, probability float64) {
		if len(top) == n {
			visit(top, probability)
			return
		}
		sum := 0.0
		weights := make([]float64, len(scores))
		for i, score := range scores {
			if !slices.Contains(top, i) {
				weights[i] = math.Exp(score / noise)
				sum += weights[i]
			}
		}
		for i, weight := range weights {
			if weight > 0 {
				next(append(slices.Clip(top), i), probability*weight/sum)
			}
		}
	}
	next(nil, 1)
}

// drawAndRank is what the programs for pictures have in common. A token is drawn at every masked
// position from p^power, and those stay that have the largest
//
//	scale*(log of their p + shifts of their position) + noise*Gumbel
//
// until `left` are masked. An infinite power takes the most probable tokens.
type drawAndRank struct {
	left   func(step, masked int) int
	ranks  func(step int) (power, scale, noise float64)
	shifts []float32
}

// of returns the law on a model's marginals.
func (r drawAndRank) of(m *exact.Model) law {
	mask := int32(m.Tokens())
	return func(p [][]float64, x []int32, step int, add func([]int32, float64)) {
		power, scale, noise := r.ranks(step)
		masked := 0
		q := make([][]float64, len(x))
		for i := range x {
			q[i] = []float64{1} // of an open position nothing is drawn
			if x[i] == mask {
				masked++
				q[i] = sharpened(p[i], power)
			}
		}
		opened := masked - r.left(step, masked)
		eachDraw(q, func(drawn []int32, probability float64) {
			scores := make([]float64, len(x))
			for i := range x {
				scores[i] = math.Inf(-1)
				if x[i] == mask {
					scores[i] = scale * (math.Log(p[i][drawn[i]]) + float64(r.shifts[i]))
				}
			}
			eachTop(scores, opened, noise, func(top []int, share float64) {
				after := slices.Clone(x)
				for _, i := range top {
					after[i] = drawn[i]
				}
				add(after, probability*share)
			})
		})
	}
}

// sharpened returns p^power, normalised.
func sharpened(p []float64, power float64) []float64 {
	if math.IsInf(power, 1) {
		best := make([]float64, len(p))
		best[highest(p, 1)[0]] = 1
		return best
	}
	return tempered(p, 1/power, 0, 1)
}

// leftBy returns the number of masks after a step of a program for pictures: `share` of the
// positions, rounded down, but at least one less than before and one for the next step.
func leftBy(share func(step int) float64) func(step, masked int) int {
	return func(step, masked int) int {
		if step == pictureSteps {
			return 0
		}
		return max(1, min(masked-1, int(share(step))))
	}
}

// ratioOf is lawRatio for a denoiser of a model's marginals.
func ratioOf(t *testing.T, d model.Denoiser, tokens int, recipe string, n int,
	want []float64) float64 {
	r, err := generate.ParseRecipe(recipe)
	require.NoError(t, err)
	o := generate.Options{Request: generate.Request{Recipe: r, Seed: 7}, N: n, Batch: 500}
	count := make([]float64, len(want))
	for q, err := range generate.Samples(t.Context(), d, o) {
		require.NoError(t, err)
		index := 0
		for _, token := range q.Tokens {
			index = index*tokens + int(token)
		}
		count[index]++
	}
	return chiSquare(count, theory.Scale(want, float64(n)))
}

// pictureSteps are the steps of the runs below. After two of three, half of the positions are
// masked by cosine: a count that rounding decides.
const pictureSteps = 3

// pictureRatio is the share of the steps that are done.
func pictureRatio(step int) float64 { return float64(step) / pictureSteps }

// rankedByMAGE is gen_image of gen_img_uncond.py.
func rankedByMAGE(length int, temperature float64) drawAndRank {
	return drawAndRank{
		left: leftBy(func(step int) float64 {
			return float64(length) * math.Cos(math.Pi/2*pictureRatio(step))
		}),
		ranks: func(step int) (power, scale, noise float64) {
			return 1, 1, temperature * (1 - pictureRatio(step))
		},
		shifts: make([]float32, length),
	}
}

// rankedByAMUSEd is AmusedScheduler of diffusers, with temperatures from noise to 0.
func rankedByAMUSEd(length int, noise float64) drawAndRank {
	return drawAndRank{
		left: leftBy(func(step int) float64 {
			angle := float32(float32(pictureRatio(step))*math.Pi) / 2
			return float64(float32(length) * float32(math.Cos(float64(angle))))
		}),
		ranks: func(step int) (float64, float64, float64) {
			return 1, 1, noise * (1 - float64(step-1)/(pictureSteps-1))
		},
		shifts: make([]float32, length),
	}
}

// rankedByTiTok is ImageBert.generate of modeling/maskgit.py. It ranks by logits, which have the
// shifts of their positions.
func rankedByTiTok(length int, randomize float64, anneals bool) drawAndRank {
	return drawAndRank{
		left: leftBy(func(step int) float64 {
			return float64(length) * (math.Acos(pictureRatio(step)) / (math.Pi * 0.5))
		}),
		ranks: func(step int) (power, scale, noise float64) {
			softmax := 1.0
			if anneals {
				softmax = 0.5 + 0.8*(1-pictureRatio(step))
			}
			noise = randomize * (1 - pictureRatio(step))
			return 1 / (softmax * noise), 1 / softmax, noise
		},
		shifts: shiftsOf(length),
	}
}

// MAGE, aMUSEd and TiTok draw tokens everywhere and keep some by their probabilities, or TiTok by
// their logits, with noise that falls to nothing.
func TestPictureRunsDrawTheirAuthorsLaw(t *testing.T) {
	for _, name := range []string{"hmm:length=4,tokens=4,hidden=3,seed=5",
		"hmm:length=5,tokens=3,hidden=3,seed=9"} {
		m := exactModel(t, name)
		length := m.Length()
		for recipe, rule := range map[string]drawAndRank{
			"maskgit(alpha=6) schedule=mage":             rankedByMAGE(length, 6), // of its README
			"maskgit(alpha=4.5) schedule=mage":           rankedByMAGE(length, 4.5),
			"maskgit(alpha=0.7) schedule=mage":           rankedByMAGE(length, 0.7),
			"amused schedule=amused":                     rankedByAMUSEd(length, 2),
			"amused(noise=0.5) schedule=amused":          rankedByAMUSEd(length, 0.5),
			"titok(noise=9.5) schedule=titok":            rankedByTiTok(length, 9.5, true), // L-32
			"titok(noise=11) schedule=titok":             rankedByTiTok(length, 11, true),  // B-64
			"titok(noise=2.8) schedule=titok":            rankedByTiTok(length, 2.8, true), // S-128
			"titok(noise=0.8,anneal=off) schedule=titok": rankedByTiTok(length, 0.8, false),
		} {
			d := &shiftedLogits{exact.NewDenoiser(m), shiftsOf(length)}
			want := enumerateLaw(m, pictureSteps, rule.of(m))
			ratio := ratioOf(t, d, m.Tokens(), recipe+" steps=3", 4000, want)
			require.Less(t, ratio, 1.0, "%s: %s", name, recipe)
		}
	}
}

// Between probabilities and logits, and between one noise and another, these tests can tell.
func TestPictureLawsDiffer(t *testing.T) {
	m := exactModel(t, "hmm:length=4,tokens=4,hidden=3,seed=5")
	byLogits := rankedByMAGE(4, 0.7)
	byLogits.shifts = shiftsOf(4)
	byProbabilities := rankedByTiTok(4, 0.8, false)
	byProbabilities.shifts = make([]float32, 4)
	cosine := rankedByAMUSEd(4, 2)
	cosine.left = rankedByMAGE(4, 1).left
	for _, c := range []struct {
		recipe string
		other  drawAndRank
	}{
		{"maskgit(alpha=0.7) schedule=mage", byLogits},
		{"maskgit(alpha=4.5) schedule=mage", rankedByMAGE(4, 1)},
		{"amused schedule=amused", cosine},
		{"amused schedule=amused", rankedByAMUSEd(4, 0.5)},
		{"titok(noise=0.8,anneal=off) schedule=titok", byProbabilities},
		{"titok(noise=0.8) schedule=titok", rankedByTiTok(4, 0.8, false)},
		{"titok(noise=2.8) schedule=titok", rankedByTiTok(4, 9.5, true)},
	} {
		d := &shiftedLogits{exact.NewDenoiser(m), shiftsOf(4)}
		other := enumerateLaw(m, pictureSteps, c.other.of(m))
		ratio := ratioOf(t, d, m.Tokens(), c.recipe+" steps=3", 8000, other)
		require.Greater(t, ratio, 1.5, c.recipe)
	}
}
