package philox

import "unmask/internal/simd"

// Blocks computes many of Stream.Words at one position and use, with the vector instructions of
// simd.Default; the bits do not depend on the level.
type Blocks struct {
	use    uint32
	shared shared
	isa    simd.ISA
}

// shared has intermediate results that all blocks need. Blocks differ only in the counter's last
// word, so 4 of the 20 multiplications of a block are done once for all. The assembly relies on the
// order of the fields.
type shared struct {
	x2 uint32 // round 1: word 2 without the counter
	y0 uint32 // round 2: word 0 without a product

	// z0, z1 and z2 are of round 3: words 0 and 2 without a product, and word 1.
	z0, z1, z2 uint32

	keys [7][2]uint32
	_    uint32 // read together with the last key
}

// Blocks prepares the blocks of a position and use.
func (s Stream) Blocks(position int, use Use) Blocks {
	b := Blocks{use: uint32(use), isa: simd.Default().ISA}
	c := &b.shared
	k0 := uint32(s.Seed)
	k1 := uint32(s.Seed >> 32)

	// round 1: x are its results
	p0 := uint64(m0) * uint64(uint32(position))
	p1 := uint64(m1) * uint64(s.Sequence)
	x0 := uint32(p1>>32) ^ s.Step ^ k0
	x1 := uint32(p1)
	c.x2 = uint32(p0>>32) ^ k1
	x3 := uint32(p0)
	k0 += w0
	k1 += w1

	// round 2: y are its results
	p0 = m0 * uint64(x0)
	c.y0 = x1 ^ k0
	y2 := uint32(p0>>32) ^ x3 ^ k1
	y3 := uint32(p0)
	k0 += w0
	k1 += w1

	// round 3: z are its results
	p1 = m1 * uint64(y2)
	c.z0 = uint32(p1>>32) ^ k0
	c.z1 = uint32(p1)
	c.z2 = y3 ^ k1

	for i := range c.keys {
		k0 += w0
		k1 += w1
		c.keys[i] = [2]uint32{k0, k1}
	}
	return b
}

// Fill sets words[i] to Stream.Words of block first+i.
func (b *Blocks) Fill(words [][4]uint32, first int) {
	b.fill(words, uint32(first)<<8|b.use)
}

// fill is Fill in plain Go. A round's four words change together, so they are assigned together:
// the compiler keeps them in registers.
func (s *shared) fill(words [][4]uint32, counter uint32) {
	keys := &s.keys
	for i := range words {
		p1 := m1 * uint64(s.x2^counter)
		p0 := m0 * uint64(uint32(p1>>32)^s.y0)
		c0 := s.z0 ^ uint32(p1)
		c1 := s.z1
		c2 := uint32(p0>>32) ^ s.z2
		c3 := uint32(p0)
		for _, k := range keys {
			p0 = m0 * uint64(c0)
			p1 = m1 * uint64(c2)
			c0, c1, c2, c3 = uint32(p1>>32)^c1^k[0], uint32(p1), uint32(p0>>32)^c3^k[1], uint32(p0)
		}
		words[i] = [4]uint32{c0, c1, c2, c3}
		counter += 1 << 8
	}
}
