package demo_test

import (
	"image"

	"unmask/demo/scenes"
)

// shades is how many levels of each colour channel a palette tells apart.
const shades = 16

// A palette has the colours of drawn landscapes, by their hour.
type palette map[string]*[shades][shades][shades]bool

// newPalette returns the colours of n drawn landscapes, and those one shade
// away.
func newPalette(n int, seed uint64) palette {
	p := palette{}
	list, hours := scenes.Draw(n, seed)
	for i, m := range list {
		if p[hours[i]] == nil {
			p[hours[i]] = new([shades][shades][shades]bool)
		}
		colours := p[hours[i]]
		eachShade(m.NRGBA(), func(r, g, b int) {
			for d := -1; d <= 1; d++ {
				colours[clamp(r+d)][g][b] = true
				colours[r][clamp(g+d)][b] = true
				colours[r][g][clamp(b+d)] = true
			}
		})
	}
	return p
}

// strange counts the pixels of m with colours that landscapes of an hour do not have. A landscape
// of another hour has hundreds, one with a blot about a hundred.
func (p palette) strange(hour string, m *image.NRGBA) (n int) {
	colours := p[hour]
	eachShade(m, func(r, g, b int) {
		if colours == nil || !colours[r][g][b] {
			n++
		}
	})
	return n
}

func eachShade(m *image.NRGBA, f func(r, g, b int)) {
	const width = 256 / shades
	for i := 0; i < len(m.Pix); i += 4 {
		f(int(m.Pix[i])/width, int(m.Pix[i+1])/width, int(m.Pix[i+2])/width)
	}
}

func clamp(v int) int { return min(max(v, 0), shades-1) }
