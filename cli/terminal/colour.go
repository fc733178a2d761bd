package terminal

import (
	"fmt"
	"image"
	"image/color"
	"strings"
	"time"

	"unmask/generate"
)

// colours says which colours a terminal can show.
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
	switch c := env("COLORTERM"); {
	case env("NO_COLOR") != "":
		return noColours
	case c == "truecolor" || c == "24bit" || strings.HasSuffix(term, "-direct"):
		return colours24bit
	case strings.Contains(term, "256color"):
		return colours256
	}
	return noColours
}

// maskColour is the colour of masked cells.
var maskColour = color.NRGBA{R: 48, G: 48, B: 48, A: 255}

// drawImage shows the first picture of a batch in half blocks, with masked cells in grey. It
// returns false if it cannot. It skips drawings so that they take at most a tenth of the time.
func (w *Watcher) drawImage(step *generate.Step) bool {
	if w.model == nil || w.model.Text != nil || w.model.Pictures == nil || w.colours == noColours {
		return false
	}
	s := &step.Sequences[0]
	if !step.Done && time.Since(w.drawnAt) < 10*w.drawingTime {
		return true
	}
	began := time.Now()
	codes, masked, err := w.model.Pictures.Fill(s.Tokens)
	if err != nil {
		return false
	}
	img, err := w.model.Pictures.Image(codes)
	if err != nil { // the decoder needs the prompt too
		return false
	}
	cells, err := w.model.Pictures.Cells(masked)
	if err != nil {
		return false
	}
	for _, cell := range cells {
		for y := cell.Min.Y; y < cell.Max.Y; y++ {
			for x := cell.Min.X; x < cell.Max.X; x++ {
				img.SetNRGBA(x, y, maskColour)
			}
		}
	}
	w.paintImage(s.Index, step.N, step.Steps, img)
	w.drawnAt, w.drawingTime = time.Now(), time.Since(began)
	return true
}

// paintImage draws a picture, no larger than the terminal, over the last one.
func (w *Watcher) paintImage(sample, step, steps int, img *image.NRGBA) {
	width, height := w.size()
	from := img.Bounds().Size()
	columns := min(width, from.X)
	rows := min(2*(height-2), from.Y) // rows of half blocks
	if columns*from.Y > rows*from.X {
		columns = max(1, rows*from.X/from.Y)
	} else {
		rows = max(1, columns*from.Y/from.X)
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

// meanColour returns the mean colour of the part of img that becomes pixel x, y of a smaller
// picture.
func meanColour(img *image.NRGBA, x, y, columns, rows int) (sum [3]int) {
	size := img.Bounds().Size()
	n := 0
	for j := y * size.Y / rows; j < max((y+1)*size.Y/rows, y*size.Y/rows+1); j++ {
		for i := x * size.X / columns; i < max((x+1)*size.X/columns, x*size.X/columns+1); i++ {
			pixel := img.NRGBAAt(i, j)
			sum[0] += int(pixel.R)
			sum[1] += int(pixel.G)
			sum[2] += int(pixel.B)
			n++
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
