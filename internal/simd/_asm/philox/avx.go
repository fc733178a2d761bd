// Package philox describes the assembly of package internal/philox.
package philox

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// AMD64 writes it for AVX2 and AVX-512.
func AMD64() {
	width{"AVX2", 4, 2, lanes("order4", 0, 2, 1, 3)}.fill()
	width{"AVX512", 8, 4, lanes("order8", 0, 4, 1, 5, 2, 6, 3, 7)}.fill()
}

const signature = "(words, s *uint32, counter uint32, n int)"

// doc describes a function that makes a multiple of n blocks.
func doc(n int) string {
	return fmt.Sprintf("is\n\n\tfor i := range n { words[4*i:4*i+4] = the block of s with counter + i<<8 "+
		"}\n\nn is a multiple of %d.", n)
}

// width is one instruction set's vector registers. A block is a lane of 64 bits, its four words in
// four registers. Their upper halves are left as they come, since multiplications read the lower
// ones alone. Groups of blocks are computed side by side, which hides latency.
type width struct {
	suffix        string
	lanes, groups int
	order         Mem // the block of each lane
}

// lanes are counters' distances, which have 8 bits for the use below them.
func lanes(name string, order ...uint64) Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i, block := range order {
		DATA(8*i, U64(block<<8))
	}
	return m
}

// block is the words of a group, and fill the loop over all.
type block [4]reg.VecVirtual

func (w width) fill() {
	blocks := w.lanes * w.groups
	TEXT("fill"+w.suffix, NOSPLIT, "func"+signature)
	Doc(strings.Split("fill"+w.suffix+" "+doc(blocks), "\n")...)
	Pragma("noescape")
	words := Load(Param("words"), GP64())
	s := Load(Param("s"), GP64())
	at := w.everywhere(Load(Param("counter"), GP32()))
	n := Load(Param("n"), GP64())
	VPADDD(w.order, at, at)
	m0 := w.constant(0xD2511F53)
	m1 := w.constant(0xCD9E8D57)
	next := w.constant(uint32(w.lanes) << 8)
	TESTQ(n, n)
	JZ(LabelRef("done"))
	Label("turn")
	g := make([]block, w.groups)
	field := func(i int) reg.VecVirtual { return w.splat(Mem{Base: s, Disp: 4 * i}) }
	x2 := field(0)
	y0 := field(1)
	for i := range g {
		p1 := w.times(w.xor(x2, at), m1)
		VPADDD(next, at, at)
		g[i][1] = p1
		g[i][3] = w.times(w.xor(w.high(p1), y0), m0)
	}
	z0 := field(2)
	z2 := field(4)
	for i := range g {
		g[i][0], g[i][2] = w.xor(z0, g[i][1]), w.xor(w.high(g[i][3]), z2)
	}
	z1 := field(3)
	for i := range g {
		g[i][1] = z1
	}
	for round := range 7 {
		k0 := field(5 + 2*round)
		k1 := field(6 + 2*round)
		for i, c := range g {
			p0 := w.times(c[0], m0)
			p1 := w.times(c[2], m1)
			g[i] = block{w.xor3(c[1], k0, w.high(p1)), p1, w.xor3(c[3], k1, w.high(p0)), p0}
		}
	}
	for i, c := range g {
		a := w.shuffle(0x88, c[0], c[1])
		b := w.shuffle(0x88, c[2], c[3])
		w.store(w.shuffle(0x88, a, b), Mem{Base: words, Disp: 16 * w.lanes * i})
		w.store(w.shuffle(0xdd, a, b), Mem{Base: words, Disp: 16*w.lanes*i + 8*w.lanes})
	}
	ADDQ(U32(16*blocks), words)
	SUBQ(U32(blocks), n)
	JNZ(LabelRef("turn"))
	Label("done")
	avx.Return()
}

func (w width) reg() reg.VecVirtual { return avx.Register(8 * w.lanes) }

// constant is a number in all words.
func (w width) constant(m uint32) reg.VecVirtual {
	x := GP32()
	MOVL(U32(m), x)
	return w.everywhere(x)
}

func (w width) everywhere(x reg.Register) reg.VecVirtual {
	low := XMM()
	r := w.reg()
	VMOVD(x, low)
	VPBROADCASTD(low, r)
	return r
}

// splat reads a word for all lanes, and one more.
func (w width) splat(m Mem) reg.VecVirtual { r := w.reg(); VPBROADCASTQ(m, r); return r }

func (w width) times(a, b reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	VPMULUDQ(a, b, r)
	return r
}

func (w width) high(p reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	VPSRLQ(U8(32), p, r)
	return r
}

func (w width) xor(a, b reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	if w.lanes == 8 {
		VPXORQ(a, b, r)
	} else {
		VPXOR(a, b, r)
	}
	return r
}

// xor3 is a^b^c, in c's place where one instruction does it.
func (w width) xor3(a, b, c reg.VecVirtual) reg.VecVirtual {
	if w.lanes == 8 {
		VPTERNLOGQ(U8(0x96), a, b, c)
		return c
	}
	return w.xor(w.xor(a, b), c)
}

// shuffle takes the low or, with 0xdd, the high words of each pair in a and then in b, in 128 bits.
func (w width) shuffle(which uint64, a, b reg.VecVirtual) reg.VecVirtual {
	r := w.reg()
	VSHUFPS(U8(which), b, a, r)
	return r
}

func (w width) store(r reg.VecVirtual, m Mem) {
	if w.lanes == 8 {
		VMOVDQU32(r, m)
	} else {
		VMOVDQU(r, m)
	}
}
