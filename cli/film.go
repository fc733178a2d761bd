package cli

import (
	"bytes"
	"image"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/images"
	"unmask/model"
)

// Bounds of a film, so that memory does not grow with -n and --steps.
const (
	filmImages = 16
	filmFrames = 64
)

// Times of frames, in hundredths of a second.
const (
	frameTime = 12
	lastTime  = 250
)

// film remembers the codes of the first images after every step. A nil one does nothing.
type film struct {
	mask   int32
	states [][][]int32 // [image][step] codes
	done   []bool
}

// newFilm is of n images that all begin as start, nil for all masked.
func newFilm(n int, spec model.Spec, start []int32) *film {
	if start == nil {
		start = slices.Repeat([]int32{spec.Mask}, spec.Length())
	}
	f := &film{mask: spec.Mask, states: make([][][]int32, n), done: make([]bool, n)}
	for i := range f.states {
		f.states[i] = [][]int32{start}
	}
	return f
}

func (f *film) length() int {
	if f == nil {
		return 0
	}
	return len(f.states)
}

func (f *film) add(s *generate.Sequence) {
	if s.Index >= f.length() || f.done[s.Index] {
		return
	}
	f.states[s.Index] = append(f.states[s.Index], slices.Clone(s.Tokens))
	f.done[s.Index] = s.Done
}

// encode draws the GIF. condition is what image i was drawn under.
func (f *film) encode(p *unmask.Pictures, size image.Point, condition func(i int) *model.Condition) ([]byte, error) {
	steps := 0
	for _, s := range f.states {
		steps = max(steps, len(s))
	}
	var a images.Animation
	sheet := images.NewSheet(len(f.states), size)
	hidden := make([][]image.Rectangle, len(f.states))
	every := (steps + filmFrames - 1) / filmFrames
	drawn := make([][]int32, len(f.states))
	for at := 0; at < steps; at += every {
		if at+every >= steps {
			at = steps - 1
		}
		for i, s := range f.states {
			final, _, err := p.Fill(s[len(s)-1], f.mask)
			if err != nil {
				return nil, err
			}
			codes, masked := behindMasks(s[min(at, len(s)-1)], final, f.mask)
			if !slices.Equal(codes, drawn[i]) {
				img, err := p.ImageOf(codes, condition(i))
				if err != nil {
					return nil, err
				}
				sheet.Put(i, img)
				drawn[i] = codes
			}
			if hidden[i], err = p.Cells(masked); err != nil {
				return nil, err
			}
			for j := range hidden[i] {
				hidden[i][j] = hidden[i][j].Add(sheet.At(i))
			}
		}
		delay := frameTime
		if at == steps-1 {
			delay = lastTime
		}
		a.Frame(sheet.Canvas, slices.Concat(hidden...), delay)
	}
	var data bytes.Buffer
	err := a.Encode(&data)
	return data.Bytes(), err
}

// behindMasks gives masked positions, which the film hides, the codes that they end with: the
// decoder normalises over the whole image, so anything else there would show in the open cells.
func behindMasks(codes, final []int32, mask int32) (seen []int32, masked []int) {
	seen = slices.Clone(codes)
	for p, c := range codes {
		if c == mask {
			seen[p] = final[p]
			masked = append(masked, p)
		}
	}
	return seen, masked
}
