// Package rank names the scores by which a device can rank positions. Samplers say theirs, and need
// no more of a device than this.
package rank

// Measure is the score that ranks candidates, the largest first and the lowest index among equals.
// Random numbers are those of internal/philox: u is uniform in (0, 1), and xi = -log(-log(u)).
type Measure uint8

// The measures of the paper's samplers, with the fields of backend.Choice that they read.
const (
	ByOrder  Measure = iota // Order of the position, the lowest first
	ByNoise                 // u
	ByMoment                // log sum_x p(x)^Beta + xi
	// log p(x) + Noise*xi of a token x drawn at every candidate; x is also the token
	ByDraw
)
