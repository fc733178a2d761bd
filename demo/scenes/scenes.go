// Package scenes draws the small landscapes of the demo's image model, as reference pictures.
package scenes

import (
	"math"
	"math/rand/v2"

	"unmask/media/images"
)

// Draw draws small landscapes from the distribution that the demo's image model was trained on
// (demo/recipe/scenes.py, with another random generator). They are the reference pictures for a
// Frechet distance. Equal seeds give equal pictures.
//
// The hours are the pictures' classes: dawn, day, dusk or night.
func Draw(n int, seed uint64) (list []*images.Image, hours []string) {
	r := rand.New(rand.NewPCG(seed, 0))
	list = make([]*images.Image, n)
	hours = make([]string, n)
	for i := range list {
		p := drawScene(r)
		list[i] = p.average()
		hours[i] = hourNames[p.hourIndex]
	}
	return list, hours
}

// hourNames are the classes of scenes.
var hourNames = [...]string{dawn: "dawn", day: "day", dusk: "dusk", night: "night"}

const (
	sceneSide = 64

	// canvasSide is twice the picture's: pixels are averaged, so that edges are smooth.
	canvasSide = 128
)

// rgb is a colour, 0 to 255 each; values beyond are cut when pixels are averaged.
type rgb [3]float64

// mix returns the colour that is t of b and the rest of a.
func mix(a, b rgb, t float64) rgb {
	for i := range a {
		a[i] = a[i]*(1-t) + b[i]*t
	}
	return a
}

func (c rgb) times(s float64) rgb { return rgb{c[0] * s, c[1] * s, c[2] * s} }
func (c rgb) plus(s float64) rgb  { return rgb{c[0] + s, c[1] + s, c[2] + s} }

// hour is a time of day: its share of the pictures and its colours.
type hour struct {
	share   float64
	zenith  rgb
	horizon rgb
	light   rgb // of the sun or the moon
	ground  rgb
}

const (
	dawn = iota
	day
	dusk
	night
)

var hours = [4]hour{
	dawn:  {0.2, rgb{84, 92, 160}, rgb{252, 188, 150}, rgb{255, 226, 180}, rgb{60, 84, 70}},
	day:   {0.4, rgb{70, 140, 226}, rgb{196, 226, 248}, rgb{255, 250, 220}, rgb{74, 128, 62}},
	dusk:  {0.2, rgb{58, 44, 98}, rgb{240, 120, 72}, rgb{255, 168, 92}, rgb{44, 52, 54}},
	night: {0.2, rgb{10, 14, 40}, rgb{38, 52, 92}, rgb{226, 232, 250}, rgb{18, 32, 36}},
}

// painter draws one scene on a canvas [canvasSide][canvasSide]; v points down and u right, both
// from 0 to 1.
type painter struct {
	*rand.Rand
	pixels [canvasSide][canvasSide]rgb
	hour
	hourIndex int

	// level is the height of the horizon, downwards from the top.
	level float64
}

// drawFloat draws a number from a to b, and drawInt a whole one from a to b-1. Pictures of a seed
// depend on the order of all draws.
func (p *painter) drawFloat(a, b float64) float64 { return a + (b-a)*p.Float64() }
func (p *painter) drawInt(a, b int) int           { return a + p.IntN(b-a) }

// visitPixels visits all pixels.
func (p *painter) visitPixels(f func(c *rgb, v, u float64)) {
	for y := range canvasSide {
		for x := range canvasSide {
			f(&p.pixels[y][x], float64(y)/canvasSide, float64(x)/canvasSide)
		}
	}
}

// ridge returns the height of a line of hills in each column.
func (p *painter) ridge(height, rough float64) []float64 {
	line := make([]float64, canvasSide)
	for k := 1.0; k < 6; k++ {
		frequency := k * p.drawFloat(0.6, 1.4)
		phase := p.Float64()
		for x := range line {
			angle := 2 * math.Pi * (frequency*float64(x)/(canvasSide-1) + phase)
			line[x] += math.Sin(angle) * rough / math.Pow(k, 1.1)
		}
	}
	for x := range line {
		line[x] += height
	}
	return line
}

// drawScene draws a scene from the back to the front.
func drawScene(r *rand.Rand) *painter {
	p := &painter{Rand: r}
	u := r.Float64()
	for p.hourIndex < night && u >= hours[p.hourIndex].share {
		u -= hours[p.hourIndex].share
		p.hourIndex++
	}
	p.hour = hours[p.hourIndex]
	p.level = p.drawFloat(0.55, 0.72)

	p.paintSky()
	p.paintHills()
	if r.Float64() < 0.45 {
		p.paintLake()
	}
	line := p.ridge(p.drawFloat(0.84, 0.93), 0.025)
	near := p.ground.times(p.drawFloat(0.65, 0.9))
	p.visitPixels(func(c *rgb, v, u float64) {
		if v >= line[int(u*canvasSide)] {
			*c = near
		}
	})
	for range p.drawInt(0, 7) {
		p.paintTree(line)
	}
	if r.Float64() < 0.35 {
		p.paintHouse(line)
	}
	return p
}

// paintSky paints the sky, with stars at night, and the sun or the moon with its glow.
func (p *painter) paintSky() {
	p.visitPixels(func(c *rgb, v, _ float64) {
		*c = mix(p.zenith, p.horizon, math.Pow(min(v/p.level, 1), 1.3))
	})
	if p.hourIndex == night {
		for range p.drawInt(12, 30) {
			y := p.IntN(int(canvasSide * p.level * 0.8))
			x := p.IntN(canvasSide)
			for i := y; i < min(y+2, canvasSide); i++ {
				for j := x; j < min(x+2, canvasSide); j++ {
					p.pixels[i][j] = rgb{210, 210, 210}
				}
			}
		}
	}
	centreU := p.drawFloat(0.15, 0.85)
	centreV := p.drawFloat(0.12, p.level-0.1)
	radius := p.drawFloat(0.05, 0.09)
	p.visitPixels(func(c *rgb, v, u float64) {
		distance := math.Hypot(u-centreU, v-centreV)
		glow := distance / (radius * 2.6)
		*c = mix(*c, p.light, math.Exp(-glow*glow)*0.55)
		if distance < radius {
			*c = p.light
		}
	})
}

// paintHills paints one to three lines of hills, the farthest first.
func (p *painter) paintHills() {
	layers := p.drawInt(1, 4)
	for i := range layers {
		near := float64(i+1) / float64(layers+1)
		line := p.ridge(p.level-0.20+0.16*near, 0.07*(1.2-near))
		color := mix(p.horizon, p.ground, 0.35+0.55*near).times(p.drawFloat(0.9, 1.05))
		hasSnow := (p.hourIndex == day || p.hourIndex == dawn) && i == 0 && p.Float64() < 0.5
		p.visitPixels(func(c *rgb, v, u float64) {
			top := line[int(u*canvasSide)]
			if v < top {
				return
			}
			*c = color.times(1 - 0.12*(v-top))
			if hasSnow && v < top+0.025 && top < p.level-0.16 {
				*c = rgb{244, 244, 244}
			}
		})
	}
}

// paintLake mirrors what is above it.
func (p *painter) paintLake() {
	top := int(canvasSide * (p.level + 0.02))
	haze := mix(p.zenith, p.horizon, 0.5).times(0.2)
	unmirrored := p.pixels
	for y := top; y < min(2*top, canvasSide); y++ {
		for x := range canvasSide {
			c := unmirrored[2*top-1-y][x].times(0.72)
			p.pixels[y][x] = rgb{c[0] + haze[0], c[1] + haze[1], c[2] + haze[2]}
		}
	}
	for y := top + p.drawInt(2, 8); y < canvasSide; y += 7 {
		for x := range canvasSide {
			p.pixels[y][x] = p.pixels[y][x].plus(10)
		}
	}
}

// paintTree paints a fir that stands on the line of the foreground.
func (p *painter) paintTree(line []float64) {
	trunk := p.ground.times(0.35)
	x := p.drawInt(4, canvasSide-4)
	height := p.drawFloat(0.08, 0.18)
	base := line[x]
	middle := float64(x) / canvasSide
	for k := range 3 { // triangles, from the top down
		top := base - height*(1-0.25*float64(k))
		bottom := base - height*(0.45-0.22*float64(k))
		p.visitPixels(func(c *rgb, v, u float64) {
			if v >= top && v < bottom && math.Abs(u-middle) < (v-top)*0.42 {
				*c = trunk.plus(12 * float64(k))
			}
		})
	}
	p.visitPixels(func(c *rgb, v, u float64) {
		if v >= base-0.02 && v < base+0.01 && math.Abs(u-middle) < 0.008 {
			*c = trunk.times(0.6)
		}
	})
}

// paintHouse paints a house with a window, lit unless it is day.
func (p *painter) paintHouse(line []float64) {
	x := p.drawInt(16, canvasSide-28)
	w := p.drawFloat(0.07, 0.10)
	h := w * 0.8
	base := line[x] + 0.01
	left := float64(x) / canvasSide
	window := rgb{255, 222, 120}
	if p.hourIndex == day {
		window = rgb{90, 110, 130}
	}
	p.visitPixels(func(c *rgb, v, u float64) {
		ux := u - left
		if v >= base-h && v < base && ux >= 0 && ux < w {
			*c = mix(p.ground, rgb{214, 190, 160}, 0.55)
		}
		if v >= base-h-w*0.5 && v < base-h && math.Abs(ux-w/2) < (v-(base-h-w*0.5))*1.15 {
			*c = mix(p.ground, rgb{170, 62, 48}, 0.6)
		}
		if v >= base-h*0.7 && v < base-h*0.3 && math.Abs(ux-w*0.32) < w*0.14 {
			*c = window
		}
	})
}

// average returns the picture, of which each pixel is the mean of 2x2.
func (p *painter) average() *images.Image {
	m := &images.Image{Width: sceneSide, Height: sceneSide}
	for y := 0; y < canvasSide; y += 2 {
		for x := 0; x < canvasSide; x += 2 {
			for c := range 3 {
				var sum float64
				for _, q := range []rgb{p.pixels[y][x], p.pixels[y][x+1], p.pixels[y+1][x],
					p.pixels[y+1][x+1]} {
					sum += min(max(q[c], 0), 255)
				}
				m.Pix = append(m.Pix, byte(sum/4))
			}
		}
	}
	return m
}
