package omnivoice

import (
	"math"
	"unicode"
)

// FrameRate is the number of frames of a second.
const FrameRate = 25

// The voice that lengths are in proportion to where there is none.
const (
	defaultText   = "Nice to meet you."
	defaultFrames = 25
)

// Pace is what decides how many frames a text takes. The zero Pace is the usual one.
type Pace struct {
	// Speed is how fast it is spoken; 0 means 1.
	Speed float64

	// Seconds decides alone if it is not 0.
	Seconds float64

	// Text and Frames are the words and the length of a voice, which set the pace. If either is
	// empty, it is the usual one.
	Text   string
	Frames int
}

// FrameCount returns how many frames a text takes, at least 1. The number is in proportion to the
// pace's voice; texts below two seconds take more than that.
func (p Pace) FrameCount(text string) int {
	if p.Seconds > 0 {
		return int(min(max(1, p.Seconds*FrameRate), MaxFrames))
	}
	frames := 0.0
	if weight := p.weightPerFrame(); weight > 0 {
		frames = speechWeight(text) / weight
	}
	const short = 2 * FrameRate
	if frames < short {
		frames = short * math.Pow(frames/short, 1.0/3)
	}
	if p.Speed > 0 {
		frames /= p.Speed
	}
	return int(min(max(1, frames), math.MaxInt32))
}

// weightPerFrame returns the weight that a frame of the voice has, at the usual speed.
func (p Pace) weightPerFrame() float64 {
	if p.Text == "" || p.Frames == 0 {
		p.Text = defaultText
		p.Frames = defaultFrames
	}
	return speechWeight(p.Text) / float64(p.Frames)
}

// speechWeight returns how long a text takes to say.
func speechWeight(text string) (sum float64) {
	for _, c := range text {
		sum += letterWeight(c)
	}
	return sum
}

// scriptWeights are the weights of letters up to a code point. Beyond: 3 from U+20001 on, otherwise
// 1.
var scriptWeights = []struct {
	last   rune
	weight float64
}{
	{0x58f, 1}, {0x8ff, 1.5}, {0xdff, 1.8}, {0xeff, 1.5}, {0x109f, 1.8}, {0x10ff, 1}, {0x11ff, 2.5},
	{0x139f, 3}, {0x177f, 1}, {0x17ff, 1.8}, {0x18ff, 1}, {0x1c7f, 1.8}, {0x1cbf, 1}, {0x1cff, 1.8},
	{0x1eff, 1}, {0x30ff, 2.2}, {0x312f, 3}, {0x318f, 2.5}, {0xa4cf, 3}, {0xa7ff, 1}, {0xa82f, 1.8},
	{0xa87f, 1}, {0xa95f, 1.8}, {0xa97f, 2.5}, {0xaaff, 1.8}, {0xab2f, 3}, {0xabbf, 1}, {0xabff, 1.8},
	{0xd7af, 2.5}, {0xfaff, 3}, {0xfdff, 1.5}, {0xfe6f, 1}, {0xfeff, 1.5}, {0xffef, 1}}

// letterWeight returns how long a character takes to say, 1 for a Latin letter. The weights are
// OmniVoice's.
func letterWeight(c rune) float64 {
	switch {
	case c == 'ـ' || unicode.IsMark(c): // the sign that stretches Arabic words
		return 0
	case unicode.IsPunct(c), unicode.IsSymbol(c):
		return 0.5
	case unicode.Is(unicode.Z, c):
		return 0.2
	case unicode.IsNumber(c):
		return 3.5
	case c > 0x20000:
		return 3
	}
	for _, s := range scriptWeights {
		if c <= s.last {
			return s.weight
		}
	}
	return 1
}
