package samplers

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"unmask/param"
)

// Schedule gives the number of open positions over time. At returns how many of `length` positions
// are open after a step of steps, 0 before the first; partial caching asks for fractions too.
// String returns the text that ParseSchedule reads. Use OpenCount to keep a schedule within bounds.
type Schedule interface {
	At(step float64, steps, length int) int
	String() string
}

// UsesSchedule reports whether a schedule has an effect on a sampler: it does unless the sampler
// decides itself how many positions a step opens.
func UsesSchedule(s Sampler) bool {
	_, plans := As[Planner](s)
	return !plans
}

// OpenCount returns how many of `length` positions are open after a step: the value of s, kept
// within bounds so that every step opens at least one.
func OpenCount(s Schedule, step float64, steps, length int) int {
	n := int(math.Floor(step)) // whole steps, each of which has opened one at least
	if _, ok := s.(Idler); ok {
		return max(0, min(s.At(step, steps, length), length))
	}
	if n >= steps {
		return length
	}
	return max(min(s.At(step, steps, length), length-(steps-n)), n, 0)
}

// Idler is a Schedule that allows steps that open nothing.
type Idler interface {
	Schedule
	Idle()
}

// Follower is a Schedule that counts from the positions that are masked now, whatever earlier
// steps opened. Share returns how many of so many masked ones a step opens if `left` steps are
// left, itself among them.
type Follower interface {
	Schedule
	Share(masked, left int) int
}

// formula is a schedule with a name. It is used by pointer, so that schedules can be compared.
type formula struct {
	name      string
	openCount func(step float64, steps, length int) int
}

func (f *formula) String() string { return f.name }

func (f *formula) At(step float64, steps, length int) int {
	return f.openCount(step, steps, length)
}

// idleFormula is a formula that is an Idler.
type idleFormula struct{ formula }

// Idle implements Idler.
func (*idleFormula) Idle() {}

// The published schedules, with D = length, n = step and N = steps.
var (
	// Uniform is round(D*n/N) (Hayakawa et al. 2025, appendix "Sampling schedule"). Halves are
	// rounded to even, as in Python, NumPy and PyTorch.
	Uniform Schedule = &formula{"uniform", func(step float64, steps, length int) int {
		return int(math.RoundToEven(float64(length) * step / float64(steps)))
	}}

	// Cosine is round(D*(1-cos(pi/2*n/N))), which opens few positions first. The paper prints D
	// inside the cosine and the ramp reversed; this is the schedule of MaskGIT (Chang et al. 2022,
	// section 3.3) and MAGE, which the paper adopts.
	Cosine Schedule = &formula{"cosine", func(step float64, steps, length int) int {
		return int(math.RoundToEven(float64(length) * (1 - math.Cos(math.Pi/2*step/float64(steps)))))
	}}

	// Arccos is max(n, int(D*(1-acos(n/N)/(pi/2)))), of Halton-MaskGIT (Besnier et al. 2025).
	Arccos Schedule = &formula{"arccos", func(step float64, steps, length int) int {
		// float32, as the authors compute: 16 of 32 steps open 191 of 576, not a third
		share := 1 - float32(math.Acos(float64(float32(min(step/float64(steps), 1)))))/float32(math.Pi/2)
		return max(int(step), int(share*float32(length)))
	}}

	// MAGE is Cosine with the number of masked positions rounded down, and at least one of them
	// before the last step (Li et al. 2023, gen_img_uncond.py of the authors).
	MAGE Schedule = &formula{"mage", func(step float64, steps, length int) int {
		share := step / float64(steps) // first, as there: 34 of 51 steps leave half, not one less
		masked := float64(length) * math.Cos(math.Pi/2*share)
		return length - floorMasks(masked, step < float64(steps))
	}}

	// ForAMUSEd is MAGE in float32, as aMUSEd's program computes it (diffusers,
	// schedulers/scheduling_amused.py): after 8 of its 12 steps 127 of 256 are masked, not 128.
	ForAMUSEd Schedule = &formula{"amused", func(step float64, steps, length int) int {
		angle := float32(float32(step/float64(steps))*math.Pi) / 2
		masked := float32(length) * float32(math.Cos(float64(angle)))
		return length - floorMasks(float64(masked), step < float64(steps))
	}}

	// ForTiTok is D-max(1, floor(D*acos(n/N)/(pi/2))) before the last step (Yu et al. 2024,
	// 1d-tokenizer, modeling/maskgit.py).
	ForTiTok Schedule = &formula{"titok", func(step float64, steps, length int) int {
		masked := float64(length) * (math.Acos(min(step/float64(steps), 1)) / (math.Pi / 2))
		return length - floorMasks(masked, step < float64(steps))
	}}

	// Linear is D-max(1, floor(D*(1-n/N))) before the last step, aMUSEd's for inpainting (diffusers,
	// schedulers/scheduling_amused.py), in float32 as there.
	Linear Schedule = &formula{"linear", func(step float64, steps, length int) int {
		masked := float32(length) * (1 - float32(step/float64(steps)))
		return length - floorMasks(float64(masked), step < float64(steps))
	}}

	// LateArccos is max(n, int(D*(1-acos((n-1)/(N-1))/(pi/2)))), of Halton-MaskGIT's confidence
	// sampler (Besnier et al. 2025).
	LateArccos Schedule = &formula{"late-arccos", func(step float64, steps, length int) int {
		return max(Arccos.At(max(step-1, 0), max(steps-1, 1), length), int(step))
	}}
)

// CountsChanged reports whether a schedule may have given other counts before 0.2 in so many steps:
// those of linear were computed in float64, which is the same where steps divide exactly, and mage
// multiplied before it divided, which may leave one position less than half.
func CountsChanged(s Schedule, steps int) bool {
	switch s {
	case Linear:
		return steps&(steps-1) != 0
	case MAGE:
		at := float64(2*steps) / 3 // where half is masked
		before := math.Cos(math.Pi / 2 * at / float64(steps))
		now := math.Cos(math.Pi / 2 * (at / float64(steps)))
		return steps%3 == 0 && (before < 0.5) != (now < 0.5)
	}
	return false
}

// floorMasks rounds a number of masks down, before the last step to at least 1: a sequence without
// masks would end early.
func floorMasks(masked float64, beforeLast bool) int {
	if beforeLast {
		return max(int(masked), 1)
	}
	return int(masked)
}

// timesSchedule is a schedule given by times, from 1 to 0.
type timesSchedule []float64

// TimesSchedule makes a schedule from times: a fraction 1-t_n is open after step n. For other step
// counts, and between steps, times are interpolated linearly. It returns an error unless times fall
// from at most 1 to 0.
func TimesSchedule(list []float64) (Schedule, error) {
	previous := 1.0
	for i, t := range list {
		if !(t >= 0 && t < previous) {
			return nil, fmt.Errorf("samplers: time %d of the schedule is %v, want 0 to less than %v", i+1, t,
				previous)
		}
		previous = t
	}
	if previous != 0 {
		return nil, fmt.Errorf("samplers: the last of %d times is %v, want 0", len(list), previous)
	}
	return timesSchedule(append([]float64{1}, list...)), nil
}

// At implements Schedule. Between two given times it goes on evenly.
func (t timesSchedule) At(step float64, steps, length int) int {
	x := step / float64(steps) * float64(len(t)-1)
	i := min(int(x), len(t)-2)
	maskedShare := t[i] + (x-float64(i))*(t[i+1]-t[i])
	return int(math.RoundToEven(float64(length) * (1 - maskedShare)))
}

// String returns a text such as times(0.9,0.5,0).
func (t timesSchedule) String() string {
	var b strings.Builder
	for i, x := range t[1:] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatFloat(x, 'g', -1, 64))
	}
	return "times(" + b.String() + ")"
}

var schedules = []Schedule{Uniform, Cosine, Arccos, MAGE, ForAMUSEd, ForTiTok, Linear, LateArccos,
	LLaDA, DLLM, Dream, Floor, ForOmniVoice, Rest, ForPGM, PGMArccos}

// Schedules returns the published schedules.
func Schedules() []Schedule { return append([]Schedule(nil), schedules...) }

// maxTimes is the most times of a schedule.
const maxTimes = 1 << 16

// ParseSchedule returns the schedule with a published name, such as uniform or cosine, or one with
// given times, such as times(0.9,0.5,0). Another name is an error that suggests the nearest, as are
// times that TimesSchedule refuses.
func ParseSchedule(text string) (Schedule, error) {
	var names []string
	for _, s := range schedules {
		if s.String() == text {
			return s, nil
		}
		names = append(names, s.String())
	}
	inside, opens := strings.CutPrefix(text, "times(")
	inside, closes := strings.CutSuffix(inside, ")")
	if !opens || !closes {
		return nil, fmt.Errorf("samplers: %w", param.Unknown("schedule", text, names))
	}
	if n := strings.Count(inside, ",") + 1; n > maxTimes {
		return nil, fmt.Errorf("samplers: schedule has %d times, want at most %d", n, maxTimes)
	}
	var list []float64
	for field := range strings.SplitSeq(inside, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return nil, fmt.Errorf("samplers: time %d of the schedule is %s, want a number", len(list)+1,
				param.Quote(field))
		}
		list = append(list, x)
	}
	return TimesSchedule(list)
}
