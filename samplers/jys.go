package samplers

import (
	"fmt"
	"math"
)

// JYS returns the schedule of `steps` times, falling to 0 and for Times, with the least KL bound
// ("jump your steps", Park et al. 2025). The paper halves intervals by golden-section search, as
// its times are real numbers; here all numbers of masks are tried.
//
// profile[m-1] is the mean log-probability of the true token at a masked position, in nats, with m
// positions masked. Opening all but c of b masked positions in one step costs
// (b-c)*-profile[b-1] nats. Among schedules of the same cost it takes the most even.
func JYS(steps int, profile []float64) ([]float64, error) {
	length := len(profile)
	if steps < 1 || steps > length {
		return nil, fmt.Errorf("samplers: jys with %d steps, want 1 to %d", steps, length)
	}
	// least[b] is the cost from b masked positions to none, ends[n][b] how many the first of those
	// n+1 steps leaves.
	least, ends := make([]float64, length+1), make([][]int32, steps)
	for b := range least[1:] {
		least[b+1] = math.Inf(1)
	}
	for n := range ends {
		next := make([]float64, length+1)
		ends[n] = make([]int32, length+1)
		for b := range next {
			next[b] = math.Inf(1)
			for c := n; c < b; c++ {
				open := float64(b - c)
				if cost := least[c] + open*(open*evenness-profile[b-1]); cost < next[b] {
					next[b], ends[n][b] = cost, int32(c)
				}
			}
		}
		least = next
	}
	times := make([]float64, steps)
	for i, b := 0, int32(length); i < steps; i++ {
		b = ends[steps-1-i][b]
		times[i] = float64(b) / float64(length)
	}
	return times, nil
}

// evenness is the cost of a step's square, too small to matter where costs differ.
const evenness = 1e-9
