package cli

import (
	"context"
	"errors"
	"fmt"

	"unmask/cli/share"
	"unmask/fleet"
	"unmask/runs/outputs"
)

// buildRun prepares a worker for a spec.
func buildRun(ctx context.Context, e share.Spec) (b fleet.Setup, err error) {
	d := deviceFlags{
		model:     e.Model,
		as:        e.As,
		device:    e.Device,
		threads:   e.Threads,
		precision: e.Precision,
	}
	switch e.Kind {
	case share.KindImage, share.KindText:
		return d.buildJob(ctx, e)
	case share.KindPoints:
		task, settings, err := d.loadTask(ctx, e.Task, taskFlags{e.Measure})
		if err != nil {
			return b, err
		}
		return share.BuildPoints(task, settings, e.Points), nil
	}
	return b, fmt.Errorf("the hub's spec is %q, want image, text or points", e.Kind)
}

// buildJob prepares a worker for images or texts.
func (d *deviceFlags) buildJob(ctx context.Context, e share.Spec) (b fleet.Setup, err error) {
	load := d.loadText
	if e.Kind == share.KindImage {
		load = d.loadImages
	}
	if e.Request == nil {
		return b, errors.New("the hub's spec has no request, want one")
	}
	m, err := load(ctx)
	if err != nil {
		return b, err
	}
	j, err := outputs.Prepare(ctx, m, *e.Request, e.Inputs, maxSamples, 0)
	if err != nil {
		return b, err
	}
	s, err := j.Settings(d.precision)
	return share.BuildOutputs(e.Kind, s, j), err
}
