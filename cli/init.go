package cli

import (
	"fmt"
	"image"
	"strconv"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/images"
	"unmask/param/flags"
)

// initFlags begin images from a given one.
type initFlags struct {
	init     string
	strength float64
}

func (i *initFlags) register(f *pflag.FlagSet) {
	f.StringVar(&i.init, "init", "",
		"PNG or JPEG `FILE` to draw again, instead of drawing from nothing")
	flags.Float(f, &i.strength, unmask.StrengthParam)
}

// check refuses flags that do not go together.
func (i *initFlags) check(f *pflag.FlagSet, inpaint string) error {
	switch {
	case i.init == "" && f.Changed("strength"):
		return usage("--strength is %s, want none without --init",
			strconv.FormatFloat(i.strength, 'g', -1, 64))
	case i.init != "" && inpaint != "":
		return usage("--init and --inpaint, want one of the two")
	}
	return nil
}

// start makes a run that begins with --init.
func (i *initFlags) start(m *unmask.Model, o generate.Options, fit string) (generate.Options,
	error) {
	picture, err := images.ReadPicture(i.init)
	if err != nil {
		return o, fmt.Errorf("--init: %w", err)
	}
	width, height, err := m.Pictures.Size()
	if err != nil {
		return o, err
	}
	p, err := images.Place(picture.Bounds().Size(), image.Pt(width, height), fit)
	if err == nil {
		o, err = m.Redraw(o, p.Picture(picture), i.strength)
	} else {
		err = orFit(err)
	}
	if err != nil {
		return o, fmt.Errorf("--init %s: %w", i.init, err)
	}
	return o, nil
}
