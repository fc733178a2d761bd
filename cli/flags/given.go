package flags

import (
	"fmt"
	"image"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/terminal"
	"unmask/images"
	"unmask/param"
)

// Picture holds the flags for the picture that a run begins with: its file, the part that is kept,
// and how it is fitted to the model's size.
type Picture struct {
	Paste *unmask.Inpainting  // its kept pixels are restored; nil without --paste; set by Begin
	Grown *unmask.Outpainting // for --outpaint, otherwise nil; set by Begin

	inpaint, mask, box, outpaint, init, fit string
	paste                                   bool
	strength                                float64
	region                                  image.Rectangle // of box
	margin                                  unmask.Margins  // of outpaint
}

// Inpaints reports whether part of a picture is made new.
func (f *Picture) Inpaints() bool { return f.inpaint != "" }

// Outpaints reports whether a picture is enlarged.
func (f *Picture) Outpaints() bool { return f.outpaint != "" }

// Register adds the
func (f *Picture) Register(s *pflag.FlagSet) {
	s.StringVar(&f.init, "init", "",
		"PNG or JPEG `FILE` to start from, instead of masks only")
	Float(s, &f.strength, unmask.StrengthParam)
	s.StringVar(&f.inpaint, "inpaint", "", "PNG or JPEG `FILE` to keep except in --mask, in --box, or "+
		"where it is transparent")
	s.StringVar(&f.mask, "mask", "", "PNG `FILE` of the same size, white or transparent where the "+
		"image is generated again")
	s.StringVar(&f.box, "box", "", "`X,Y,W,H`: a box in pixels of --inpaint that is generated again")
	s.StringVar(&f.outpaint, "outpaint", "", "`SIDE=PIXELS,...` that --inpaint grows by, such as "+
		"left=64,top=32")
	s.BoolVar(&f.paste, "paste", false,
		"with --inpaint, put the kept pixels back; they fade in over one "+
			"cell from the mask's edge")
	Fit(s, &f.fit)
}

// Fit adds --fit.
func Fit(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "fit", "",
		"resize pictures to the model's size: cover crops what is too much, "+
			"contain leaves margins (which --inpaint generates)")
}

// Check returns an error for flags that exclude each other, before a model is loaded.
func (f *Picture) Check(s *pflag.FlagSet) (err error) {
	switch {
	case f.init == "" && s.Changed("strength"):
		return Usage("--strength is %s, want none without --init", s.Lookup("strength").Value)
	case f.init != "" && f.inpaint != "":
		return Usage("--init and --inpaint, want one of the two")
	case f.inpaint == "" && (f.mask != "" || f.box != ""):
		return Usage("--mask or --box without --inpaint, want it with them")
	case f.fit != "" && f.init == "" && f.inpaint == "":
		return Usage("--fit is %s, want none without --init or --inpaint", param.Quote(f.fit))
	case f.paste && f.inpaint == "":
		return Usage("--paste, want --inpaint with it")
	case f.outpaint != "" && (f.inpaint == "" || f.mask != "" || f.box != ""):
		return Usage("--outpaint, want --inpaint with it and neither --mask nor --box")
	case f.box != "":
		if f.region, err = images.ParseBox(f.box); err != nil {
			return Usage("--%v", err)
		}
	case f.outpaint != "":
		if f.margin, err = unmask.ParseMargins(f.outpaint); err != nil {
			return Usage("--outpaint: %v", err)
		}
	}
	if err := images.CheckFit(f.fit); err != nil {
		return Usage("--%v", err)
	}
	return nil
}

// mostLost is the loss of the codes in the kept part, 0 to 255, above which a warning is printed.
const mostLost = 12

// Begin reads the picture of --inpaint, with --mask or --outpaint, and sets what the run begins
// with.
func (f *Picture) Begin(m *unmask.Model, o *unmask.Run) error {
	if f.inpaint == "" {
		return nil
	}
	picture, err := images.ReadPicture(f.inpaint)
	if err != nil {
		return fmt.Errorf("--inpaint: %w", err)
	}
	name := "--inpaint " + f.inpaint
	if f.outpaint != "" {
		return Wrap(name+", --outpaint "+f.margin.String(), f.grow(m, picture))
	}
	var mask image.Image
	if f.mask != "" {
		if mask, err = images.ReadPicture(f.mask); err != nil {
			return fmt.Errorf("--mask: %w", err)
		}
		name += ", --mask " + f.mask
	}
	in, err := m.NewInpainting(picture, mask, f.region, f.fit)
	if err != nil {
		return Wrap(name, err)
	}
	o.Tokens = in.Tokens
	if f.paste {
		f.Paste = in
	} else if in.Lost > mostLost {
		terminal.Say("note: the model's codes change what is kept by %.0f of 255 in the mean: "+
			"--paste puts it back", in.Lost)
	}
	return nil
}

// grow prepares the enlargement of a picture.
func (f *Picture) grow(m *unmask.Model, picture image.Image) (err error) {
	if f.fit != "" {
		if picture, err = m.Pictures.Fit(picture, f.fit); err != nil {
			return err
		}
	}
	if f.Grown, err = m.Outpaint(picture, f.margin); err != nil {
		return err
	}
	lost, err := f.Grown.Lost()
	if lost > mostLost {
		terminal.Say("note: the model's codes change the picture by %.0f of 255 in the mean: "+
			"its edge may show", lost)
	}
	return err
}

// Redraw makes a run, completed by Check, begin with the picture of --init.
func (f *Picture) Redraw(m *unmask.Model, o unmask.Run) (unmask.Run, error) {
	if f.init == "" {
		return o, nil
	}
	picture, err := images.ReadPicture(f.init)
	if err != nil {
		return o, fmt.Errorf("--init: %w", err)
	}
	fitted, err := m.Pictures.Fit(picture, f.fit)
	if err == nil {
		o, err = m.Redraw(o, fitted, f.strength)
	}
	return o, Wrap("--init "+f.init, err)
}
