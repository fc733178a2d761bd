package terminal

import (
	"fmt"
	"image"
	"image/color"
	"strings"
	"time"

	"unmask/generate"
)

// colours are the colours that a terminal can show.
type colours uint8

const (
	noColours    colours = iota
	colours256           // 256 colours
	colours24bit         // 24 bits
)

// terminalColours returns the colours that a terminal can show, from its environment; NO_COLOR
// means none.
func terminalColours(env func(string) string) colours {
	term := env("TERM")
	colorTerm := env("COLORTERM")
	switch {
	case env("NO_COLOR") != "":
		return noColours
	case colorTerm == "truecolor" || colorTerm == "24bit" || strings.HasSuffix(term, "-direct"):
		return colours24bit
	case strings.Contains(term, "256color"):
		return colours256
	}
	return noColours
}

// maskColour is the colour of masked cells.
var maskColour = color.NRGBA{R: 48, G: 48, B: 48, A: 255}

// drawImage shows the first picture of a batch in half blocks, with masked cells in grey. It
// returns false if it cannot, for a model of text or a terminal without colours. It skips steps so
// that drawing takes at most a tenth of the time: decoding may cost more than the step itself.
func (w *Watcher) drawImage(step *generate.Step) bool {
	if w.model == nil || w.model.Text != nil || w.model.Pictures == nil || w.colours == noColours {
		return false
	}
	s := &step.Sequences[0]
	if !step.Done && time.Since(w.drawnAt) < 10*w.drawingTime {
		return true
	}

	began := time.Now()
	img, err := w.renderImage(s.Tokens)
	if err != nil { // such as a decoder that needs the prompt too
		return false
	}
	w.paintImage(s.Index, step.N, step.Steps, img)
	w.drawnAt = time.Now()
	w.drawingTime = time.Since(began)
	return true
}

// renderImage decodes the codes of an unfinished picture, and covers its masked cells.
func (w *Watcher) renderImage(tokens []int32) (*image.NRGBA, error) {
	codes, masked, err := w.model.Pictures.Fill(tokens)
	if err != nil {
		return nil, err
	}
	img, err := w.model.Pictures.Image(codes)
	if err != nil {
		return nil, err
	}
	cells, err := w.model.Pictures.Cells(masked)
	if err != nil {
		return nil, err
	}
	for _, cell := range cells {
		for y := cell.Min.Y; y < cell.Max.Y; y++ {
			for x := cell.Min.X; x < cell.Max.X; x++ {
				img.SetNRGBA(x, y, maskColour)
			}
		}
	}
	return img, nil
}

// paintImage draws a picture, no larger than the terminal, over the last one. A line of the
// terminal has two rows of pixels.
func (w *Watcher) paintImage(sample, step, steps int, img *image.NRGBA) {
	width, height := w.size()
	size := img.Bounds().Size()
	columns := min(width, size.X)
	rows := min(2*(height-2), size.Y)
	if columns*size.Y > rows*size.X {
		columns = max(1, rows*size.X/size.Y)
	} else {
		rows = max(1, columns*size.Y/size.X)
	}
	rows += rows % 2

	var b strings.Builder
	w.moveUp(&b)
	fmt.Fprintf(&b, "%s%ssample %d, step %d of %d%s", clearLine, dim, sample, step, steps, reset)
	for y := 0; y < rows; y += 2 {
		b.WriteString("\n" + clearLine)
		for x := range columns {
			upper := meanColour(img, x, y, columns, rows)
			lower := meanColour(img, x, y+1, columns, rows)
			w.colours.writeHalfBlock(&b, upper, lower)
		}
		b.WriteString(reset)
	}
	w.lines = 1 + rows/2
	b.WriteString("\n" + clearBelow)
	fmt.Fprint(w.out, b.String())
}

// meanColour returns the mean colour of the part of img that becomes pixel x, y of a picture of
// columns x rows pixels: red, green and blue.
func meanColour(img *image.NRGBA, x, y, columns, rows int) (sum [3]int) {
	size := img.Bounds().Size()
	top := y * size.Y / rows
	bottom := max((y+1)*size.Y/rows, top+1)
	left := x * size.X / columns
	right := max((x+1)*size.X/columns, left+1)

	n := (bottom - top) * (right - left)
	for j := top; j < bottom; j++ {
		for i := left; i < right; i++ {
			pixel := img.NRGBAAt(i, j)
			sum[0] += int(pixel.R)
			sum[1] += int(pixel.G)
			sum[2] += int(pixel.B)
		}
	}
	return [3]int{sum[0] / n, sum[1] / n, sum[2] / n}
}

// writeHalfBlock writes a character whose upper and lower half have these colours.
func (c colours) writeHalfBlock(b *strings.Builder, upper, lower [3]int) {
	if c == colours24bit {
		fmt.Fprintf(b, "\x1b[38;2;%d;%d;%d;48;2;%d;%d;%dm▀", upper[0], upper[1], upper[2], lower[0],
			lower[1], lower[2])
		return
	}
	fmt.Fprintf(b, "\x1b[38;5;%d;48;5;%dm▀", nearestColour(upper), nearestColour(lower))
}

// nearestColour returns the nearest colour in the 6x6x6 cube of a 256-colour terminal.
func nearestColour(c [3]int) int {
	n := 0
	for _, v := range c {
		n = 6*n + (v*5+127)/255
	}
	return 16 + n
}
