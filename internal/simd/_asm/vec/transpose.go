package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose generates a transposition of 8x8 blocks, for all widths.
func transpose() {
	w := widths[0]
	w.text("transpose", "(dst, src, scale *float32, dstStride, srcStride, dstStep, srcStep, blocks "+
		"int)",
		"for range blocks {\n\tfor i := range 8 { for j := range 8 { dst[j][i] = src[i][j]*scale[j] } "+
			"}\n\tdst, src = dst+dstStep, src+srcStep\n}\n\n"+
			"Rows are strides apart; strides and steps are in bytes.")
	dst, src := pointer("dst"), pointer("src")
	dstStride, srcStride := pointer("dstStride"), pointer("srcStride")
	scale := w.load(Mem{Base: pointer("scale")})
	blocks := pointer("blocks")
	from, to := strided(src, srcStride, 8), strided(dst, dstStride, 8)
	dstStep, srcStep := pointer("dstStep"), pointer("srcStep")
	loop(blocks, 0, 0, nil, func() {
		// pairs, then quads of rows, then halves
		var r, t [8]reg.VecVirtual
		for i := range r {
			r[i] = w.mul(scale, from[i])
		}
		for i := 0; i < 8; i += 2 {
			t[i], t[i+1] = w.reg(), w.reg()
			VUNPCKLPS(r[i+1], r[i], t[i])
			VUNPCKHPS(r[i+1], r[i], t[i+1])
		}
		for i := 0; i < 8; i += 4 {
			for j := range 2 {
				r[i+2*j], r[i+2*j+1] = w.reg(), w.reg()
				VUNPCKLPD(t[i+j+2], t[i+j], r[i+2*j])
				VUNPCKHPD(t[i+j+2], t[i+j], r[i+2*j+1])
			}
		}
		for j := range 4 {
			low, high := w.reg(), w.reg()
			VPERM2F128(U8(0x20), r[j+4], r[j], low)
			VPERM2F128(U8(0x31), r[j+4], r[j], high)
			VMOVUPS(low, to[j])
			VMOVUPS(high, to[j+4])
		}
		ADDQ(dstStep, dst)
		ADDQ(srcStep, src)
	})
	ret()
}
