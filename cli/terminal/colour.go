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
	plain   colours = iota
	palette         // 256 colours
	full            // 24 bits
)

// coloursOf returns the colours that a terminal can show, from its environment; NO_COLOR means
// none.
func coloursOf(env func(string) string) colours {
	term := env("TERM")
	switch c := env("COLORTERM"); {
	case env("NO_COLOR") != "":
		return plain
	case c == "truecolor" || c == "24bit" || strings.HasSuffix(term, "-direct"):
		return full
	case strings.Contains(term, "256color"):
		return palette
	}
	return plain
}

// covered is the colour of masked cells.
var covered = color.NRGBA{R: 48, G: 48, B: 48, A: 255}

// drawImage shows the first picture of a batch in half blocks, with masked cells in grey. It
// returns false if it cannot. It skips drawings so that they take at most a tenth of the time.
func (w *Watcher) drawImage(step *generate.Step) bool {
	if w.m == nil || w.m.Text != nil || w.m.Pictures == nil || w.colours == plain {
		return false
	}
	s := &step.Sequences[0]
	if !step.Done && time.Since(w.drawn) < 10*w.took {
		return true
	}
	began := time.Now()
	codes, masked, err := w.m.Pictures.Fill(s.Tokens)
	if err != nil {
		return false
	}
	img, err := w.m.Pictures.Image(codes)
	if err != nil { // the decoder needs the prompt too
		return false
	}
	cells, err := w.m.Pictures.Cells(masked)
	if err != nil {
		return false
	}
	for _, cell := range cells {
		for y := cell.Min.Y; y < cell.Max.Y; y++ {
			for x := cell.Min.X; x < cell.Max.X; x++ {
				img.SetNRGBA(x, y, covered)
			}
		}
	}
	w.showImage(s.Index, step.N, step.Steps, img)
	w.drawn, w.took = time.Now(), time.Since(began)
	return true
}

// showImage draws a picture, no larger than the terminal, over the last one.
func (w *Watcher) showImage(sample, step, steps int, img *image.NRGBA) {
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
	w.up(&b)
	fmt.Fprintf(&b, "%s%ssample %d, step %d of %d%s", line, dim, sample, step, steps, reset)
	for y := 0; y < rows; y += 2 {
		b.WriteString("\n" + line)
		for x := range columns {
			w.colours.halfBlock(&b, mean(img, x, y, columns, rows), mean(img, x, y+1, columns, rows))
		}
		b.WriteString(reset)
	}
	w.lines = 1 + rows/2
	b.WriteString("\n" + below)
	fmt.Fprint(w.out, b.String())
}

// mean returns the mean colour of the part of img that becomes pixel x, y of a smaller picture.
func mean(img *image.NRGBA, x, y, columns, rows int) (c [3]int) {
	size := img.Bounds().Size()
	n := 0
	for j := y * size.Y / rows; j < max((y+1)*size.Y/rows, y*size.Y/rows+1); j++ {
		for i := x * size.X / columns; i < max((x+1)*size.X/columns, x*size.X/columns+1); i++ {
			at := img.NRGBAAt(i, j)
			c[0] += int(at.R)
			c[1] += int(at.G)
			c[2] += int(at.B)
			n++
		}
	}
	return [3]int{c[0] / n, c[1] / n, c[2] / n}
}

// halfBlock writes a character whose upper and lower half have these colours.
func (c colours) halfBlock(b *strings.Builder, upper, lower [3]int) {
	if c == full {
		fmt.Fprintf(b, "\x1b[38;2;%d;%d;%d;48;2;%d;%d;%dm▀", upper[0], upper[1], upper[2], lower[0],
			lower[1], lower[2])
		return
	}
	fmt.Fprintf(b, "\x1b[38;5;%d;48;5;%dm▀", cube(upper), cube(lower))
}

// cube returns the nearest colour in the 6x6x6 cube of a 256-colour terminal.
func cube(c [3]int) int {
	n := 0
	for _, v := range c {
		n = 6*n + (v*5+127)/255
	}
	return 16 + n
}
