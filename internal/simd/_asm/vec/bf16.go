package vec

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// bf16 generates attention's kernels of weights and values in bfloat16, which AVX-512 alone has.
func bf16() {
	w := widths[1]
	for _, p := range w.panels() {
		p.words = bfloat16s
		p.values()
	}

	w.text("pairBF16", "(dst, x *float32, pairs, width int)",
		"for i := range pairs { for j := range 16*width {\n\tdst[i][j].lo, dst[i][j].hi = "+
			"bfloat16(x[2*i][j]), bfloat16(x[2*i+1][j])\n} }\n\n"+
			"Rows of both are 16*width long. dst may be x.")
	dst := pointer("dst")
	x := pointer("x")
	pairs := pointer("pairs")
	width := pointer("width")
	VMOVUPS(interleave(), reg.Z3)
	stride := GP64()
	column := GP64()
	MOVQ(width, stride)
	SHLQ(U8(6), stride)
	Label("pair")
	MOVQ(width, column)
	Label("column")
	VMOVUPS(Mem{Base: x}, reg.Z0)
	VMOVUPS(Mem{Base: x, Index: stride, Scale: 1}, reg.Z1)
	avx.RoundBothBF16(reg.Z2, reg.Z1, reg.Z0)
	VPERMW(reg.Z2, reg.Z3, reg.Z2)
	VMOVUPS(reg.Z2, Mem{Base: dst})
	ADDQ(U8(64), x)
	ADDQ(U8(64), dst)
	avx.Again(column, "column")
	ADDQ(stride, x)
	avx.Again(pairs, "pair")
	avx.Return()
}

// interleave is the order of VPERMW that makes words of the two halves of a register.
func interleave() Mem {
	if order.Base == nil {
		order = GLOBL("interleave", attr.RODATA|attr.NOPTR)
		for i := range 16 {
			DATA(4*i, U32(uint32(i)|uint32(16+i)<<16))
		}
	}
	return order
}

var order Mem
