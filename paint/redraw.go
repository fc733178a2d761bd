package paint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// StrengthParam is the share of the steps that run on a given picture.
var StrengthParam = param.Param{
	Name:    "strength",
	Kind:    param.Number,
	Min:     1e-3,
	Max:     1,
	Default: "0.5",
	Help:    "share of the steps that run on a given picture; 1 generates all of it again",
}

// Redraw returns the last steps of r, a request that Check returned, starting from the codes of a
// picture. The number of masked codes is the one that the schedule leaves masked at that step; the
// seed chooses which. strength is the share of the steps. This is aMUSEd's image-to-image (Patil et
// al. 2024; diffusers, pipelines/amused), with two differences: there each code is masked with a
// probability, and at strength 1, where aMUSEd's program masks nothing, all codes are masked here.
// A strength of 0 or beyond 1 is an error, and known tokens beside the picture.
func Redraw(r generate.Request, spec model.Spec, codes []int32, strength float64) (generate.Request,
	error) {
	if err := StrengthParam.Check(strength); err != nil {
		return r, err
	}
	if strength == 0 {
		return r, errors.New("strength is 0, want more")
	}
	if r.Known != nil {
		return r, errors.New("tokens are known already, want none beside a picture to draw again")
	}
	length := len(codes)
	if n := spec.Length(); length != n || r.Schedule == nil || r.Steps < 1 {
		return r, fmt.Errorf("the picture has %d codes and the run %d steps, want %d codes and a run "+
			"that Check returned", length, r.Steps, n)
	}
	first := r.Steps - max(1, int(float64(r.Steps)*strength)) // steps that are left out
	keptCodes := 0                                            // codes that stay
	if first > 0 {
		keptCodes = min(samplers.OpenCount(r.Schedule, float64(first), r.Steps, length),
			length-(r.Steps-first))
	}
	order := model.Indexes(0, length)
	coins := samplers.Rand{Seed: r.Seed}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(coins.Uniform(a, samplers.ForSetup), coins.Uniform(b, samplers.ForSetup))
	})
	for _, position := range order[keptCodes:] {
		codes[position] = spec.Mask
	}

	// The steps that remain have the schedule of the last steps of the whole run.
	var times []float64
	for n := first + 1; n <= r.Steps; n++ {
		masked := length - samplers.OpenCount(r.Schedule, float64(n), r.Steps, length)
		times = append(times, float64(masked)/float64(length-keptCodes))
	}
	r.Known = codes
	r.Steps -= first
	var err error
	r.Schedule, err = samplers.TimesSchedule(times)
	return r, err
}
