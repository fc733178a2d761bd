package judges

import (
	"context"
	"io"

	"unmask"
	"unmask/generate"
	"unmask/samplers"
)

// maxScheduleData is how many samples a schedule is found from at most.
const maxScheduleData = 4096

// FindSchedule returns the times of the schedule, of that many steps, that suits a model by the
// lines of unmask text --json in samples, see samplers.JYS. seed decides which positions are
// masked.
func FindSchedule(ctx context.Context, m *unmask.Model, samples io.Reader, steps int,
	seed uint64) ([]float64, error) {
	data, err := ReadSamples(samples, maxScheduleData)
	if err != nil {
		return nil, err
	}
	profile, err := generate.Profile(ctx, m.Denoiser, data, seed)
	if err != nil {
		return nil, err
	}
	return samplers.JYS(steps, profile)
}
