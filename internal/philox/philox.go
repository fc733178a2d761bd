// Package philox is the counter-based random generator Philox4x32-10 of Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A number depends on its key and
// counter alone, so output depends on neither batch size, threads nor device order.
package philox

// Use distinguishes the random numbers of one position in one step.
type Use uint32

// The uses. Frozen: renumbering changes every output.
const (
	Order   Use = iota // noise that ranks positions
	Token              // the token of a position
	Reorder            // a second, independent noise for ranking
	Remask             // chooses which open positions close
	Setup              // before the first step
	Context            // the known tokens that guidance masks
)

// The multipliers of a round and the steps of its keys.
const (
	m0, m1 = 0xD2511F53, 0xCD9E8D57
	w0, w1 = 0x9E3779B9, 0xBB67AE85
)

// Block returns the Philox4x32-10 bijection of counter under key.
func Block(counter [4]uint32, key [2]uint32) [4]uint32 {
	c := counter
	k := key
	for range 10 {
		p0 := uint64(m0) * uint64(c[0])
		p1 := uint64(m1) * uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1), uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0)}
		k[0] += w0
		k[1] += w1
	}
	return c
}

// Stream gives the random numbers of one sequence in one step. The zero Stream is valid.
type Stream struct {
	Seed uint64

	// Sequence is the sequence's index in the run, not in the batch, so that the batch size changes
	// no number.
	Sequence uint32

	Step uint32
}

// At returns the stream of another step.
func (s Stream) At(step int) Stream {
	s.Step = uint32(step)
	return s
}

// Bits returns 128 random bits for a position and use.
func (s Stream) Bits(position int, use Use) [4]uint32 {
	return Block([4]uint32{uint32(position), s.Step, s.Sequence, uint32(use)},
		[2]uint32{uint32(s.Seed), uint32(s.Seed >> 32)})
}

// Words returns 128 random bits of one of 2^24 blocks for a position and use; block 0 is Bits.
func (s Stream) Words(position int, use Use, block int) [4]uint32 {
	return s.Bits(position, use|Use(block)<<8)
}

// Uniform returns a number in (0, 1), never 0 or 1: 52 random bits and a half.
func (s Stream) Uniform(position int, use Use) float64 {
	b := s.Bits(position, use)
	return (float64((uint64(b[0])<<32|uint64(b[1]))>>12) + 0.5) / (1 << 52)
}
