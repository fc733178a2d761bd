package samplers

import (
	"fmt"
	"math"
)

// JYS returns the schedule of `steps` times, falling to 0 and for TimesSchedule, with the least KL
// bound ("jump your steps", Park et al. 2025). The paper halves intervals by golden-section search,
// as its times are real numbers; here all numbers of masks are tried.
//
// profile[m-1] is the mean log-probability of the true token at a masked position, in nats, with m
// positions masked. Opening all but c of b masked positions in one step costs
// (b-c)*-profile[b-1] nats. Among schedules of the same cost it takes the most even.
//
// The same schedule has the least expected KL of optimal inference schedules (arXiv 2511.04647), as
// ScheduleKL has it: the two costs differ by the sum of the profile, which no schedule changes.
// steps outside 1 to the length of profile are an error.
func JYS(steps int, profile []float64) ([]float64, error) {
	length := len(profile)
	if steps < 1 || steps > length {
		return nil, fmt.Errorf("samplers: jys with %d steps, want 1 to %d", steps, length)
	}

	// leastCost[b] is the cost from b masked positions to none in the steps so far, infinite if it
	// cannot be done. masksAfter[n][b] says how many masks the first of n+1 steps from b leaves.
	leastCost := make([]float64, length+1)
	for b := range length {
		leastCost[b+1] = math.Inf(1)
	}
	masksAfter := make([][]int32, steps)
	for n := range masksAfter {
		leastCost, masksAfter[n] = addStep(n, leastCost, profile)
	}

	times := make([]float64, steps)
	masks := int32(length)
	for i := range times {
		masks = masksAfter[steps-1-i][masks]
		times[i] = float64(masks) / float64(length)
	}
	return times, nil
}

// ScheduleKL returns the expected KL, in nats, of the distribution that is right from that of a run
// that opens positions at random in the steps of a schedule, the positions of a step independently
// (arXiv 2511.04647). profile is that of JYS.
//
// With j positions open, another one costs h_j nats, the profile's mean entropy there. Each of the
// k positions of a step is drawn as if only the j from before the step were known, which costs
// h_j - h_(j+m) more for the one that has m others of the step before it. 0 is exact.
func ScheduleKL(s Schedule, steps int, profile []float64) (nats float64) {
	length := len(profile)
	entropy := func(open int) float64 { return -profile[length-1-open] }
	openBefore := 0
	for n := 1; n <= steps; n++ {
		openAfter := OpenCount(s, float64(n), steps, length)
		for open := openBefore; open < openAfter; open++ {
			nats += entropy(openBefore) - entropy(open)
		}
		openBefore = openAfter
	}
	return nats
}

// addStep returns the least costs of n+1 steps, given those of n, and how many masks the first of
// the n+1 steps leaves.
func addStep(n int, leastCost, profile []float64) (cost []float64, masksAfter []int32) {
	cost = make([]float64, len(leastCost))
	masksAfter = make([]int32, len(leastCost))
	for b := range cost {
		cost[b] = math.Inf(1)
		for c := n; c < b; c++ {
			opened := float64(b - c)
			x := leastCost[c] + opened*(opened*evenness-profile[b-1])
			if x < cost[b] {
				cost[b] = x
				masksAfter[b] = int32(c)
			}
		}
	}
	return cost, masksAfter
}

// evenness is the cost of a step's square, too small to matter where costs differ.
const evenness = 1e-9
