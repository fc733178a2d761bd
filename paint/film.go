package paint

import (
	"bytes"
	"image"
	"image/gif"
	"slices"

	"unmask/generate"
	"unmask/media/images"
	"unmask/model"
)

// Bounds of a Film, so that memory does not grow with -n and --steps.
const (
	MaxFilmed  = 16
	filmFrames = 64
)

// Times of frames, in hundredths of a second.
const (
	frameTime = 12
	lastTime  = 250
)

// Film records the codes of a run's first pictures after every step and draws them as a GIF. A nil
// Film does nothing. One goroutine at a time may use one.
type Film struct {
	Scale int // factor by which the pictures are enlarged; 0 is 1

	mask int32

	// frames are the codes of each picture after each step: [picture][step][codes]. The first are
	// those it begins as.
	frames [][][]int32

	// done says of each picture whether its sequence has ended.
	done []bool
}

// NewFilm returns a film of the first n pictures of a run, at most MaxFilmed. Each begins as the
// codes in start; nil is all masked.
func NewFilm(n int, spec model.Spec, start []int32) *Film {
	n = min(n, MaxFilmed)
	if start == nil {
		start = spec.BlankTokens(spec.Length())
	}
	f := &Film{mask: spec.Mask, frames: make([][][]int32, n), done: make([]bool, n)}
	for i := range f.frames {
		f.frames[i] = [][]int32{start}
	}
	return f
}

// Len returns the number of pictures in the film.
func (f *Film) Len() int {
	if f == nil {
		return 0
	}
	return len(f.frames)
}

// Add records a sequence after a step.
func (f *Film) Add(s *generate.Sequence) {
	if s.Index >= f.Len() || f.done[s.Index] {
		return
	}
	f.frames[s.Index] = append(f.frames[s.Index], slices.Clone(s.Tokens))
	f.done[s.Index] = s.Done
}

// Encode draws the GIF, with masked cells in grey. condition returns the condition of picture i.
//
// A film of many steps shows some of them only, at most filmFrames, and always the last one. The
// error is that of the codec.
func (f *Film) Encode(p *Pictures, condition func(i int) *model.Condition) ([]byte, error) {
	width, height, err := p.Size()
	if err != nil {
		return nil, err
	}
	steps := 0
	for _, frames := range f.frames {
		steps = max(steps, len(frames))
	}
	sheet := filmSheet{
		film:      f,
		pictures:  p,
		condition: condition,
		sheet:     images.NewSheet(len(f.frames), image.Pt(width, height)),
		shown:     make([][]int32, len(f.frames)),
	}

	var film gif.GIF // which repeats for ever
	stride := (steps + filmFrames - 1) / filmFrames
	for step := 0; step < steps; step += stride {
		delay := frameTime
		if step+stride >= steps {
			step = steps - 1
			delay = lastTime
		}
		frame, err := sheet.drawFrame(step)
		if err != nil {
			return nil, err
		}
		film.Image = append(film.Image, frame)
		film.Delay = append(film.Delay, delay)
	}
	var data bytes.Buffer
	err = gif.EncodeAll(&data, &film)
	return data.Bytes(), err
}

// filmSheet is the contact sheet of a film's frames. A picture is decoded only when its codes
// changed.
type filmSheet struct {
	film      *Film
	pictures  *Pictures
	condition func(i int) *model.Condition
	sheet     *images.Sheet

	// shown are the codes of each picture on the sheet, [picture][codes].
	shown [][]int32
}

// drawFrame returns the frame of a step, enlarged by the film's scale.
func (d *filmSheet) drawFrame(step int) (*image.Paletted, error) {
	var masked []image.Rectangle
	for i := range d.film.frames {
		cells, err := d.drawPicture(i, step)
		if err != nil {
			return nil, err
		}
		masked = append(masked, cells...)
	}
	n := max(1, d.film.Scale)
	for j, cell := range masked {
		masked[j] = image.Rectangle{Min: cell.Min.Mul(n), Max: cell.Max.Mul(n)}
	}
	return images.GIFFrame(images.Enlarge(d.sheet.Canvas, n), masked), nil
}

// drawPicture puts picture i as it was after a step on the sheet, and returns the masked cells
// there. They have the codes that they end with: the film hides them, but the decoder normalises
// over the whole image, so other codes there would change the visible cells.
func (d *filmSheet) drawPicture(i, step int) ([]image.Rectangle, error) {
	frames := d.film.frames[i]
	last := len(frames) - 1
	codes, _, err := d.pictures.Fill(frames[last])
	if err != nil {
		return nil, err
	}
	var masked []int
	for position, code := range frames[min(step, last)] {
		if code == d.film.mask {
			masked = append(masked, position)
		} else {
			codes[position] = code
		}
	}

	if !slices.Equal(codes, d.shown[i]) {
		picture, err := d.pictures.ConditionedImage(codes, d.condition(i))
		if err != nil {
			return nil, err
		}
		d.sheet.Put(i, picture)
		d.shown[i] = codes
	}
	cells, err := d.pictures.Cells(masked)
	for j := range cells {
		cells[j] = cells[j].Add(d.sheet.Corner(i))
	}
	return cells, err
}
