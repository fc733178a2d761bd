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

// maxSilentRMS is the root mean square, cut to a whole number, up to which a window is silent: -50
// dB.
const maxSilentRMS = 103

// clip is a sound as 16 bit numbers.
type clip struct {
	x []int32

	// squares are the sums of the squares before each sample, [samples+1]: windows overlap, and each
	// sum is a difference of two.
	squares []int64

	// perMillisecond is the number of samples of a millisecond.
	perMillisecond float64
}

// newClip returns a clip with the running sums of squares, so that the loudness of any part is a
// difference.
func newClip(x []int32, rate int) *clip {
	c := &clip{x: x, squares: make([]int64, len(x)+1), perMillisecond: float64(rate) / 1000}
	for i, v := range x {
		c.squares[i+1] = c.squares[i] + int64(v)*int64(v)
	}
	return c
}

// length returns that of the sound, milliseconds.
func (c *clip) length() int { return int(math.RoundToEven(float64(len(c.x)) / c.perMillisecond)) }

// sampleAt returns the sample at which a millisecond begins.
func (c *clip) sampleAt(ms int) int { return int(float64(ms) * c.perMillisecond) }

// piece returns milliseconds start to end, zeros where the sound ends before.
func (c *clip) piece(start, end int) []int32 {
	first := c.sampleAt(start)
	samples := make([]int32, max(c.sampleAt(end)-first, 0))
	if first < len(c.x) {
		copy(samples, c.x[first:])
	}
	return samples
}

// isSilent reports whether milliseconds start to end are silent.
func (c *clip) isSilent(start, end int) bool {
	first := c.sampleAt(start)
	last := c.sampleAt(end)
	if last <= first {
		return true
	}
	sum := c.squares[min(last, len(c.x))] - c.squares[min(first, len(c.x))]
	return int(math.Sqrt(float64(sum)/float64(last-first))) <= maxSilentRMS
}

// section is a part of a sound, milliseconds.
type section struct{ start, end int }

// silentSections returns the silences that windows of a length find.
func (c *clip) silentSections(window int) (list []section) {
	add := func(start int) {
		if !c.isSilent(start, start+window) {
			return
		}
		if n := len(list); n > 0 && start <= list[n-1].end { // windows that meet are one silence
			list[n-1].end = start + window
			return
		}
		list = append(list, section{start, start + window})
	}
	const step = 10
	total := c.length()
	for start := 0; start+window <= total; start += step {
		add(start)
	}
	if (total-window)%step != 0 {
		add(total - window)
	}
	return list
}

// loudSections returns what is between the silences of windows of a length.
func (c *clip) loudSections(window int) (list []section) {
	total := c.length()
	silent := c.silentSections(window)
	start := 0
	for i, s := range silent {
		if i > 0 || s.start > 0 {
			list = append(list, section{start, s.start})
		}
		start = s.end
	}
	if len(silent) == 0 || start < total {
		list = append(list, section{start, total})
	}
	return list
}

// Silences say how silences are cut, milliseconds.
type Silences struct {
	// Middle is what stays on each side of one between sounds, found in windows of this length; 0:
	// these are not cut.
	Middle int

	// Lead and Trail are what stays at the beginning and at the end.
	Lead  int
	Trail int
}

// omniVoiceSilences are OmniVoice's: a second between sounds.
var omniVoiceSilences = Silences{Middle: 500, Lead: 100, Trail: 100}

// Cut returns a sound with shorter silences. A sound of silence alone may become empty.
func (s Silences) Cut(sound []float32, rate int) []float32 {
	x := make([]int32, len(sound))
	for i, v := range sound {
		x[i] = int32(max(-32768, min(float64(v)*32768, 32767)))
	}
	c := newClip(x, rate)
	if s.Middle > 0 && c.length() >= s.Middle {
		c = newClip(c.cutMiddle(s.Middle), rate)
	}

	// The end is cut as the beginning is, of the sound backwards.
	for _, keep := range []int{s.Lead, s.Trail} {
		x := c.cutLead(keep)
		slices.Reverse(x)
		c = newClip(x, rate)
	}
	shorter := make([]float32, len(c.x))
	for i, v := range c.x {
		shorter[i] = float32(v) / 32768
	}
	return shorter
}

// cutMiddle returns the sound with at most keep milliseconds on each side of a silence.
func (c *clip) cutMiddle(keep int) (samples []int32) {
	sections := c.loudSections(keep)
	for i := range sections {
		sections[i].start -= keep
		sections[i].end += keep
		if i > 0 && sections[i].start < sections[i-1].end {
			middle := (sections[i-1].end + sections[i].start) >> 1 // rounded down
			sections[i-1].end = middle
			sections[i].start = middle
		}
	}
	for _, s := range sections {
		samples = append(samples, c.piece(max(s.start, 0), min(s.end, c.length()))...)
	}
	return samples
}

// cutLead returns the sound with at most keep milliseconds of silence at its beginning.
func (c *clip) cutLead(keep int) []int32 {
	total := c.length()
	silent := 0
	for silent < total && c.isSilent(silent, min(silent+10, total)) {
		silent += 10
	}
	return c.piece(max(0, min(silent, total)-keep), total)
}
