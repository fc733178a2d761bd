package judges

import (
	"context"
	"io"

	"unmask"
	"unmask/generate"
	"unmask/samplers"
)

// maxScheduleData is the most samples that a schedule is optimised on.
const maxScheduleData = 4096

// FindSchedule optimises a schedule for a model on the lines of unmask text --json in samples and
// returns its times, one for each step; see samplers.JYS. seed chooses the masked positions.
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
