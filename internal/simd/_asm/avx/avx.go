// Package avx has the vector registers, and instructions that the assembler lacks, as bytes.
package avx

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Z are the vector registers of 64 bytes by number.
var Z = [...]reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
	reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20,
	reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

// Y are the vector registers of 32 bytes by number.
var Y = [...]reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10,
	reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}

// Register returns a new register of 32 or 64 bytes.
func Register(bytes int) reg.VecVirtual {
	if bytes == 64 {
		return build.ZMM()
	}
	return build.YMM()
}

// Splat broadcasts a float32 parameter.
func Splat(param string, bytes int) reg.VecVirtual {
	m, err := build.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	r := Register(bytes)
	build.VBROADCASTSS(m.Addr, r)
	return r
}

// Pointer loads a parameter into a new register.
func Pointer(name string) reg.Register { return build.Load(build.Param(name), build.GP64()) }

// DotBF16 is VDPBF16PS zmm_m, zmm_v, zmm_d: EVEX.512.F3.0F38.W0 52 /r.
func DotBF16(d, v, m reg.VecPhysical) { emitEVEX(d, v, m, 2, 0x52) }

// RoundBF16 is VCVTNEPS2BF16 zmm_m, ymm_d: EVEX.512.F3.0F38.W0 72 /r.
func RoundBF16(d, m reg.VecPhysical) { emitEVEX(d, reg.Z0, m, 2, 0x72) }

// RoundBothBF16 is VCVTNE2PS2BF16 zmm_m, zmm_v, zmm_d, zmm_v's in the upper half:
// EVEX.512.F2.0F38.W0 72 /r.
func RoundBothBF16(d, v, m reg.VecPhysical) { emitEVEX(d, v, m, 3, 0x72) }

// DotVEX is VPDPBUSD ymm_m, ymm_v, ymm_d of AVX-VNNI, for which the assembler has the encoding of
// AVX-512 alone: VEX.256.66.0F38.W0 50 /r. ymm_v's bytes are unsigned.
func DotVEX(d, v, m reg.VecPhysical) {
	p0 := 2 | invertedBit(d, 8)<<7 | 1<<6 | invertedBit(m, 8)<<5
	p1 := 1<<2 | 1 | (^uint32(v.PhysicalIndex())&15)<<3
	emitBytes("LONG", operand.U32(0xc4|p0<<8|p1<<16|0x50<<24), d, v, m)
	emitBytes("BYTE", operand.U8(modrm(d, m)))
}

// emitEVEX writes a 512-bit instruction of registers alone, of the map 0F38 with W0 and prefix pp.
func emitEVEX(d, v, m reg.VecPhysical, pp, opcode uint32) {
	p0 := 2 | invertedBit(d, 8)<<7 | invertedBit(m, 16)<<6 | invertedBit(m, 8)<<5 |
		invertedBit(d, 16)<<4
	p1 := 4 | pp | (^uint32(v.PhysicalIndex())&15)<<3
	p2 := 0x40 | invertedBit(v, 16)<<3
	emitBytes("LONG", operand.U32(0x62|p0<<8|p1<<16|p2<<24), d, v, m)
	emitBytes("WORD", operand.U16(opcode|modrm(d, m)<<8))
}

// modrm returns the ModRM byte of two registers: the last three bits of both numbers.
func modrm(d, m reg.VecPhysical) uint32 {
	return 0xC0 | uint32(d.PhysicalIndex()&7<<3|m.PhysicalIndex()&7)
}

// invertedBit returns 1 if a register's number does not have a bit, and 0 if it has: prefixes hold
// the upper bits of numbers inverted.
func invertedBit(r reg.VecPhysical, bit reg.Index) uint32 {
	if r.PhysicalIndex()&bit == 0 {
		return 1
	}
	return 0
}

// emitBytes writes an instruction as bytes. avo does not know what these do, so it learns here that
// the first of the registers is written and all are read.
func emitBytes(directive string, op operand.Op, registers ...operand.Op) {
	i := &ir.Instruction{Opcode: directive, Operands: []operand.Op{op}, Inputs: registers}
	if len(registers) > 0 {
		i.Outputs = registers[:1]
	}
	build.Instruction(i)
}

// Zero is r = 0.
func Zero(r reg.VecPhysical) {
	if r.Size() == 64 {
		build.VPXORD(r, r, r)
	} else {
		build.VXORPS(r, r, r)
	}
}

// Constant fills r with a word.
func Constant(r reg.VecPhysical, word uint32) {
	build.MOVL(operand.U32(word), reg.EAX)
	build.VMOVD(reg.EAX, r.AsX())
	build.VPBROADCASTD(r.AsX(), r)
}

// Again decrements n and jumps to the label unless n is now 0.
func Again(n operand.Op, label string) {
	build.DECQ(n)
	build.JNZ(operand.LabelRef(label))
}

// Return ends a function.
func Return() {
	build.VZEROUPPER()
	build.RET()
}
