package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/asking/crew"
	"unmask/fleet"
	"unmask/outputs"
)

// built returns what makes the images of a run.
func (f *imageFlags) built(m *unmask.Model, o unmask.Run) (fleet.Built, error) {
	return crew.Pictures(m, f.precision, o, outputs.PictureOptions{Conditions: f.of.Of,
		Paste: f.Paste, Grow: f.Grown})
}

// built returns what makes the texts of a run.
func (f *textFlags) built(m *unmask.Model, o unmask.Run) (fleet.Built, error) {
	s, err := f.settings(m, o)
	return crew.Texts(m, s, o, outputs.TextOptions{Shown: f.Shown, Of: f.each}), err
}

// given checks the flags that a worker gets, with the inputs of --prompts -.
func (f *imageFlags) given(flags *pflag.FlagSet, list []unmask.Input) error {
	f.of.Inputs = list
	return f.Picture.Check(flags)
}

func (f *textFlags) given(flags *pflag.FlagSet, list []unmask.Input) error {
	f.Inputs = list
	return f.Text.Check(flags)
}

// shared is a command whose outputs workers make.
type shared interface {
	command() *cobra.Command
	given(*pflag.FlagSet, []unmask.Input) error
	prepare(context.Context, *pflag.FlagSet) (*unmask.Model, unmask.Run, error)
	built(*unmask.Model, unmask.Run) (fleet.Built, error)
}

// joined makes on a worker what an errand of a command asks for.
func joined(ctx context.Context, e crew.Errand, s shared) (b fleet.Built, err error) {
	flags := s.command().Flags()
	if err = e.Parse(flags); err == nil {
		err = s.given(flags, e.Inputs)
	}
	if err != nil {
		return b, err
	}
	m, o, err := s.prepare(ctx, flags)
	if err != nil {
		return b, err
	}
	return s.built(m, o)
}

// build makes on a worker what an errand asks for.
func build(ctx context.Context, e crew.Errand) (b fleet.Built, err error) {
	d := deviceFlags{model: e.Model, device: e.Device, threads: e.Threads, precision: e.Precision}
	switch e.Kind {
	case "image":
		return joined(ctx, e, new(imageFlags))
	case "text":
		return joined(ctx, e, new(textFlags))
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
