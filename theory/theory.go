// Package theory checks the statements of Hayakawa et al. 2025 ("Demystifying MaskGIT Sampler
// and Beyond") about samplers on models whose distributions are known exactly, by
// enumeration where that is possible and by counting elsewhere. Partial caching, an
// approximation, is measured on networks.
//
// Every number follows from the seed.
package theory

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
	"unmask/theory/oracle"
)

// Result is one check of a claim: Statistic is at most Bound or, with Above, at least.
type Result struct {
	Claim     string  // "proposition 1"
	Case      string  // what was run
	Measure   string  // what Statistic is
	Statistic float64 //
	Error     float64 // half of the 95 % confidence interval of a Monte Carlo estimate, 0 where exact
	Bound     float64
	Above     bool
	Holds     bool
	Points    []Point
}

// Point is one of a curve that a claim is drawn as. Proposition 1: measured frequency against the
// formula's. Theorem 1: total variation against N/k^2. Implicit temperature: committed frequency
// against p. Equation 5: nats against the size of the first round. Partial caching: total variation
// against the step.
type Point struct {
	Curve string
	X, Y  float64
	Error float64 // half of the 95 % confidence interval, 0 where exact
}

// below judges a statistic that must not exceed its bound, by the upper end of its interval.
func (r Result) below() Result {
	r.Holds = r.Statistic+r.Error <= r.Bound
	return r
}

// above judges a statistic that must reach its bound.
func (r Result) above() Result {
	r.Above, r.Holds = true, r.Statistic-r.Error >= r.Bound
	return r
}

// Options of the checks. The zero value takes about ten seconds on two cores,
// to which those of the networks come.
type Options struct {
	Seed  uint64
	Draws int // sequences of each count; 0 means 4000
	Most  int // positions of theorem 1's largest case; 0 means 16384

	Only []string // claims to check; nil for all

	// Networks are what partial caching is measured on, by name.
	Networks []Network
}

// Network is a model with partial passes.
type Network struct {
	Name string
	model.Denoiser
	Sequences int // at least 2
}

const (
	defaultDraws = 4000
	defaultMost  = 16384
)

var checks = []struct {
	claim string
	check func(context.Context, Options) ([]Result, error)
}{
	{"proposition 1", GumbelTopK}, {"theorem 1", Enumerated}, {"theorem 1", MonteCarlo},
	{"theorem 1", OneRound},
	{"implicit temperature", Temperature}, {"proposition 2", OneByOne}, {"equation 5", Decomposition},
	{"partial caching", Caching},
}

// Claims are all that Run checks, in its order.
func Claims() []string {
	var out []string
	for _, c := range checks {
		if !slices.Contains(out, c.claim) {
			out = append(out, c.claim)
		}
	}
	return out
}

// Run makes all checks in the paper's order. It ends with an error that comes alone.
func Run(ctx context.Context, o Options) iter.Seq2[Result, error] {
	if o.Draws == 0 {
		o.Draws = defaultDraws
	}
	if o.Most == 0 {
		o.Most = defaultMost
	}
	return func(yield func(Result, error) bool) {
		for _, c := range checks {
			if len(o.Only) > 0 && !slices.Contains(o.Only, c.claim) {
				continue
			}
			results, err := c.check(ctx, o)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Result{}, err)
				return
			}
			for _, r := range results {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// parse makes a sampler of a name.
func parse(name string) (samplers.Sampler, error) { return samplers.Parse(name) }

// Count generates n sequences of a small model and counts them by index: the first token
// counts most.
func Count(ctx context.Context, m *oracle.Model, o generate.Options, n int) ([]float64, error) {
	o.N, o.Batch = n, 500
	out := make([]float64, sequences(m))
	for q, err := range generate.Samples(ctx, oracle.NewDenoiser(m), o) {
		if err != nil {
			return nil, err
		}
		out[index(q.Tokens, m.Tokens())]++
	}
	return out, nil
}

// Joint is the distribution of a small model over all sequences, by index.
func Joint(m *oracle.Model) []float64 {
	p := make([]float64, sequences(m))
	for i := range p {
		p[i] = probability(m, i)
	}
	return p
}

func index(x []int32, tokens int) (i int) {
	for _, t := range x {
		i = i*tokens + int(t)
	}
	return i
}

// mostSequences bounds what is enumerated.
const mostSequences = 1 << 20

func sequences(m *oracle.Model) int {
	n := 1
	for range m.Length() {
		if n *= m.Tokens(); n > mostSequences {
			panic(fmt.Sprintf("theory: %s has more than %d sequences", m, mostSequences))
		}
	}
	return n
}
