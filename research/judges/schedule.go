package judges

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"unmask"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/samplers"
)

// maxScheduleData is the most samples that a schedule is optimised on.
const maxScheduleData = 4096

// FoundSchedule is an optimised schedule, of times for each step.
type FoundSchedule struct {
	samplers.Schedule

	// KL is what its steps cost, and UniformKL what those of samplers.Uniform do, by
	// samplers.ScheduleKL, in nats of a sequence.
	KL, UniformKL float64
}

// FindSchedule optimises a schedule for a model on the lines of unmask text --json in samples; see
// samplers.JYS. seed chooses the masked positions.
func FindSchedule(ctx context.Context, m *unmask.Model, samples io.Reader, steps int,
	seed uint64) (best FoundSchedule, err error) {
	var data [][]int32
	err = eachLine(samples, func(n int, l textLine) error {
		if n > maxScheduleData {
			return fmt.Errorf("there are more samples, want at most %d", maxScheduleData)
		}
		if len(l.IDs) < 2 {
			return fmt.Errorf("ids has %d tokens, want at least 2", len(l.IDs))
		}
		data = append(data, l.IDs)
		return nil
	})
	if err != nil {
		return best, err
	}
	profile, err := MeasureProfile(ctx, m.Denoiser, data, seed)
	if err != nil {
		return best, err
	}
	times, err := samplers.JYS(steps, profile)
	if err != nil {
		return best, err
	}
	best.Schedule, err = samplers.TimesSchedule(times)
	if err != nil {
		return best, err
	}
	best.KL = samplers.ScheduleKL(best.Schedule, steps, profile)
	best.UniformKL = samplers.ScheduleKL(samplers.Uniform, steps, profile)
	return best, nil
}

// MeasureProfile measures how well a model predicts with some positions masked. Element m-1 is the
// mean log-probability, in nats, of the true token at a masked position with m masked, over whole
// sequences of data (all of one length, no masks); samplers.JYS optimises a schedule with it. At
// most 64 numbers of masks are measured, with lines in between. The seed chooses the masked
// positions; if they are few, up to 8 sets are tried for each sequence.
func MeasureProfile(ctx context.Context, d model.Denoiser, data [][]int32, seed uint64) ([]float64,
	error) {
	orders, err := maskOrders(d.Spec(), data, seed)
	if err != nil {
		return nil, err
	}
	length := len(data[0])
	profile := []float64{0} // with no position masked, dropped at the end
	levels := min(length, profileLevels)
	for level := range levels {
		masked := 1 + level*(length-1)/max(1, levels-1)
		sets := min(length/masked, profileSets)
		sum := 0.0
		for i, tokens := range data {
			for s := range sets {
				positions := orders[i][s*masked : (s+1)*masked]
				logProb, err := trueLogProb(ctx, d, tokens, positions)
				if err != nil {
					return nil, fmt.Errorf("profile: sequence %d of the data: %w", i, err)
				}
				sum += logProb
			}
		}
		mean := sum / float64(masked*len(data)*sets)

		// A line leads from the level before to this one.
		last := len(profile) - 1
		begin := profile[last]
		gap := float64(masked - last)
		for m := last + 1; m <= masked; m++ {
			profile = append(profile, begin+(mean-begin)*float64(m-last)/gap)
		}
	}
	return profile[1:], nil
}

// maskOrders checks the data and returns, for each sequence, a random order of its positions. Sets
// of masked positions are parts of it, so that those of one sequence do not overlap.
func maskOrders(spec model.Spec, data [][]int32, seed uint64) (orders [][]int, err error) {
	if len(data) == 0 || len(data[0]) == 0 {
		return nil, fmt.Errorf("a profile of no data, want one sequence at least")
	}
	length := len(data[0])
	isUnknown := func(token int32) bool { return token < 0 || int(token) >= spec.Outcomes }
	for i, tokens := range data {
		if len(tokens) != length {
			return nil, fmt.Errorf("sequence %d of the data has length %d, want %d", i, len(tokens),
				length)
		}
		if slices.ContainsFunc(tokens, isUnknown) {
			return nil, fmt.Errorf("sequence %d of the data has masks or unknown tokens, want 0 "+
				"to %d", i, spec.Outcomes-1)
		}
		r := philox.Stream{Seed: seed, Sequence: uint32(i)}
		positions := model.Indexes(0, length)
		slices.SortFunc(positions, func(a, b int) int {
			return cmp.Compare(r.Uniform(a, philox.Setup), r.Uniform(b, philox.Setup))
		})
		orders = append(orders, positions)
	}
	return orders, nil
}

const (
	profileLevels = 64 // numbers of masks that are measured
	profileSets   = 8  // sets of masked positions of a sequence
)

// trueLogProb returns the sum of log p(x_i) over the masked positions of a sequence.
func trueLogProb(ctx context.Context, d model.Denoiser, tokens []int32,
	masked []int) (float64, error) {
	mask := d.Spec().Mask
	b := &model.Batch{
		Size:   1,
		Length: len(tokens),
		Tokens: slices.Clone(tokens),
		Time:   []float64{float64(len(masked)) / float64(len(tokens))},
	}
	rows := make([]int32, len(masked))
	for j, p := range masked {
		b.Tokens[p] = mask
		rows[j] = int32(p)
	}
	lock := model.LockOf(d)
	lock.Lock()
	defer lock.Unlock()
	m, err := d.Forward(ctx, b)
	if err != nil {
		return 0, err
	}

	logSums := make([]float64, len(rows))
	if err := m.Stats(rows, &model.Stats{LogSum: logSums}); err != nil {
		return 0, err
	}
	logProbs := make([]float64, len(rows))
	err = m.Visit(rows, func(j int, logits []float32) {
		logProbs[j] = float64(logits[tokens[masked[j]]]) - logSums[j]
	})
	if err != nil {
		return 0, err
	}
	sum := 0.0 // in the order of rows, whatever that of the visits
	for _, v := range logProbs {
		sum += v
	}
	return sum, nil
}
