package samplers

import (
	"fmt"
	"math"
)

// Schedule says how many of length positions are open after step `at` of steps. Partial
// caching asks for half steps too. The loop keeps it to what a step may do: it opens
// one position at least and leaves one for each step after it.
type Schedule func(at float64, steps, length int) int

// Uniform is round(D*n/N) (Hayakawa et al. 2025, appendix "Sampling schedule"). Halves go
// to the even neighbour, as Python, NumPy and PyTorch round.
func Uniform(at float64, steps, length int) int {
	return int(math.RoundToEven(float64(length) * at / float64(steps)))
}

// Cosine is round(D*(1-cos(pi/2*n/N))): few positions first. The paper prints the D inside
// the cosine and the ramp reversed; this is the schedule of MaskGIT (Chang et al. 2022,
// section 3.3) and MAGE, which the paper says it adopts.
func Cosine(at float64, steps, length int) int {
	return int(math.RoundToEven(float64(length) * (1 - math.Cos(math.Pi/2*at/float64(steps)))))
}

// Arccos is max(n, int(D*(1-acos(n/N)/(pi/2)))), of Halton-MaskGIT (Besnier et al. 2025).
func Arccos(at float64, steps, length int) int {
	open := int(float64(length) * (1 - math.Acos(min(at/float64(steps), 1))/(math.Pi/2)))
	return max(int(at), open)
}

// MAGE is Cosine with the number of masked positions rounded down, and one of them at
// least left before the last step (Li et al. 2023, gen_img_uncond.py of the authors).
func MAGE(at float64, steps, length int) int {
	masked := int(float64(length) * math.Cos(math.Pi/2*at/float64(steps)))
	if at < float64(steps) {
		masked = max(masked, 1)
	}
	return length - masked
}

var schedules = []struct {
	name string
	s    Schedule
}{{"uniform", Uniform}, {"cosine", Cosine}, {"arccos", Arccos}, {"mage", MAGE}}

// ParseSchedule finds a schedule by its name: uniform, cosine, arccos or mage.
func ParseSchedule(name string) (Schedule, error) {
	var names []string
	for _, s := range schedules {
		if s.name == name {
			return s.s, nil
		}
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("samplers: %w", unknown("schedule", name, names))
}

// Open is how many of length positions are open after step `at`: what s says, kept
// between one a step and what leaves one for each step to come.
func (s Schedule) Open(at float64, steps, length int) int {
	n := int(math.Floor(at))
	if n >= steps {
		return length
	}
	return max(min(s(at, steps, length), length-(steps-n)), n, 0)
}
