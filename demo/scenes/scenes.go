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
	list, hours = make([]*images.Image, n), make([]string, n)
	for i := range list {
		p := scene(r)
		list[i], hours[i] = p.picture(), hourNames[p.at]
	}
	return list, hours
}

// hourNames are the classes of scenes.
var hourNames = [...]string{dawn: "dawn", day: "day", dusk: "dusk", night: "night"}

const (
	sceneSide = 64
	fine      = 128 // drawn at twice the size, then averaged
)

type rgb [3]float64

func mix(a, b rgb, t float64) rgb {
	for i := range a {
		a[i] = a[i]*(1-t) + b[i]*t
	}
	return a
}

func (c rgb) times(s float64) rgb { return rgb{c[0] * s, c[1] * s, c[2] * s} }
func (c rgb) plus(s float64) rgb  { return rgb{c[0] + s, c[1] + s, c[2] + s} }

type hour struct {
	share                          float64
	zenith, horizon, light, ground rgb
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

// painter draws one scene on a canvas [fine][fine]; v points down and u right, both from 0 to 1.
type painter struct {
	*rand.Rand
	px [fine][fine]rgb
	hour
	at    int // the hour
	level float64
}

func (p *painter) between(a, b float64) float64 { return a + (b-a)*p.Float64() }
func (p *painter) among(a, b int) int           { return a + p.IntN(b-a) }

// each visits all pixels.
func (p *painter) each(f func(c *rgb, v, u float64)) {
	for y := range fine {
		for x := range fine {
			f(&p.px[y][x], float64(y)/fine, float64(x)/fine)
		}
	}
}

// ridge returns the height of a line of hills in each column.
func (p *painter) ridge(height, rough float64) []float64 {
	line := make([]float64, fine)
	for k := 1.0; k < 6; k++ {
		f, phase := k*p.between(0.6, 1.4), p.Float64()
		for x := range line {
			line[x] += math.Sin(2*math.Pi*(f*float64(x)/(fine-1)+phase)) * rough / math.Pow(k, 1.1)
		}
	}
	for x := range line {
		line[x] += height
	}
	return line
}

func scene(r *rand.Rand) *painter {
	p := &painter{Rand: r}
	for u := r.Float64(); p.at < night && u >= hours[p.at].share; p.at++ {
		u -= hours[p.at].share
	}
	p.hour, p.level = hours[p.at], p.between(0.55, 0.72)
	p.sky()
	p.hills()
	if r.Float64() < 0.45 {
		p.lake()
	}
	line := p.ridge(p.between(0.84, 0.93), 0.025)
	near := p.ground.times(p.between(0.65, 0.9))
	p.each(func(c *rgb, v, u float64) {
		if v >= line[int(u*fine)] {
			*c = near
		}
	})
	for range p.among(0, 7) {
		p.tree(line)
	}
	if r.Float64() < 0.35 {
		p.house(line)
	}
	return p
}

func (p *painter) sky() {
	p.each(func(c *rgb, v, _ float64) {
		*c = mix(p.zenith, p.horizon, math.Pow(min(v/p.level, 1), 1.3))
	})
	if p.at == night {
		for range p.among(12, 30) {
			y, x := p.IntN(int(fine*p.level*0.8)), p.IntN(fine)
			for i := y; i < min(y+2, fine); i++ {
				for j := x; j < min(x+2, fine); j++ {
					p.px[i][j] = rgb{210, 210, 210}
				}
			}
		}
	}
	cx, cy, radius := p.between(0.15, 0.85), p.between(0.12, p.level-0.1), p.between(0.05, 0.09)
	p.each(func(c *rgb, v, u float64) {
		d := math.Hypot(u-cx, v-cy)
		glow := d / (radius * 2.6)
		*c = mix(*c, p.light, math.Exp(-glow*glow)*0.55)
		if d < radius {
			*c = p.light
		}
	})
}

func (p *painter) hills() {
	layers := p.among(1, 4)
	for i := range layers {
		near := float64(i+1) / float64(layers+1)
		line := p.ridge(p.level-0.20+0.16*near, 0.07*(1.2-near))
		color := mix(p.horizon, p.ground, 0.35+0.55*near).times(p.between(0.9, 1.05))
		snow := (p.at == day || p.at == dawn) && i == 0 && p.Float64() < 0.5
		p.each(func(c *rgb, v, u float64) {
			top := line[int(u*fine)]
			if v < top {
				return
			}
			*c = color.times(1 - 0.12*(v-top))
			if snow && v < top+0.025 && top < p.level-0.16 {
				*c = rgb{244, 244, 244}
			}
		})
	}
}

// lake mirrors what is above it.
func (p *painter) lake() {
	top := int(fine * (p.level + 0.02))
	haze := mix(p.zenith, p.horizon, 0.5).times(0.2)
	before := p.px
	for y := top; y < min(2*top, fine); y++ {
		for x := range fine {
			c := before[2*top-1-y][x].times(0.72)
			p.px[y][x] = rgb{c[0] + haze[0], c[1] + haze[1], c[2] + haze[2]}
		}
	}
	for y := top + p.among(2, 8); y < fine; y += 7 {
		for x := range fine {
			p.px[y][x] = p.px[y][x].plus(10)
		}
	}
}

func (p *painter) tree(line []float64) {
	trunk := p.ground.times(0.35)
	x, height := p.among(4, fine-4), p.between(0.08, 0.18)
	base, at := line[x], float64(x)/fine
	for k := range 3 {
		a, b := base-height*(1-0.25*float64(k)), base-height*(0.45-0.22*float64(k))
		p.each(func(c *rgb, v, u float64) {
			if v >= a && v < b && math.Abs(u-at) < (v-a)*0.42 {
				*c = trunk.plus(12 * float64(k))
			}
		})
	}
	p.each(func(c *rgb, v, u float64) {
		if v >= base-0.02 && v < base+0.01 && math.Abs(u-at) < 0.008 {
			*c = trunk.times(0.6)
		}
	})
}

func (p *painter) house(line []float64) {
	x, w := p.among(16, fine-28), p.between(0.07, 0.10)
	base, h, at := line[x]+0.01, w*0.8, float64(x)/fine
	lit := rgb{255, 222, 120}
	if p.at == day {
		lit = rgb{90, 110, 130}
	}
	p.each(func(c *rgb, v, u float64) {
		ux := u - at
		if v >= base-h && v < base && ux >= 0 && ux < w {
			*c = mix(p.ground, rgb{214, 190, 160}, 0.55)
		}
		if v >= base-h-w*0.5 && v < base-h && math.Abs(ux-w/2) < (v-(base-h-w*0.5))*1.15 {
			*c = mix(p.ground, rgb{170, 62, 48}, 0.6)
		}
		if v >= base-h*0.7 && v < base-h*0.3 && math.Abs(ux-w*0.32) < w*0.14 {
			*c = lit
		}
	})
}

// picture averages 2x2 pixels.
func (p *painter) picture() *images.Image {
	m := &images.Image{Width: sceneSide, Height: sceneSide}
	for y := 0; y < fine; y += 2 {
		for x := 0; x < fine; x += 2 {
			for c := range 3 {
				var sum float64
				for _, q := range []rgb{p.px[y][x], p.px[y][x+1], p.px[y+1][x], p.px[y+1][x+1]} {
					sum += min(max(q[c], 0), 255)
				}
				m.Pix = append(m.Pix, byte(sum/4))
			}
		}
	}
	return m
}
