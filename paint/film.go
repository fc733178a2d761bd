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

	mask   int32
	states [][][]int32 // [image][step] codes
	done   []bool
}

// NewFilm returns a film of the first n pictures of a run, at most MaxFilmed. Each begins as the
// codes in start; nil is all masked.
func NewFilm(n int, spec model.Spec, start []int32) *Film {
	n = min(n, MaxFilmed)
	if start == nil {
		start = spec.BlankTokens(spec.Length())
	}
	f := &Film{mask: spec.Mask, states: make([][][]int32, n), done: make([]bool, n)}
	for i := range f.states {
		f.states[i] = [][]int32{start}
	}
	return f
}

// Len returns the number of pictures in the film.
func (f *Film) Len() int {
	if f == nil {
		return 0
	}
	return len(f.states)
}

// Add records a sequence after a step.
func (f *Film) Add(s *generate.Sequence) {
	if s.Index >= f.Len() || f.done[s.Index] {
		return
	}
	f.states[s.Index] = append(f.states[s.Index], slices.Clone(s.Tokens))
	f.done[s.Index] = s.Done
}

// Encode draws the GIF, with masked cells in grey. condition returns the condition of picture i.
func (f *Film) Encode(p *Pictures, condition func(i int) *model.Condition) ([]byte, error) {
	width, height, err := p.Size()
	if err != nil {
		return nil, err
	}
	steps := 0
	for _, s := range f.states {
		steps = max(steps, len(s))
	}
	var film gif.GIF // which repeats for ever
	d := filmSheet{f: f, p: p, condition: condition, drawn: make([][]int32, len(f.states)),
		sheet: images.NewSheet(len(f.states), image.Pt(width, height))}
	every := (steps + filmFrames - 1) / filmFrames
	for at := 0; at < steps; at += every {
		delay := frameTime
		if at+every >= steps {
			at, delay = steps-1, lastTime
		}
		var hidden []image.Rectangle
		for i := range f.states {
			cells, err := d.draw(i, at)
			if err != nil {
				return nil, err
			}
			hidden = append(hidden, cells...)
		}
		n := max(1, f.Scale)
		for j, cell := range hidden {
			hidden[j] = image.Rectangle{Min: cell.Min.Mul(n), Max: cell.Max.Mul(n)}
		}
		film.Image = append(film.Image, images.GIFFrame(images.Enlarge(d.sheet.Canvas, n), hidden))
		film.Delay = append(film.Delay, delay)
	}
	var data bytes.Buffer
	err = gif.EncodeAll(&data, &film)
	return data.Bytes(), err
}

// filmSheet is the contact sheet of a film's frames. A picture is decoded only when its codes
// changed.
type filmSheet struct {
	f         *Film
	p         *Pictures
	condition func(i int) *model.Condition
	sheet     *images.Sheet
	drawn     [][]int32 // [image] the codes that the sheet shows
}

// draw puts picture i as it was after a step on the sheet, and returns the masked cells there. They
// have the codes that they end with: the film hides them, but the decoder normalises over the whole
// image, so other codes there would change the visible cells.
func (d *filmSheet) draw(i, step int) ([]image.Rectangle, error) {
	states := d.f.states[i]
	last := len(states) - 1
	codes, _, err := d.p.Fill(states[last])
	if err != nil {
		return nil, err
	}
	var masked []int
	for at, code := range states[min(step, last)] {
		if code != d.f.mask {
			codes[at] = code
		} else {
			masked = append(masked, at)
		}
	}
	if !slices.Equal(codes, d.drawn[i]) {
		img, err := d.p.ConditionedImage(codes, d.condition(i))
		if err != nil {
			return nil, err
		}
		d.sheet.Put(i, img)
		d.drawn[i] = codes
	}
	cells, err := d.p.Cells(masked)
	for j := range cells {
		cells[j] = cells[j].Add(d.sheet.Corner(i))
	}
	return cells, err
}
