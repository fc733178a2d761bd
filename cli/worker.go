package cli

import (
	"context"
	"errors"
	"fmt"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/fleet"
	"unmask/runs/outputs"
)

// built returns what makes the images of a run that prepare returned.
func (f *imageFlags) built(m *unmask.Model, o unmask.Run, err error) (fleet.Built, error) {
	if err != nil {
		return fleet.Built{}, err
	}
	return share.Pictures(m, f.precision, o, outputs.PictureOptions{Conditions: f.of.Of,
		Paste: f.Paste, Grow: f.Grown})
}

// build prepares a worker for an spec.
func build(ctx context.Context, e share.Spec) (b fleet.Built, err error) {
	d := deviceFlags{model: e.Model, device: e.Device, threads: e.Threads, precision: e.Precision}
	switch e.Kind {
	case "image":
		f := imageFlags{of: flags.Conditions{Inputs: e.Inputs}}
		flags := f.command().Flags()
		if err = e.Parse(flags, f.Picture.Check); err == nil {
			b, err = f.built(f.prepare(ctx, flags))
		}
		return b, err
	case "text":
		if e.Request == nil {
			return b, errors.New("the hub's spec has no request, want one")
		}
		m, err := d.loadText(ctx)
		if err != nil {
			return b, err
		}
		j, err := outputs.PrepareTexts(ctx, m, *e.Request, e.Inputs, mostSamples, 0)
		if err != nil {
			return b, err
		}
		s, err := j.Settings(d.precision)
		return share.Texts(m, s, j), err
	case "points":
		task, settings, err := d.task(ctx, e.Task, taskFlags{e.Measure})
		if err != nil {
			return b, err
		}
		return share.Points(task, settings, e.Points), nil
	case "features":
		f := evalImageFlags{deviceFlags: d, by: e.Measure}
		network, err := f.network(ctx)
		if err != nil {
			return b, err
		}
		return share.Features(network, d.precision, e.Input), nil
	}
	return b, fmt.Errorf("the hub's spec is %q, want image, text, points or features", e.Kind)
}
