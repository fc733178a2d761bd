package cli

import (
	"context"
	"fmt"

	"unmask"
	"unmask/asking/crew"
	"unmask/fleet"
	"unmask/outputs"
)

// built returns what makes the images of a run.
func (f *imageFlags) built(m *unmask.Model, o unmask.Run) (fleet.Built, error) {
	return crew.Pictures(m, f.precision, o, outputs.PictureOptions{Conditions: f.of.Of,
		Paste: f.Paste})
}

// built returns what makes the texts of a run.
func (f *textFlags) built(m *unmask.Model, o unmask.Run) (fleet.Built, error) {
	s, err := f.settings(m, o)
	return crew.Texts(m, s, o, outputs.TextOptions{Shown: f.Shown}), err
}

// build makes on a worker what an errand asks for.
func build(ctx context.Context, e crew.Errand) (b fleet.Built, err error) {
	d := deviceFlags{model: e.Model, device: e.Device, threads: e.Threads, precision: e.Precision}
	switch e.Kind {
	case "image":
		f := new(imageFlags)
		flags := f.command().Flags()
		if err = e.Parse(flags); err == nil {
			err = f.Picture.Check(flags)
		}
		if err != nil {
			return b, err
		}
		m, o, err := f.prepare(ctx, flags)
		if err != nil {
			return b, err
		}
		return f.built(m, o)
	case "text":
		f := new(textFlags)
		flags := f.command().Flags()
		if err = e.Parse(flags); err == nil {
			err = f.Text.Check(flags)
		}
		if err != nil {
			return b, err
		}
		m, o, err := f.prepare(ctx, flags)
		if err != nil {
			return b, err
		}
		return f.built(m, o)
	case "points":
		task, settings, err := d.task(ctx, e.Task, taskFlags{e.Measure})
		if err != nil {
			return b, err
		}
		return crew.Points(task, settings, e.Points), nil
	case "features":
		f := evalImageFlags{deviceFlags: d, by: e.Measure}
		network, err := f.network(ctx)
		if err != nil {
			return b, err
		}
		return crew.Features(network, d.precision, e.Input), nil
	}
	return b, fmt.Errorf("the hub's errand is %q, want image, text, points or features", e.Kind)
}
