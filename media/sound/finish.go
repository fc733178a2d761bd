package sound

import "math"

// fadeSeconds is the length of fades, and of the silence around and between sounds.
const fadeSeconds = 0.1

// fadeSamples returns the samples of a fade.
func fadeSamples(rate int) int { return int(fadeSeconds * float64(rate)) }

// applyRamp multiplies x by numbers that go evenly from one to another.
func applyRamp(x []float32, first, last float64) {
	for i := range x {
		factor := first
		if len(x) > 1 {
			factor += (last - first) * float64(i) / float64(len(x)-1)
		}
		x[i] *= float32(factor)
	}
}

// Fade fades a sound in and out, in place.
func Fade(x []float32, rate int) {
	n := min(fadeSamples(rate), len(x)/2)
	applyRamp(x[:n], 0, 1)
	applyRamp(x[len(x)-n:], 1, 0)
}

// Pause returns the silence around and between sounds.
func Pause(rate int) []float32 { return make([]float32, fadeSamples(rate)) }

// Join returns sounds one after the other, with fades and silence between them.
func Join(parts [][]float32, rate int) (joined []float32) {
	n := fadeSamples(rate)
	for i, part := range parts {
		if i == 0 {
			joined = append(joined, part...)
			continue
		}
		tail := joined[len(joined)-min(n, len(joined)):]
		applyRamp(tail, 1, 0)
		joined = append(joined, Pause(rate)...)
		start := len(joined)
		joined = append(joined, part...)
		applyRamp(joined[start:start+min(n, len(part))], 0, 1)
	}
	return joined
}

// VolumeFactor returns the factor by which a sound gets its final volume. rms is the root mean
// square of the voice that the sound imitates, 0 if there is none: a voice below 0.1 makes the
// sound quieter in that ratio. Without a voice the sound's peak becomes one half. The factor of
// silence is 0.
func VolumeFactor(x []float32, rms float64) float32 {
	const loud = 0.1     // root mean square of a voice that is loud enough
	const minPeak = 1e-6 // of a sound that is more than rounding
	if rms > 0 {
		return float32(min(rms/loud, 1))
	}
	var peak float32
	for _, v := range x {
		peak = max(peak, float32(math.Abs(float64(v))))
	}
	if peak <= minPeak {
		return 0
	}
	return 0.5 / peak
}

// Finish returns what is written of a sound: its silences are cut, its volume is set, see
// VolumeFactor,
// and it fades in and out between two gaps. Of silence nothing is left.
func Finish(x []float32, rate int, rms float64) []float32 {
	s := Stream{Rate: rate, RMS: rms}
	finished := s.AddPart(x)
	if len(finished) > 0 {
		finished = append(finished, s.Finish()...)
	}
	return finished
}

// Stream finishes the parts of a sound as they come. The first sets the volume of all.
type Stream struct {
	// Rate is the number of samples a second.
	Rate int

	// RMS is the root mean square of the voice, see VolumeFactor.
	RMS float64

	// volume is the factor of all parts; 0 while no part had a sound.
	volume float32
}

// AddPart returns what is written of the next part: a gap, and the part with fades. Of silence
// nothing is left.
func (s *Stream) AddPart(x []float32) []float32 {
	x = omniVoiceSilences.Cut(x, s.Rate)
	if len(x) == 0 {
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
