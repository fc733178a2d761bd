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

// FindSchedule optimises a schedule for a model on the lines of unmask text --json in samples and
// returns it, of times for each step; see samplers.JYS. seed chooses the masked positions.
func FindSchedule(ctx context.Context, m *unmask.Model, samples io.Reader, steps int,
	seed uint64) (samplers.Schedule, error) {
	var data [][]int32
	err := eachLine(samples, func(n int, l textLine) error {
		switch {
		case n > maxScheduleData:
			return fmt.Errorf("there are more samples, want at most %d", maxScheduleData)
		case len(l.IDs) < 2:
			return fmt.Errorf("ids has %d tokens, want at least 2", len(l.IDs))
		}
		data = append(data, l.IDs)
		return nil
	})
	if err != nil {
		return nil, err
	}
	profile, err := MeasureProfile(ctx, m.Denoiser, data, seed)
	if err != nil {
		return nil, err
	}
	times, err := samplers.JYS(steps, profile)
	if err != nil {
		return nil, err
	}
	return samplers.TimesSchedule(times)
}

// MeasureProfile measures how well a model predicts with some positions masked. Element m-1 is the
// mean log-probability, in nats, of the true token at a masked position with m masked, over whole
// sequences of data (all of one length, no masks); samplers.JYS optimises a schedule with it. At
// most 64 numbers of masks are measured, with lines in between. The seed chooses the masked
// positions; if they are few, up to 8 sets are tried for each sequence.
func MeasureProfile(ctx context.Context, d model.Denoiser, data [][]int32, seed uint64) ([]float64,
	error) {
	spec := d.Spec()
	if len(data) == 0 || len(data[0]) == 0 {
		return nil, fmt.Errorf("a profile of no data, want one sequence at least")
	}
	length := len(data[0])
	var order [][]int // for each sequence, the order in which positions are masked
	for i, x := range data {
		if len(x) != length {
			return nil, fmt.Errorf("sequence %d of the data has length %d, want %d", i, len(x),
				length)
		}
		if slices.ContainsFunc(x, func(t int32) bool { return t < 0 || int(t) >= spec.Outcomes }) {
			return nil, fmt.Errorf("sequence %d of the data has masks or unknown tokens, want 0 "+
				"to %d", i, spec.Outcomes-1)
		}
		r := philox.Stream{Seed: seed, Sequence: uint32(i)}
		positions := model.Indexes(0, length)
		slices.SortFunc(positions, func(a, b int) int {
			return cmp.Compare(r.Uniform(a, philox.Setup), r.Uniform(b, philox.Setup))
		})
		order = append(order, positions)
	}
	profile, levels := []float64{0}, min(length, profileLevels)
	for level := range levels {
		masked := 1 + level*(length-1)/max(1, levels-1)
		sum, sets := 0.0, min(length/masked, profileSets)
		for i, x := range data {
			for s := range sets {
				logP, err := truth(ctx, d, x, order[i][s*masked:(s+1)*masked])
				if err != nil {
					return nil, fmt.Errorf("profile: sequence %d of the data: %w", i, err)
				}
				sum += logP
			}
		}
		mean, last := sum/float64(masked*len(data)*sets), len(profile)-1
		from, gap := profile[last], float64(masked-last)
		for m := last + 1; m <= masked; m++ {
			profile = append(profile, from+(mean-from)*float64(m-last)/gap)
		}
	}
	return profile[1:], nil
}

const profileLevels, profileSets = 64, 8

// truth returns the sum of log p(x_i) over the masked positions.
func truth(ctx context.Context, d model.Denoiser, x []int32, masked []int) (float64, error) {
	spec := d.Spec()
	b := &model.Batch{Size: 1, Length: len(x), Tokens: slices.Clone(x),
		Time: []float64{float64(len(masked)) / float64(len(x))}}
	rows := make([]int32, len(masked))
	for j, p := range masked {
		b.Tokens[p], rows[j] = spec.Mask, int32(p)
	}
	lock := model.LockOf(d)
	lock.Lock()
	defer lock.Unlock()
	m, err := d.Forward(ctx, b)
	if err != nil {
		return 0, err
	}
	each, sums := make([]float64, len(rows)), make([]float64, len(rows))
	if err := m.Stats(rows, &model.Stats{LogSum: sums}); err != nil {
		return 0, err
	}
	if err := m.Visit(rows, func(j int, logits []float32) {
		each[j] = float64(logits[x[masked[j]]]) - sums[j]
	}); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, v := range each {
		sum += v
	}
	return sum, nil
}
