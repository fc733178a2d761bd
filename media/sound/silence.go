// Package sound finishes and writes sounds of one channel: silences, volume, fades, and files of
// 16 bit numbers as WAV, FLAC or bare.
//
// Silence is judged on 16 bit numbers, in windows that begin at whole milliseconds, as pydub does
// for OmniVoice.
package sound

import (
	"math"
	"slices"
)

// quietest is the root mean square, cut to a whole number, up to which a window is silent: -50 dB.
const quietest = 103

// clip is a sound as 16 bit numbers.
type clip struct {
	x    []int32
	sums []int64 // of squares before each sample
	per  float64 // samples of a millisecond
}

func newClip(x []int32, rate int) *clip {
	c := &clip{x: x, sums: make([]int64, len(x)+1), per: float64(rate) / 1000}
	for i, v := range x {
		c.sums[i+1] = c.sums[i] + int64(v)*int64(v)
	}
	return c
}

// length returns that of the sound, milliseconds.
func (c *clip) length() int { return int(math.RoundToEven(float64(len(c.x)) / c.per)) }

// at returns the sample at which a millisecond begins.
func (c *clip) at(ms int) int { return int(float64(ms) * c.per) }

// piece returns milliseconds a to b, zeros where the sound ends before.
func (c *clip) piece(a, b int) []int32 {
	from, to := c.at(a), c.at(b)
	out := make([]int32, max(to-from, 0))
	if from < len(c.x) {
		copy(out, c.x[from:])
	}
	return out
}

// quiet reports whether milliseconds a to b are silent.
func (c *clip) quiet(a, b int) bool {
	from, to := c.at(a), c.at(b)
	if to <= from {
		return true
	}
	sum := c.sums[min(to, len(c.x))] - c.sums[min(from, len(c.x))]
	return int(math.Sqrt(float64(sum)/float64(to-from))) <= quietest
}

// stretch is a part of a sound, milliseconds.
type stretch struct{ from, to int }

// loud returns what is between the silences of windows of a length.
func (c *clip) loud(window int) (list []stretch) {
	total := c.length()
	var silent []stretch
	add := func(s int) {
		if !c.quiet(s, s+window) {
			return
		}
		if n := len(silent); n > 0 && s <= silent[n-1].to { // windows that meet are one silence
			silent[n-1].to = s + window
			return
		}
		silent = append(silent, stretch{s, s + window})
	}
	const step = 10
	for s := 0; s+window <= total; s += step {
		add(s)
	}
	if (total-window)%step != 0 {
		add(total - window)
	}
	from := 0
	for i, s := range silent {
		if i > 0 || s.from > 0 {
			list = append(list, stretch{from, s.from})
		}
		from = s.to
	}
	if len(silent) == 0 || from < total {
		list = append(list, stretch{from, total})
	}
	return list
}

// Silences say how silences are cut, milliseconds.
type Silences struct {
	Middle      int // on each side of one between sounds, found in windows of this; 0: not cut
	Lead, Trail int // at the beginning and the end
}

// usual are OmniVoice's: a second between sounds.
var usual = Silences{Middle: 500, Lead: 100, Trail: 100}

// Cut returns a sound with shorter silences. A sound of silence alone may become empty.
func (s Silences) Cut(sound []float32, rate int) []float32 {
	x := make([]int32, len(sound))
	for i, v := range sound {
		x[i] = int32(max(-32768, min(float64(v)*32768, 32767)))
	}
	c := newClip(x, rate)
	if total := c.length(); s.Middle > 0 && total >= s.Middle {
		keep := c.loud(s.Middle)
		for i := range keep {
			keep[i].from, keep[i].to = keep[i].from-s.Middle, keep[i].to+s.Middle
			if i > 0 && keep[i].from < keep[i-1].to {
				middle := (keep[i-1].to + keep[i].from) >> 1 // rounded down
				keep[i-1].to, keep[i].from = middle, middle
			}
		}
		var out []int32
		for _, k := range keep {
			out = append(out, c.piece(max(k.from, 0), min(k.to, total))...)
		}
		c = newClip(out, rate)
	}
	for _, kept := range []int{s.Lead, s.Trail} {
		total, t := c.length(), 0
		for t < total && c.quiet(t, min(t+10, total)) {
			t += 10
		}
		out := c.piece(max(0, min(t, total)-kept), total)
		slices.Reverse(out)
		c = newClip(out, rate)
	}
	out := make([]float32, len(c.x))
	for i, v := range c.x {
		out[i] = float32(v) / 32768
	}
	return out
}
