package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Dense are Marginals over an explicit matrix of logits, for exact models and tests.
type Dense struct {
	// Logits, [rows, Columns], may be log-probabilities, which are logits too.
	Logits  []float32
	Columns int

	// Outcomes is the number of columns that are outcomes, from the first on; 0 means all.
	Outcomes int

	rows scratchRows
}

// Stats reduces the rows asked for.
func (d *Dense) Stats(rows []int32, s *Stats) error {
	for i, r := range rows {
		if err := ReduceRow(d.outcomesOf(r), s, i); err != nil {
			return &RowError{Row: r, Err: err}
		}
	}
	return nil
}

// Sample draws a token for each of the rows.
func (d *Dense) Sample(rows []int32, w *Draw) error {
	for i, r := range rows {
		if err := DrawRow(d.outcomesOf(r), w, i); err != nil {
			return &RowError{Row: r, Err: err}
		}
	}
	return nil
}

// Visit passes copies of rows to visit, one after the other.
func (d *Dense) Visit(rows []int32, visit func(i int, logits []float32)) error {
	buffer := d.rows.get(d.Columns)
	defer d.rows.put(buffer)
	for i, r := range rows {
		copy(buffer.x, d.row(r))
		visit(i, buffer.x)
	}
	return nil
}

// row returns the logits [Columns] of a row.
func (d *Dense) row(r int32) []float32 {
	return d.Logits[int(r)*d.Columns : (int(r)+1)*d.Columns]
}

// outcomesOf returns the logits [Outcomes] of a row.
func (d *Dense) outcomesOf(r int32) []float32 {
	return d.row(r)[:cmp.Or(d.Outcomes, d.Columns)]
}

// RowError says that one row's marginal is not a distribution. generate reports it with the
// sequence's index and the position.
type RowError struct {
	// Row is sequence of the batch * Length + position.
	Row int32

	// Length is the number of positions of a sequence; 0 if unknown.
	Length int

	// Err is the reason.
	Err error
}

// Error implements error.
func (e *RowError) Error() string {
	if e.Length == 0 {
		return fmt.Sprintf("row %d: %v", e.Row, e.Err)
	}
	return fmt.Sprintf("sequence %d of the batch, position %d: %v", int(e.Row)/e.Length,
		int(e.Row)%e.Length, e.Err)
}

// Unwrap returns the reason.
func (e *RowError) Unwrap() error { return e.Err }

// ReduceRow computes the reductions set in s for one row of logits, outcomes only, and stores them
// at index i. Sums are float64, in index order.
func ReduceRow[T float32 | float64](logits []T, s *Stats, i int) error {
	top, second, arg := largest(logits)
	sum := 0.0
	mean := 0.0 // of the logits less the largest, times sum
	for _, l := range logits {
		d := float64(l) - top
		e := math.Exp(d)
		sum += e
		if d > -700 { // below, e*d is as good as 0, and for -Inf it would be NaN
			mean += e * d
		}
	}
	if err := checkSoftmax(logits, top, sum); err != nil {
		return err
	}
	if s.LogSum != nil {
		s.LogSum[i] = top + math.Log(sum)
	}
	if s.P1 != nil {
		s.P1[i] = 1 / sum
	}
	if s.P2 != nil {
		s.P2[i] = math.Exp(second-top) / sum
	}
	if s.Arg != nil {
		s.Arg[i] = arg
	}
	if s.Entropy != nil {
		s.Entropy[i] = math.Log(sum) - mean/sum
	}
	if s.LogMoment != nil { // log sum p^Beta, with p = exp(l-top)/sum
		moment := 0.0
		for _, l := range logits {
			moment += math.Exp(s.Beta * (float64(l) - top))
		}
		s.LogMoment[i] = math.Log(moment) - s.Beta*math.Log(sum)
	}
	return nil
}

// DrawRow draws token i of w from one row of logits, outcomes only. It is the first outcome at
// which the cumulative sum of p^Power exceeds Uniform[i] times the total.
func DrawRow(logits []float32, w *Draw, i int) error {
	top, _, arg := largest(logits)
	power := cmp.Or(w.Power, 1)
	sum := 0.0      // of p
	powerSum := 0.0 // of p^power
	for _, l := range logits {
		e := math.Exp(float64(l) - top)
		sum += e
		if power != 1 {
			e = math.Exp(power * (float64(l) - top))
		}
		powerSum += e
	}
	if err := checkSoftmax(logits, top, sum); err != nil {
		return err
	}
	token := arg
	target := w.Uniform[i] * powerSum
	for x, l := range logits {
		// An outcome of probability 0 is never drawn, even if rounding makes the cumulative sum end
		// early.
		e := math.Exp(power * (float64(l) - top))
		if e > 0 {
			token = int32(x)
			target -= e
			if target < 0 {
				break
			}
		}
	}
	w.Token[i] = token
	if w.LogP != nil {
		w.LogP[i] = float64(logits[token]) - top - math.Log(sum)
	}
	return nil
}

// largest returns the two largest logits and the lowest index of the largest.
func largest[T float32 | float64](logits []T) (top, second float64, arg int32) {
	top = math.Inf(-1)
	second = math.Inf(-1)
	for i, x := range logits {
		l := float64(x)
		if l > top {
			second = top
			top = l
			arg = int32(i)
		} else if l > second {
			second = l
		}
	}
	return top, second, arg
}

// checkSoftmax returns an error if logits with this maximum and sum of exp have no softmax.
func checkSoftmax[T float32 | float64](logits []T, top, sum float64) error {
	switch {
	case math.IsInf(top, 1):
		return fmt.Errorf("a logit is +Inf, want finite numbers or -Inf")
	case math.IsInf(top, -1) && !anyNaN(logits):
		return fmt.Errorf("no outcome is possible, want one logit at least above -Inf")
	case math.IsNaN(sum):
		return fmt.Errorf("a logit is NaN, want finite numbers or -Inf")
	}
	return nil
}

// anyNaN reports whether a logit is NaN, the only number that differs from itself.
func anyNaN[T float32 | float64](logits []T) bool {
	return slices.ContainsFunc(logits, func(l T) bool { return l != l })
}

// scratchRows is a pool of rows for goroutines that visit rows at once.
type scratchRows struct{ pool sync.Pool }

type scratchRow struct{ x []float32 }

// get returns a row of n numbers, which have any values.
func (s *scratchRows) get(n int) *scratchRow {
	r, _ := s.pool.Get().(*scratchRow)
	if r == nil {
		r = new(scratchRow)
	}
	r.x = slices.Grow(r.x[:0], n)[:n]
	return r
}

func (s *scratchRows) put(r *scratchRow) { s.pool.Put(r) }
