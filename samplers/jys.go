package samplers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// JYS optimises a schedule offline ("jump your steps", Park et al. 2025). It splits all intervals,
// then all of the new ones, and so on, each at the golden-section maximum of the split's gain in
// the KL bound. It returns `steps` times, falling to 0, for Times.
//
// profile(t) is the mean log-probability of the true token at a masked position, with a fraction t
// masked. Drawing the tokens that open between times b and c from the pass at t costs
// (b-c)*(profile(b) - profile(t)) nats per position more than from a pass at b. That is the gain of
// the split (t, b, c) in the paper's bound if, as here, the number of positions that open is given.
func JYS(steps int, profile func(t float64) (float64, error)) ([]float64, error) {
	if steps < 1 || steps > 1<<16 {
		return nil, fmt.Errorf("samplers: jys with %d steps, want 1 to 65536", steps)
	}
	times := []float64{1, 0} // times 1 to 0, with the start
	for len(times)-1 < steps {
		type split struct {
			at, gain float64
		}
		var splits []split
		for i := range len(times) - 1 {
			at, gain, err := bestSplit(times[i], times[i+1], profile)
			if err != nil {
				return nil, err
			}
			splits = append(splits, split{at, gain})
		}
		// The last round makes only the best splits, if there are too many.
		if room := steps - len(times) + 1; len(splits) > room {
			slices.SortStableFunc(splits, func(a, b split) int { return cmp.Compare(b.gain, a.gain) })
			splits = splits[:room]
		}
		for _, s := range splits {
			times = append(times, s.at)
		}
		slices.SortFunc(times, func(a, b float64) int { return cmp.Compare(b, a) })
	}
	return times[1:], nil
}

// bestSplit finds the maximum between a and c, a > c, by golden-section search.
func bestSplit(a, c float64, profile func(t float64) (float64, error)) (
	at, gain float64, err error) {
	start, err := profile(a)
	if err != nil {
		return 0, 0, err
	}
	f := func(b float64) float64 {
		if err != nil {
			return 0
		}
		var p float64
		p, err = profile(b)
		return (b - c) * (p - start)
	}
	ratio := (math.Sqrt(5) - 1) / 2
	low, high := c, a
	x, y := high-ratio*(high-low), low+ratio*(high-low)
	fx, fy := f(x), f(y)
	for range 20 { // to within 1e-4 of the interval
		if fx >= fy {
			high, y, fy = y, x, fx
			x = high - ratio*(high-low)
			fx = f(x)
		} else {
			low, x, fx = x, y, fy
			y = low + ratio*(high-low)
			fy = f(y)
		}
	}
	at = (low + high) / 2
	return at, f(at), err
}
