package samplers_test

import (
	"math"
	"strings"
	"testing"

	"unmask/samplers"
)

// BenchmarkChoose measures each sampler's own work at the published size of text: 1024 masked
// positions, of which 16 open. Samplers that read logits get 50257 at each position; computing
// these is the output head's work.
func BenchmarkChoose(b *testing.B) {
	const length, classes = 1024, 50257
	floats := func(f func(i int) float64) []float64 {
		x := make([]float64, length)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	v := &samplers.View{
		Tokens: make([]int32, length), Mask: classes, Outcomes: classes, Shape: []int{length}, Step: 3,
		Steps: 64, Quota: 16, FreeCount: length,
		Arg: make([]int32, length), Token: make([]int32, length), OpenedLogP: make([]float64, length),
		LogMoment: floats(func(i int) float64 { return -float64(i % 17) }),
		Entropy:   floats(func(i int) float64 { return float64(i%31) / 10 }),
		P1:        floats(func(i int) float64 { return float64(i%97) / 97 }),
		P2:        make([]float64, length),
		LogP:      floats(func(i int) float64 { return -float64(i % 13) }),
	}
	for i := range length {
		v.Tokens[i] = v.Mask
		v.Masked = append(v.Masked, i)
	}
	logits, row, sum := make([]float32, classes), make([]float32, classes), 0.0
	for x := range logits {
		logits[x] = float32(8 * math.Sin(float64(x*x%7919)))
		sum += math.Exp(float64(logits[x]))
	}
	v.LogSum = floats(func(int) float64 { return math.Log(sum) })
	v.Visit = func(positions []int, visit func(i int, logits []float32)) error {
		for i := range positions {
			copy(row, logits)
			visit(i, row)
		}
		return nil
	}
	flat := func() { // the hardest row for vanilla's race: all outcomes equally likely
		clear(logits)
		for i := range v.LogSum {
			v.LogSum[i] = math.Log(classes)
		}
	}
	v.LookAhead = func(c []samplers.Opening) ([]float64, []int, error) {
		return make([]float64, len(c)), make([]int, len(c)), nil
	}
	var names []string
	for _, info := range samplers.List() {
		names = append(names, info.Name)
	}
	names = append(names, "vanilla(bits=32)", "vanilla(bits=32)/flat")
	for _, name := range names {
		text, isFlat := strings.CutSuffix(name, "/flat")
		if isFlat {
			flat()
		}
		s, err := samplers.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if f, ok := samplers.As[samplers.Stateful](s); ok {
			v.State = f.NewState(length)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				v.Reset()
				v.Rand = samplers.Rand{Seed: 1, Sequence: uint32(i), Step: 3}
				v.Noise = samplers.ForOrder
				if _, err := s.Choose(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
