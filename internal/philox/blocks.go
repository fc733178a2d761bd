package philox

// Blocks makes many of Stream.Words at one position and use. Only the counter's last word
// differs between them, so of the 20 multiplications of a block 4 are done once for all.
type Blocks struct {
	use        uint32
	x2         uint32 // round 1: all of word 2 but the counter
	y0, y2, y3 uint32 // round 2: word 0 but a product, words 2 and 3
	z0, z1, z2 uint32 // round 3: words 0 and 2 but a product, word 1
	keys       [7][2]uint32
}

// Blocks prepares the blocks of a position and use.
func (s Stream) Blocks(position int, use Use) Blocks {
	k0, k1 := uint32(s.Seed), uint32(s.Seed>>32)
	b := Blocks{use: uint32(use)}
	p0, p1 := uint64(m0)*uint64(uint32(position)), uint64(m1)*uint64(s.Sequence)
	x0, x1, x3 := uint32(p1>>32)^s.Step^k0, uint32(p1), uint32(p0)
	b.x2 = uint32(p0>>32) ^ k1
	k0, k1 = k0+w0, k1+w1
	p0 = m0 * uint64(x0)
	b.y0, b.y2, b.y3 = x1^k0, uint32(p0>>32)^x3^k1, uint32(p0)
	k0, k1 = k0+w0, k1+w1
	p1 = m1 * uint64(b.y2)
	b.z0, b.z1, b.z2 = uint32(p1>>32)^k0, uint32(p1), b.y3^k1
	for i := range b.keys {
		k0, k1 = k0+w0, k1+w1
		b.keys[i] = [2]uint32{k0, k1}
	}
	return b
}

// Fill sets words[i] to Stream.Words of block blocks[i]; there are as many of both.
func (b *Blocks) Fill(words [][4]uint32, blocks []uint32) {
	keys := &b.keys
	words = words[:len(blocks)]
	for i, block := range blocks {
		p1 := m1 * uint64(b.x2^(b.use|block<<8))
		p0 := m0 * uint64(uint32(p1>>32)^b.y0)
		c0, c1, c2, c3 := b.z0^uint32(p1), b.z1, uint32(p0>>32)^b.z2, uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[0][0], uint32(p1), uint32(p0>>32)^c3^keys[0][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[1][0], uint32(p1), uint32(p0>>32)^c3^keys[1][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[2][0], uint32(p1), uint32(p0>>32)^c3^keys[2][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[3][0], uint32(p1), uint32(p0>>32)^c3^keys[3][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[4][0], uint32(p1), uint32(p0>>32)^c3^keys[4][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^keys[5][0], uint32(p1), uint32(p0>>32)^c3^keys[5][1], uint32(p0)
		p0, p1 = m0*uint64(c0), m1*uint64(c2)
		w := &words[i]
		w[0], w[1] = uint32(p1>>32)^c1^keys[6][0], uint32(p1)
		w[2], w[3] = uint32(p0>>32)^c3^keys[6][1], uint32(p0)
	}
}
