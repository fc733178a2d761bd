// Package ceiling describes the loops of package bench/internal/ceiling: nothing but the
// instruction that a kernel lives on, with as many independent sums as hide its latency.
package ceiling

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"unmask/internal/simd/_asm/avx"
)

// AMD64 writes the loops for AVX2 and AVX-512.
func AMD64() {
	fma := func(acc, x, y reg.VecPhysical) { VFMADD231PS(x, y, acc) }
	writeLoop("fmaYMM", "12 VFMADD231PS on 8 float32 each", avx.Y[:12], avx.Y[12:14], fma)
	writeLoop("fmaZMM", "24 VFMADD231PS on 16 float32 each", avx.Z[:24], avx.Z[24:26], fma)
	writeLoop("dotBF16", "24 VDPBF16PS on 32 bfloat16 each", avx.Z[:24], avx.Z[24:26],
		func(acc, x, y reg.VecPhysical) { avx.DotBF16(acc, y, x) })
	writeLoop("dotInt8", "24 VPDPBUSD on 64 bytes each", avx.Z[:24], avx.Z[24:26],
		func(acc, x, y reg.VecPhysical) { VPDPBUSD(x, y, acc) })
	writeLoop("dotShort", "12 VPDPBUSD of AVX-VNNI on 32 bytes each", avx.Y[:12], avx.Y[12:14],
		func(acc, x, y reg.VecPhysical) { avx.DotVEX(acc, y, x) })
	writeLoop("maddInt16", "6 VPMADDWD on 16 int16 each and the VPADDD that keep the sums of the round "+
		"before", avx.Y[:6], avx.Y[12:14], func(acc, x, y reg.VecPhysical) {
		before := avx.Y[6+acc.PhysicalIndex()]
		VPADDD(before, acc, acc)
		VPMADDWD(x, y, before)
	})
	writeReadMemory()
}

// writeLoop writes a function that repeats a step for each accumulator. The factors are 0.5 in
// float32 and in bfloat16, so that sums stay finite and no step meets a slow number.
func writeLoop(name, doc string, accs, factors []reg.VecPhysical,
	step func(acc, x, y reg.VecPhysical)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Pragma("noescape")
	Doc(name + " does n times: " + doc + ".")
	n := Load(Param("n"), reg.RCX)
	MOVL(U32(0x3f003f00), reg.EAX)
	for _, x := range factors {
		VMOVD(reg.EAX, x.AsX())
		VPBROADCASTD(x.AsX(), x)
	}
	for _, x := range accs {
		avx.Zero(x)
	}
	Label("loop")
	for _, acc := range accs {
		step(acc, factors[0], factors[1])
	}
	avx.Again(n, "loop")
	avx.Return()
}

// writeReadMemory writes a pass over memory. Its loads have 256 bits: wider ones are no faster
// here, because memory is the limit.
func writeReadMemory() {
	TEXT("readYMM", NOSPLIT, "func(x *float32, n int)")
	Pragma("noescape")
	Doc("readYMM loads n times 256 bytes, one after the other, from x on.")
	x := Load(Param("x"), reg.RSI)
	n := Load(Param("n"), reg.RCX)
	Label("loop")
	for i := range 8 {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, avx.Y[i])
		if i%2 == 0 {
			PREFETCHT0(Mem{Base: x, Disp: 32*i + 3072})
		}
	}
	ADDQ(U32(256), x)
	avx.Again(n, "loop")
	avx.Return()
}
