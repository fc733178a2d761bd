package samplers

import "math"

// ForPGM opens (D+1)/N positions in a step and one less in the last: the begin token has a position
// of its own among those that the authors divide (Deschenaux et al. 2025, "Partition generative
// modeling", the published loop efficient-uniform). Where N does not divide D+1, which is an error
// there, counts are rounded down.
var ForPGM Schedule = &formula{"pgm", func(at float64, steps, length int) int {
	return min(int(float64(length+1)*at/float64(steps)), length)
}}

// PGMArccos is int(1+D*(1-acos((n-1)/(N-1))/(pi/2))), of PGM's confidence rule for images: one more
// than Halton-MaskGIT's.
var PGMArccos Schedule = &formula{"pgm-arccos", func(at float64, steps, length int) int {
	share := min(max(at-1, 0)/float64(max(steps-1, 1)), 1)
	open := 1 - float32(math.Acos(float64(float32(share))))/float32(math.Pi/2)
	return min(1+int(open*float32(length)), length)
}}
