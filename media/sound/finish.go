package sound

import "math"

// fadeSeconds is the length of fades, and of the silence around and between sounds.
const fadeSeconds = 0.1

// span returns the samples of a fade.
func span(rate int) int { return int(fadeSeconds * float64(rate)) }

// ramp multiplies x by numbers that go evenly from one to another.
func ramp(x []float32, from, to float64) {
	for i := range x {
		at := from
		if len(x) > 1 {
			at += (to - from) * float64(i) / float64(len(x)-1)
		}
		x[i] *= float32(at)
	}
}

// Fade fades a sound in and out, in place.
func Fade(x []float32, rate int) {
	n := min(span(rate), len(x)/2)
	ramp(x[:n], 0, 1)
	ramp(x[len(x)-n:], 1, 0)
}

// Pause returns the silence around and between sounds.
func Pause(rate int) []float32 { return make([]float32, span(rate)) }

// Join returns sounds one after the other, with fades and silence between them.
func Join(parts [][]float32, rate int) (out []float32) {
	for i, p := range parts {
		if i > 0 {
			n := span(rate)
			tail := out[len(out)-min(n, len(out)):]
			ramp(tail, 1, 0)
			out = append(out, Pause(rate)...)
			at := len(out)
			out = append(out, p...)
			ramp(out[at:at+min(n, len(p))], 0, 1)
			continue
		}
		out = append(out, p...)
	}
	return out
}

// VolumeFactor returns the factor that gives a sound its volume: that of a quiet voice with a
// root mean square below 0.1 or, without a voice (0), a peak of one half; 0 if there is no sound.
func VolumeFactor(x []float32, rms float64) float32 {
	const loud, least = 0.1, 1e-6
	if rms > 0 {
		return float32(min(rms/loud, 1))
	}
	var peak float32
	for _, v := range x {
		peak = max(peak, float32(math.Abs(float64(v))))
	}
	if peak <= least {
		return 0
	}
	return 0.5 / peak
}

// Finish returns what is written of a sound: its silences are cut, its volume is set, see Volume,
// and it fades in and out between two gaps. Of silence nothing is left.
func Finish(x []float32, rate int, rms float64) []float32 {
	s := Stream{Rate: rate, RMS: rms}
	if x = s.AddPart(x); len(x) > 0 {
		x = append(x, s.Finish()...)
	}
	return x
}

// Stream finishes the parts of a sound as they come. The first sets the volume of all.
type Stream struct {
	Rate int
	RMS  float64 // of the voice, see Volume

	volume float32 // 0: no part had a sound yet
}

// AddPart returns what is written of the next part: a gap, and the part with fades. Of silence
// nothing is left.
func (s *Stream) AddPart(x []float32) []float32 {
	if x = usual.Cut(x, s.Rate); len(x) == 0 {
		return nil
	}
	if s.volume == 0 {
		s.volume = VolumeFactor(x, s.RMS)
	}
	for i := range x {
		x[i] *= s.volume
	}
	Fade(x, s.Rate)
	return append(Pause(s.Rate), x...)
}

// Finish returns what is written after the last part.
func (s *Stream) Finish() []float32 { return Pause(s.Rate) }
