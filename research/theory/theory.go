// Package theory checks the statements of Hayakawa et al., 2025 ("Demystifying MaskGIT Sampler
// and Beyond") about samplers on models whose distributions are known exactly, by
// enumeration where that is possible and by counting elsewhere. Partial caching, an
// approximation, is measured on networks.
//
// Every number follows from the seed.
package theory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
)

// Result is one check of a claim: Statistic has its Relation to Bound.
type Result struct {
	// Claim is the paper's statement, such as "proposition 1", and Case says how it was run.
	Claim string `json:"claim"`
	Case  string `json:"case"`

	// Measure says what Statistic is.
	Measure   string  `json:"measure"`
	Statistic float64 `json:"statistic"`

	// Error is half of the statistic's 95 % interval, 0 if it is exact or a count.
	Error float64 `json:"error"`

	// Relation is <= or >=.
	Relation string  `json:"relation"`
	Bound    float64 `json:"bound"`
	Holds    bool    `json:"holds"`

	Points []Point `json:"-"`
}

// Point is a point of a curve that illustrates a claim. Proposition 1: measured frequency against
// the formula's. Theorem 1: total variation distance against N/k^2. Implicit temperature: frequency
// of kept tokens against p. Equation 5: nats against the size of the first round. Partial caching:
// total variation distance against the step.
type Point struct {
	Curve string
	X, Y  float64
	Error float64 // half of the 95 % confidence interval, 0 if exact
}

// requireBelow decides a result whose statistic must not exceed its bound, by the upper end of its
// interval.
func (r Result) requireBelow() Result {
	r.Relation = "<="
	r.Holds = r.Statistic+r.Error <= r.Bound
	return r
}

// requireAbove decides a result whose statistic must reach its bound, by the lower end of its
// interval.
func (r Result) requireAbove() Result {
	r.Relation = ">="
	r.Holds = r.Statistic-r.Error >= r.Bound
	return r
}

// Options say what is checked. The zero value takes about ten seconds on two cores, not counting
// the networks.
type Options struct {
	Seed uint64

	// Draws is the number of sequences counted for each distribution; 0 means 4000.
	Draws int

	// Most is the number of positions in the largest case of theorem 1; 0 means 16384.
	Most int

	// Only are the claims to check; nil for all.
	Only []string

	// Networks are the models on which partial caching is measured.
	Networks []Network
}

// Network is a model with partial passes.
type Network struct {
	Name string
	model.Denoiser
	Sequences int // number of sequences, at least 2
}

// checks are all checks in the paper's order.
var checks = []struct {
	claim string
	check func(context.Context, Options) ([]Result, error)
}{
	{"proposition 1", CheckGumbelTopK},
	{"theorem 1", CheckEnumerated},
	{"theorem 1", CheckMonteCarlo},
	{"theorem 1", CheckOneRound},
	{"implicit temperature", CheckTemperature},
	{"proposition 2", CheckOneByOne},
	{"equation 5", CheckDecomposition},
	{"partial caching", CheckCaching},
}

// Claims returns the names of all checks in the order of Run.
func Claims() []string {
	var claims []string
	for _, c := range checks {
		if !slices.Contains(claims, c.claim) {
			claims = append(claims, c.claim)
		}
	}
	return claims
}

// Run makes all checks in the paper's order. It ends after an error, which has no result with it.
func Run(ctx context.Context, o Options) iter.Seq2[Result, error] {
	o.Draws = cmp.Or(o.Draws, 4000)
	o.Most = cmp.Or(o.Most, 16384)
	return func(yield func(Result, error) bool) {
		for _, c := range checks {
			if len(o.Only) > 0 && !slices.Contains(o.Only, c.claim) {
				continue
			}
			results, err := c.check(ctx, o)
			err = cmp.Or(err, ctx.Err())
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

// Count generates n sequences of a small model and returns counts by index; in an index the first
// token is the most significant digit.
func Count(ctx context.Context, m *exact.Model, o generate.Options, n int) ([]float64, error) {
	o.N = n
	o.Batch = 500
	counts := make([]float64, countSequences(m))
	for q, err := range generate.Samples(ctx, exact.NewDenoiser(m), o) {
		if err != nil {
			return nil, err
		}
		counts[sequenceIndex(q.Tokens, m.Tokens())]++
	}
	return counts, nil
}

// Joint returns the distribution of a small model over all sequences, by index.
func Joint(m *exact.Model) []float64 {
	p := make([]float64, countSequences(m))
	for i, x := range allSequences(m) {
		p[i] = math.Exp(m.LogProb(x))
	}
	return p
}

// allSequences visits a small model's sequences by index. Each is valid until the next one.
func allSequences(m *exact.Model) iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		x := make([]int32, m.Length())
		for i := range countSequences(m) {
			digits := i
			for position := len(x) - 1; position >= 0; position-- {
				x[position] = int32(digits % m.Tokens())
				digits /= m.Tokens()
			}
			if !yield(i, x) {
				return
			}
		}
	}
}

// sequenceIndex returns the index of a sequence: its tokens as the digits of a number.
func sequenceIndex(x []int32, tokens int) (i int) {
	for _, token := range x {
		i = i*tokens + int(token)
	}
	return i
}

// maxSequences is the largest number of sequences that is enumerated.
const maxSequences = 1 << 20

// countSequences returns how many sequences a model has. It panics if they are too many.
func countSequences(m *exact.Model) int {
	n := 1
	for range m.Length() {
		n *= m.Tokens()
		if n > maxSequences {
			panic(fmt.Sprintf("theory: %s has more than %d sequences", m, maxSequences))
		}
	}
	return n
}

// String returns the result as a table row.
func (r Result) String() string {
	holds := "holds"
	if !r.Holds {
		holds = "DOES NOT HOLD"
	}
	value := fmt.Sprintf("%.4g", r.Statistic)
	if r.Error > 0 {
		value += fmt.Sprintf(" ± %.2g", r.Error)
	}
	return fmt.Sprintf("%-21s %-20s %s %-9.4g %-6s %s: %s", r.Claim, value, r.Relation,
		r.Bound, holds, r.Case, r.Measure)
}

// Write makes all checks and writes each result at once, as a table row or a line of JSON. It
// returns the results and the number of those that do not hold.
func Write(ctx context.Context, w io.Writer, o Options, asJSON bool) (results []Result, failed int,
	err error) {
	line := json.NewEncoder(w)
	line.SetEscapeHTML(false)
	for r, err := range Run(ctx, o) {
		if err != nil {
			return results, failed, err
		}
		results = append(results, r)
		if !r.Holds {
			failed++
		}
		if asJSON {
			err = line.Encode(r)
		} else {
			_, err = fmt.Fprintln(w, r)
		}
		if err != nil {
			return results, failed, err
		}
	}
	return results, failed, nil
}
