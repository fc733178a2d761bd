package scenes

import (
	"image"
	"math"
)

// Sample is a landscape of a model: the picture, and the codes that it was decoded from, by rows.
type Sample struct {
	Picture *image.NRGBA
	Codes   []int32
}

// Faults count what a picture has that drawn landscapes hardly have.
type Faults struct {
	// Pairs are codes beside or above each other that training does not have so.
	Pairs int

	// Ringing are places where the brightness goes up, down and up again, or the other way round,
	// from each pixel to the next: a decoder far from its training leaves such waves.
	Ringing int

	// Light are pixels of the colour of the sun by day: a sky that overshoots has many.
	Light int
}

// exceeds reports whether any of the counts is above that of bound.
func (f Faults) exceeds(bound Faults) bool {
	return f.Pairs > bound.Pairs || f.Ringing > bound.Ringing || f.Light > bound.Light
}

// pair is a code and the one to its right or below it.
type pair struct {
	first  int32
	second int32
	below  bool
}

// Checker finds garbled pictures: those with more faults than any of some drawn landscapes that
// went through the model's codec. It says nothing about how good the others are.
type Checker struct {
	columns int
	known   map[pair]bool
	most    Faults
}

// NewChecker learns from drawn landscapes, encoded and decoded again, whose codes have so many
// columns. Most of them say which codes stand beside each other, and every sixth how many faults a
// sound picture has.
func NewChecker(drawn []Sample, columns int) *Checker {
	const heldOut = 6
	c := &Checker{columns: columns, known: map[pair]bool{}}
	for i, s := range drawn {
		if i%heldOut == 0 {
			continue
		}
		c.visitPairs(s.Codes, func(p pair) { c.known[p] = true })
	}
	for i := 0; i < len(drawn); i += heldOut {
		f := c.Count(drawn[i])
		c.most.Pairs = max(c.most.Pairs, f.Pairs)
		c.most.Ringing = max(c.most.Ringing, f.Ringing)
		c.most.Light = max(c.most.Light, f.Light)
	}
	return c
}

// Most returns the most faults of the drawn landscapes that were held out.
func (c *Checker) Most() Faults { return c.most }

// IsGarbled reports whether a picture has more faults of some kind than any drawn landscape.
func (c *Checker) IsGarbled(s Sample) bool { return c.Count(s).exceeds(c.most) }

// Count counts the faults of a picture.
func (c *Checker) Count(s Sample) (f Faults) {
	c.visitPairs(s.Codes, func(p pair) {
		if !c.known[p] {
			f.Pairs++
		}
	})
	f.Ringing = countRinging(s.Picture)
	f.Light = countLight(s.Picture)
	return f
}

// visitPairs visits all neighbours in a grid of codes.
func (c *Checker) visitPairs(codes []int32, visit func(p pair)) {
	for i, code := range codes {
		if (i+1)%c.columns != 0 {
			visit(pair{code, codes[i+1], false})
		}
		if below := i + c.columns; below < len(codes) {
			visit(pair{code, codes[below], true})
		}
	}
}

// countRinging counts the places where three differences between neighbours in a row or a column
// alternate in sign, each of them visible.
func countRinging(m *image.NRGBA) (n int) {
	size := m.Rect.Size()
	for y := range size.Y {
		for x := range size.X {
			if x+3 < size.X && alternates(m, x, y, 1, 0) {
				n++
			}
			if y+3 < size.Y && alternates(m, x, y, 0, 1) {
				n++
			}
		}
	}
	return n
}

// alternates reports whether the brightness of four pixels, from (x, y) on in steps of (dx, dy),
// goes up and down in turn.
func alternates(m *image.NRGBA, x, y, dx, dy int) bool {
	const visible = 8 // of 255
	before := 0.0
	last := brightness(m, x, y)
	for i := 1; i <= 3; i++ {
		value := brightness(m, x+i*dx, y+i*dy)
		step := value - last
		if math.Abs(step) < visible || step*before > 0 {
			return false
		}
		before = step
		last = value
	}
	return true
}

// brightness returns that of a pixel, 0 to 255, with the weights of television (Rec. 601).
func brightness(m *image.NRGBA, x, y int) float64 {
	c := pixel(m, x, y)
	return 0.3*c[0] + 0.59*c[1] + 0.11*c[2]
}

// pixel returns the colour of a pixel.
func pixel(m *image.NRGBA, x, y int) rgb {
	c := m.NRGBAAt(m.Rect.Min.X+x, m.Rect.Min.Y+y)
	return rgb{float64(c.R), float64(c.G), float64(c.B)}
}

// countLight counts the pixels of the colour of the sun by day.
func countLight(m *image.NRGBA) (n int) {
	const near = 28
	sun := hours[day].light
	size := m.Rect.Size()
	for y := range size.Y {
		for x := range size.X {
			c := pixel(m, x, y)
			if distance(c, sun) < near {
				n++
			}
		}
	}
	return n
}

// distance returns the largest difference of two colours.
func distance(a, b rgb) float64 {
	return max(math.Abs(a[0]-b[0]), math.Abs(a[1]-b[1]), math.Abs(a[2]-b[2]))
}

// IsDay reports whether the top of a picture has the colour of the sky by day rather than of
// another hour.
func IsDay(m *image.NRGBA) bool {
	const rows = 4
	var mean rgb
	size := m.Rect.Size()
	for y := range rows {
		for x := range size.X {
			c := pixel(m, x, y)
			for i := range mean {
				mean[i] += c[i] / float64(rows*size.X)
			}
		}
	}
	nearest := 0
	for i := range hours {
		if distance(mean, hours[i].zenith) < distance(mean, hours[nearest].zenith) {
			nearest = i
		}
	}
	return nearest == day
}

// HasSun reports whether a picture shows the sun by day. Hills hide it in some drawn landscapes.
func HasSun(m *image.NRGBA) bool { return countLight(m) > 0 }
