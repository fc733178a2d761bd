package cli

import (
	"context"
	"fmt"
	"image"

	"unmask"
	"unmask/images"
	"unmask/outputs"
	"unmask/terminal"
)

// checkOutpaint refuses what does not go with --outpaint.
func (f *imageFlags) checkOutpaint() error {
	switch {
	case f.outpaint == "":
		return nil
	case f.inpaint == "" || f.mask != "" || f.box != "":
		return usage("--outpaint, want --inpaint with it and neither --mask nor --box")
	case f.gif != "" || f.watch || f.trace != "":
		return usage("--outpaint with --gif, --watch or --trace, want it without them")
	}
	if _, err := unmask.ParseMargins(f.outpaint); err != nil {
		return usage("--outpaint: %v", err)
	}
	return nil
}

// outpainting finds how --inpaint grows by --outpaint.
func (f *imageFlags) outpainting(m *unmask.Model) error {
	margins, err := unmask.ParseMargins(f.outpaint)
	if err != nil {
		return err
	}
	picture, err := images.ReadPicture(f.inpaint)
	if err != nil {
		return fmt.Errorf("--inpaint: %w", err)
	}
	if f.fit != "" {
		width, height, err := m.Pictures.Size()
		if err != nil {
			return err
		}
		p, err := images.Place(picture.Bounds().Size(), image.Pt(width, height), f.fit)
		if err != nil {
			return err
		}
		picture = p.Picture(picture)
	}
	if f.grown, err = m.Outpaint(picture, margins); err != nil {
		return fmt.Errorf("--inpaint %s, --outpaint %s: %w", f.inpaint, margins, err)
	}
	lost, err := f.grown.Lost()
	if lost > mostLost {
		terminal.Say("note: the model's codes change the picture by %.0f of 255 in the mean: "+
			"its edge may show", lost)
	}
	return err
}

// drawGrown draws the pictures of --outpaint.
func drawGrown(ctx context.Context, out *outputs.Pictures) error {
	p := terminal.NewProgress("images", int64(out.Left()))
	defer p.Close()
	until, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	err := out.Grow(until, func() { p.Add(1) })
	if terminal.Stopped(ctx) {
		return errInterrupted
	}
	return err
}
