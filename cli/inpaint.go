package cli

import (
	"fmt"
	"image"
	"image/draw"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/images"
	"unmask/terminal"
)

// inpaintFlags say what of a picture is kept, and how it is brought to the model's size.
type inpaintFlags struct {
	inpaint, mask, box, fit string
	outpaint                string
	paste                   bool

	region image.Rectangle   // of box
	given  unmask.Inpainting // as the model sees it
	grown  *unmask.Outpainting
}

func (f *inpaintFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.inpaint, "inpaint", "", "PNG or JPEG `FILE` to keep but for --mask, --box, or "+
		"where it is transparent")
	s.StringVar(&f.mask, "mask", "", "PNG `FILE` of the same size, white or transparent where the "+
		"image is made new")
	s.StringVar(&f.box, "box", "", "`X,Y,W,H`: pixels of --inpaint, a box that is made new")
	s.StringVar(&f.outpaint, "outpaint", "", "`SIDE=PIXELS,...` that --inpaint grows by, such as "+
		"left=64,top=32")
	s.BoolVar(&f.paste, "paste", false,
		"with --inpaint, put the kept pixels back; they fade in over a "+
			"cell from the mask's edge")
	fitFlag(s, &f.fit)
}

// mostLost is how much the codes may change what is kept, of 255, before it is said.
const mostLost = 12

// fitFlag adds --fit.
func fitFlag(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "fit", "",
		"bring pictures of another size to the model's: cover crops what stands "+
			"over, contain leaves margins (made new by --inpaint)")
}

// check refuses flags that do not go together.
func (f *inpaintFlags) check() (err error) {
	switch {
	case f.inpaint == "" && (f.mask != "" || f.box != ""):
		return usage("--mask or --box without --inpaint, want it with them")
	case f.box != "":
		f.region, err = parseBox(f.box)
	}
	if err == nil {
		err = checkFit(f.fit)
	}
	return err
}

func checkFit(fit string) error {
	if _, err := images.Place(image.Pt(1, 1), image.Pt(1, 1), fit); err != nil {
		return usage("--%v", err)
	}
	return nil
}

// parseBox reads left, top, width and height in pixels.
func parseBox(text string) (image.Rectangle, error) {
	var v [4]int
	parts := strings.Split(text, ",")
	for i, part := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || len(parts) != 4 || n < 0 || n > images.MaxPixels || i > 1 && n == 0 {
			return image.Rectangle{},
				usage("--box is %.40q, want X,Y,W,H in pixels, such as 16,16,32,32", text)
		}
		v[i] = n
	}
	if len(parts) != 4 {
		return image.Rectangle{},
			usage("--box is %.40q, want X,Y,W,H in pixels, such as 16,16,32,32", text)
	}
	return image.Rect(v[0], v[1], v[0]+v[2], v[1]+v[3]), nil
}

// tokens returns the codes of --inpaint, masked where it is made new.
func (f *inpaintFlags) tokens(m *unmask.Model) ([]int32, error) {
	picture, err := images.ReadPicture(f.inpaint)
	if err != nil {
		return nil, fmt.Errorf("--inpaint: %w", err)
	}
	var mask image.Image
	name := "--inpaint " + f.inpaint
	if f.mask != "" {
		if mask, err = images.ReadPicture(f.mask); err != nil {
			return nil, fmt.Errorf("--mask: %w", err)
		}
		name += ", --mask " + f.mask
	}
	hole, err := images.Hole(picture, mask, f.region)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.Pictures == nil {
		return nil, fmt.Errorf("%s: the model makes no pictures", name)
	}
	width, height, err := m.Pictures.Size()
	if err != nil {
		return nil, err
	}
	p, err := images.Place(picture.Bounds().Size(), image.Pt(width, height), f.fit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, orFit(err))
	}
	f.given.Picture = p.Picture(picture)
	f.given.Hole = image.NewNRGBA(f.given.Picture.Rect)
	draw.Draw(f.given.Hole, f.given.Hole.Rect, p.Mask(hole), image.Point{}, draw.Src)
	tokens, err := m.Inpaint(f.given.Picture, f.given.Hole)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if lost, err := m.RoundTrip(f.given.Picture, f.given.Hole); err != nil {
		return nil, err
	} else if lost > mostLost && !f.paste {
		terminal.Say("note: the model's codes change what is kept by %.0f of 255 in the mean: "+
			"--paste puts it back", lost)
	}
	return tokens, nil
}

// orFit names the flag for a fit.
func orFit(err error) error {
	if err == nil || !strings.Contains(err.Error(), "or a fit") {
		return err
	}
	return fmt.Errorf("%s", strings.Replace(err.Error(), "or a fit", "or --fit cover or contain", 1))
}
