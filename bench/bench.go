// Package bench measures unmask against the processor's limits: each measurement alternates with a
// loop of the one instruction that limits it, and its share is the fraction of that ceiling which
// it reaches.
//
// The names, which `unmask bench` and `go test -bench` share:
//
//	ceiling/{f32,bf16,int8,read}               the limits: arithmetic and reading memory
//	forward/{lm12,vit20,vit20x8}/PRECISION     whole passes of the published sizes
//	partial32/lm12/PRECISION                   a partial pass of 32 of 1024 rows
//	forward/llama8b/{q4_k,q8_0,bf16}           two of LLaDA-8B's 32 layers, 256 positions
//	window160/llama8b/{q4_k,q8_0,bf16}         the same, 160 positions
//	block32/llama8b/{q4_k,q8_0,bf16}           the same for 32 of the 256
//	{forward,window160,block32}/llada-moe/q4_k the same of LLaDA-MoE-7B-A1B
//	row1/WEIGHTS, rows8/WEIGHTS                one row, or eight, times the weights of such a layer
//	step64/qwen3-0.6b/PRECISION                a pass over 64 positions and its head, a quarter of it
//	decode/256                                 MAGE's VQGAN decoder, one image
//	sound/5s                                   the decoder of OmniVoice's voice, five seconds
//	head/{logits,...,sample}/PRECISION         the output head of LM12 at 1024 rows
//	attention/{1024,257}, conv/{256,128}       kernels by themselves
//	sampler/NAME                               a sampler's first two steps, hidden states given
//	generate/lm12/SAMPLER                      LM12 in 32 steps
//	generate/{text,image}                      the demo models from masks to the end
//
// PRECISION is f32, bf16 or int8, and WEIGHTS that or q8_0, q4_0, q4_k, q5_k or q6_k. Weights are
// random, which does not affect the time.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"unmask/backend"
	"unmask/backend/cpu"
)

// Options choose what is measured and how. The zero value is everything on all cores.
type Options struct {
	// Threads is the number of threads; 0 means all cores.
	Threads int

	// Only is a pattern, see Select; "" means everything.
	Only string

	// Samples is the number of samples, of which the median is taken; 0 means 5.
	Samples int
}

// Result is one measurement.
type Result struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // median of a call
	// of the ceiling, measured alternately with the calls; a ceiling's own is about 1
	Share float64 `json:"share"`
	Rate  float64 `json:"rate"`  // achieved, in Unit
	Unit  string  `json:"unit"`  // GFLOP/s, or GB/s if reading memory is the limit
	Limit string  `json:"limit"` // the instruction of the ceiling's loop, or "read"

	// Own, for a sampler, is the seconds outside the network and its output head: those of its
	// rule, divided among threads where it reads logits, and of the denoising loop. OwnShare is
	// their share of whole steps, with the passes that Seconds leaves out.
	Own      float64 `json:"own,omitempty"`
	OwnShare float64 `json:"own_share,omitempty"`
}

// Heading is the first line of a table of results.
var Heading = fmt.Sprintf("%-24s %12s %7s %16s  %s", "name", "seconds", "share", "rate", "ceiling")

// String returns a line of the table.
func (r Result) String() string {
	line := fmt.Sprintf("%-24s %12.6f %6.1f%% %8.1f %-7s  %s", r.Name, r.Seconds, 100*r.Share, r.Rate,
		r.Unit, r.Limit)
	if r.OwnShare > 0 {
		line += fmt.Sprintf(", own work %.6f s, %.2f%% of a step", r.Own, 100*r.OwnShare)
	}
	return line
}

// Measurement is one measurement with its name. Its work is prepared only when it runs.
type Measurement struct {
	Name    string
	prepare func(s *Suite) (work, error)
}

// work is a call that is repeated, with its least amount of work.
type work struct {
	run  func() error
	cost cost
}

// cost is arithmetic, counted as multiplications and additions of weights and attention, and the
// bytes of weights that must come from memory.
type cost struct {
	// ops are the operations, in a precision whose ceiling limits them.
	ops       float64
	precision backend.Precision

	// bytes are 0 if memory is not the limit.
	bytes float64

	// sampler is nil unless a sampler is measured.
	sampler *samplerTimes
}

// All lists the measurements in the order in which they run. Those of one network are together,
// because only one network at a time is in memory.
func All() []Measurement {
	return slices.Concat(
		ceilingMeasurements(),
		languageMeasurements(),
		layerMeasurements(),
		rowMeasurements(),
		qwenMeasurements(),
		imageMeasurements(),
		kernelMeasurements(),
		demoMeasurements(),
	)
}

// Run runs the chosen measurements one after the other and calls report with each result.
func Run(ctx context.Context, o Options, report func(Result)) error {
	chosen, err := Select(o.Only)
	if err != nil {
		return err
	}
	if err := cpu.CheckISA(""); err != nil {
		return err
	}
	s := NewSuite(o.Threads)
	for _, m := range chosen {
		r, err := s.Measure(ctx, m, max(o.Samples, 0))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		report(r)
	}
	return nil
}

const (
	defaultSamples = 5
	shortestSample = 50 * time.Millisecond // shortest sample: shorter calls are repeated
)

// Measure takes the median of `samples` calls, 0 for 5, each after a short run of its ceiling.
func (s *Suite) Measure(ctx context.Context, m Measurement, samples int) (Result, error) {
	samples = cmp.Or(samples, defaultSamples)
	w, err := m.prepare(s)
	if err != nil {
		return Result{}, err
	}
	runtime.GC()                    // collect what other measurements prepared
	if err := w.run(); err != nil { // the first call allocates
		return Result{}, err
	}
	elapsed, err := s.timeCalls(w.run, 1)
	if err != nil {
		return Result{}, err
	}
	repeat := 1
	if elapsed < shortestSample.Seconds() {
		repeat = int(shortestSample.Seconds()/max(elapsed, 1e-7)) + 1
	}

	var seconds, ops, bytes, ownSeconds []float64
	for range samples {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		ops = append(ops, s.opsRate(w.cost.precision))
		if w.cost.bytes > 0 {
			bytes = append(bytes, s.readRate())
		}
		elapsed, err := s.timeCalls(w.run, repeat)
		if err != nil {
			return Result{}, err
		}
		seconds = append(seconds, elapsed/float64(repeat))
		if w.cost.sampler != nil {
			ownSeconds = append(ownSeconds, w.cost.sampler.own)
		}
	}
	r := s.result(m.Name, w.cost, median(seconds), median(ops), median(bytes))
	if w.cost.sampler != nil {
		r.Own = median(ownSeconds)
		r.OwnShare = r.Own / (r.Seconds + w.cost.sampler.passes)
	}
	return r, nil
}

// timeCalls returns the seconds of `repeat` calls of run.
func (s *Suite) timeCalls(run func() error, repeat int) (float64, error) {
	start := time.Now()
	for range repeat {
		if err := run(); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

// result computes a result from the seconds of a call and the ceilings: ops and bytes per second.
// The share is that of the limit which takes longer, arithmetic or memory.
func (s *Suite) result(name string, c cost, seconds, ops, bytes float64) Result {
	r := Result{
		Name:    name,
		Seconds: seconds,
		Rate:    c.ops / seconds / 1e9,
		Unit:    "GFLOP/s",
		Limit:   s.loop(c.precision).Name,
	}
	leastSeconds := c.ops / ops
	if c.bytes > 0 && c.bytes/bytes > leastSeconds {
		leastSeconds = c.bytes / bytes
		r.Rate = c.bytes / seconds / 1e9
		r.Unit = "GB/s"
		r.Limit = readName
	}
	r.Share = leastSeconds / seconds
	return r
}

// median returns the median of values, 0 if there are none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
