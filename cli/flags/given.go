package flags

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/terminal"
	"unmask/media/images"
	"unmask/paint"
	"unmask/param"
)

// Picture holds the flags for the picture that a run begins with: its file, the part that is kept,
// and how it is fitted to the model's size.
type Picture struct {
	inpaint  string
	mask     string
	box      string
	outpaint string
	init     string
	fit      string
	paste    bool
	strength float64
}

// Outpaints reports whether a picture is enlarged.
func (f *Picture) Outpaints() bool { return f.outpaint != "" }

// Register adds the flags.
func (f *Picture) Register(s *pflag.FlagSet) {
	s.StringVar(&f.init, "init", "",
		"PNG or JPEG `FILE` to start from, instead of masks only")
	Float(s, &f.strength, paint.StrengthParam)
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
	PictureFit(s, &f.fit)
}

// PictureFit adds --fit.
func PictureFit(f *pflag.FlagSet, fit *string) {
	f.StringVar(fit, "fit", "",
		"resize pictures to the model's size: cover crops what is too much, "+
			"contain leaves margins (which --inpaint generates)")
}

// Check returns an error for flags that exclude each other, before a model is loaded.
func (f *Picture) Check(s *pflag.FlagSet) (err error) {
	switch {
	case f.init == "" && s.Changed("strength"):
		return Usagef("--strength is %s, want none without --init", s.Lookup("strength").Value)
	case f.init != "" && f.inpaint != "":
		return Usagef("--init and --inpaint, want one of the two")
	case f.inpaint == "" && (f.mask != "" || f.box != ""):
		return Usagef("--mask or --box without --inpaint, want it with them")
	case f.fit != "" && f.init == "" && f.inpaint == "":
		return Usagef("--fit is %s, want none without --init or --inpaint", param.Quote(f.fit))
	case f.paste && f.inpaint == "":
		return Usagef("--paste, want --inpaint with it")
	case f.outpaint != "" && (f.inpaint == "" || f.mask != "" || f.box != ""):
		return Usagef("--outpaint, want --inpaint with it and neither --mask nor --box")
	case f.box != "":
		_, err = images.ParseBox(f.box)
		if err != nil {
			return Usagef("--%v", err)
		}
	case f.outpaint != "":
		_, err = paint.ParseMargins(f.outpaint)
		if err != nil {
			return Usagef("%v", Wrap("--outpaint", err))
		}
	}
	if err := images.CheckFit(f.fit); err != nil {
		return Usagef("--%v", err)
	}
	return nil
}

// ReadImage reads the picture and its mask, and returns what a request says about them; nil without
// a picture.
func (f *Picture) ReadImage() (in *unmask.ImageInput, err error) {
	var name string
	switch {
	case f.init != "":
		name = "--init"
		in = &unmask.ImageInput{File: f.init, Fit: f.fit, Strength: f.strength}
	case f.inpaint != "":
		name = "--inpaint"
		in = &unmask.ImageInput{
			File:     f.inpaint,
			MaskFile: f.mask,
			Box:      f.box,
			Fit:      f.fit,
			Outpaint: f.outpaint,
			Paste:    f.paste,
		}
	default:
		return nil, nil
	}

	in.Picture, err = images.ReadPicture(in.File)
	if err != nil {
		return nil, Wrap(name, err)
	}
	if f.mask != "" {
		in.Mask, err = images.ReadPicture(f.mask)
	}
	return in, Wrap("--mask", err)
}

// nameFile returns the error of preparing a request with the picture, with the flags and files that
// it is about.
func (f *Picture) nameFile(err error) error {
	refused, ok := errors.AsType[*param.Error](err)
	fields := []string{"image", "mask", "box", "outpaint", "strength"}
	if !ok || !slices.Contains(fields, refused.Name) {
		return err
	}
	source := "--inpaint " + f.inpaint
	switch {
	case f.init != "":
		source = "--init " + f.init
	case f.outpaint != "":
		source += ", --outpaint " + f.outpaint
	case f.mask != "":
		source += ", --mask " + f.mask
	}
	return Wrap(source, refused.Cause())
}

// maxCodeLoss is the mean change of the kept part by the model's codes, of 255, above which a note
// is printed: below it the eye sees none.
const maxCodeLoss = 12

// NoteLoss prints a note if the model's codes lose much of the part that is kept.
func (f *Picture) NoteLoss(lost float64) {
	switch {
	case lost <= maxCodeLoss:
	case f.outpaint != "":
		terminal.Logf("note: the model's codes change the picture by %.0f of 255 in the mean: "+
			"its edge may show", lost)
	default:
		terminal.Logf("note: the model's codes change what is kept by %.0f of 255 in the mean: "+
			"--paste puts it back", lost)
	}
}
