package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"unmask/param"
)

// Filter changes marginals: first bans and biases, then temperature, then top-k, then top-p, in the
// order of Hugging Face's generation. The zero Filter changes nothing.
type Filter struct {
	// Temperature T makes p into p^(1/T), normalised; 0 means 1.
	Temperature float64

	// TopK keeps only the k most probable outcomes; 0 means all.
	TopK int

	// TopP keeps the fewest outcomes whose probabilities sum to at least p; 0 means all.
	TopP float64

	// Ban are outcomes that are never drawn.
	Ban []int32

	// Bias is added to the logits of outcomes.
	Bias map[int32]float32

	// Adjust, when not nil, may change a row's logits (outcomes only) before everything else, and
	// may be called concurrently. row is sequence*Length + position of the batch.
	Adjust func(row int32, logits []float32)
}

// IsNeutral reports whether the filter changes nothing.
func (f *Filter) IsNeutral() bool {
	return (f.Temperature == 0 || f.Temperature == 1) && f.TopK == 0 && (f.TopP == 0 || f.TopP == 1) &&
		len(f.Ban) == 0 && len(f.Bias) == 0 && f.Adjust == nil
}

// Equal reports whether two filters without Adjust change marginals alike.
func (f *Filter) Equal(o *Filter) bool {
	return f.Temperature == o.Temperature && f.TopK == o.TopK && f.TopP == o.TopP &&
		slices.Equal(f.Ban, o.Ban) && maps.Equal(f.Bias, o.Bias)
}

// The parameters of a Filter that are numbers.
var (
	TemperatureParam = param.Param{
		Name:    "temperature",
		Min:     1e-3,
		Max:     1e3,
		Default: "1",
		Zero:    "the most probable tokens",
		Help:    "draw from p^(1/temperature), normalised; 0 takes the most probable tokens",
	}
	TopPParam = param.Param{
		Name:    "top-p",
		Min:     1e-9,
		Max:     1,
		Default: "1",
		Help:    "keep the most probable tokens that hold this much probability",
	}
	TopKParam = param.Param{
		Name:    "top-k",
		Kind:    param.Whole,
		Min:     1,
		Max:     1 << 30,
		Zero:    "all",
		Default: "0",
		Help:    "keep the k most probable tokens, 0 for all",
	}
)

// Check returns an error for the first parameter out of range, given the number of outcomes.
func (f *Filter) Check(tokens int) error {
	if err := TemperatureParam.Check(f.Temperature); err != nil {
		return err
	}
	if err := TopKParam.CheckInt(f.TopK); err != nil {
		return err
	}
	if err := TopPParam.Check(f.TopP); err != nil {
		return err
	}

	impossible := map[int32]bool{}
	for _, t := range f.Ban {
		if t < 0 || int(t) >= tokens {
			return param.Refuse("ban", param.NoSuchToken, "ban is %d, want tokens 0 to %d", t, tokens-1)
		}
		impossible[t] = true
	}
	for t, b := range f.Bias {
		if math.IsInf(float64(b), -1) {
			impossible[t] = true
		}
	}
	if len(impossible) >= tokens {
		return param.Refuse("ban", param.OutOfRange, "ban is all %d tokens, want one that may be drawn",
			tokens)
	}
	for _, t := range slices.Sorted(maps.Keys(f.Bias)) { // the error must not depend on map order
		b := f.Bias[t]
		if t < 0 || int(t) >= tokens || b != b || math.IsInf(float64(b), 1) {
			return param.Refuse("bias", param.OutOfRange,
				"bias is %v of token %d, want a number, of tokens 0 to %d", b, t, tokens-1)
		}
	}
	return nil
}

// Filtered applies filters to other Marginals row by row, so that no buffer of positions x outcomes
// is needed.
type Filtered struct {
	// Base are the marginals that the filters change.
	Base Marginals

	// Filter is that of all rows, unless Filters is set.
	Filter *Filter

	// Outcomes is the number of outcomes, the first columns of a row.
	Outcomes int

	// Filters, when not nil, returns the filter of a row and replaces Filter. Adjust, when not nil,
	// runs after the filter's own Adjust.
	Filters func(row int32) *Filter
	Adjust  func(row int32, logits []float32)

	rows scratchRows

	// err is the error of the lowest row of the latest call. mutex guards it, because rows are
	// visited concurrently.
	mutex sync.Mutex
	err   error
}

// Stats reduces the filtered rows.
func (f *Filtered) Stats(rows []int32, s *Stats) error {
	return f.visitRows(rows, func(i int, logits []float32) error { return ReduceRow(logits, s, i) })
}

// Sample draws from the filtered rows.
func (f *Filtered) Sample(rows []int32, d *Draw) error {
	return f.visitRows(rows, func(i int, logits []float32) error { return DrawRow(logits, d, i) })
}

// Visit passes the filtered rows to visit, outcomes only.
func (f *Filtered) Visit(rows []int32, visit func(i int, logits []float32)) error {
	return f.visitRows(rows, func(i int, logits []float32) error {
		visit(i, logits)
		return nil
	})
}

// visitRows calls visit with each filtered row, outcomes only. It returns the error of the lowest
// row, whichever goroutine fails first.
func (f *Filtered) visitRows(rows []int32, visit func(i int, logits []float32) error) error {
	f.err = nil
	err := f.Base.Visit(rows, func(i int, logits []float32) {
		logits = logits[:f.Outcomes]
		err := f.applyTo(rows[i], logits)
		if err == nil {
			err = visit(i, logits)
		}
		if err == nil {
			return
		}
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if lowest, ok := f.err.(*RowError); !ok || rows[i] < lowest.Row {
			f.err = &RowError{Row: rows[i], Err: err}
		}
	})
	if err != nil {
		return err
	}
	return f.err
}

// applyTo changes the logits of a row.
func (f *Filtered) applyTo(row int32, logits []float32) error {
	filter := f.Filter
	if f.Filters != nil {
		filter = f.Filters(row)
	}
	if anyNaN(logits) { // a filter might hide it
		return fmt.Errorf("a logit is NaN, want finite numbers or -Inf")
	}
	if filter.Adjust != nil {
		filter.Adjust(row, logits)
	}
	if f.Adjust != nil {
		f.Adjust(row, logits)
	}
	for t, b := range filter.Bias {
		logits[t] += b
	}
	for _, t := range filter.Ban {
		logits[t] = float32(math.Inf(-1))
	}
	if filter.Temperature != 0 && filter.Temperature != 1 {
		for x, l := range logits {
			logits[x] = float32(float64(l) / filter.Temperature)
		}
	}
	if filter.TopK > 0 && filter.TopK < len(logits) {
		// A share between k-1 and k of n, whatever is rounded.
		share := (float64(filter.TopK) - 0.5) / float64(len(logits))
		f.keepLargest(logits, share, func(float32) float64 { return 1 })
	}
	if filter.TopP > 0 && filter.TopP < 1 {
		top, _, _ := largest(logits)
		f.keepLargest(logits, filter.TopP, func(l float32) float64 {
			return math.Exp(float64(l) - top)
		})
	}
	return nil
}

// keepLargest sets all logits to -Inf but the fewest of the largest that have a share of all
// weights. It keeps all if a weight is NaN. Among logits equal to the smallest kept one, those of
// lowest index stay.
//
// The smallest is found without sorting, 11 bits at a time: the cumulative weights of all values of
// its next bits say which value they have. Sorting would take longer for a
// large vocabulary.
func (f *Filtered) keepLargest(logits []float32, share float64, weight func(l float32) float64) {
	buffer := f.rows.get(len(logits))
	defer f.rows.put(buffer)
	copy(buffer.x, logits)

	candidates := buffer.x // logits that begin with the bits found so far
	want := math.Inf(1)    // their weight to keep
	for _, shift := range [...]int{21, 10, 0} {
		digit := func(l float32) int { return int(descendingBits(l) >> shift % 2048) }
		var below [2049]float64 // for each digit, the weight of those below it
		for _, l := range candidates {
			below[digit(l)+1] += weight(l)
		}
		for i := range 2048 {
			below[i+1] += below[i]
		}
		want = min(want, share*below[2048])
		share = 1 // of the candidates that are left, `want` says how much
		if math.IsNaN(want) {
			return
		}
		next, _ := slices.BinarySearch(below[1:], want)
		want -= below[next]
		candidates = slices.DeleteFunc(candidates, func(l float32) bool { return digit(l) != next })
	}

	smallest := candidates[0]
	equal := math.Ceil(want / weight(smallest)) // how many equal ones are kept
	for x, l := range logits {
		if l == smallest && equal > 0 {
			equal--
		} else if l <= smallest {
			logits[x] = float32(math.Inf(-1))
		}
	}
}

// descendingBits returns the bits of a number, changed so that those of larger numbers are smaller.
// The bits of floats of one sign are ordered as the floats are, or the other way round; so the sign
// decides which bits are inverted.
func descendingBits(l float32) uint32 {
	b := math.Float32bits(l + 0) // of -0 as of 0
	return b ^ ^uint32(int32(b)>>31)>>1
}
