package neon

import (
	"fmt"
	"strings"
)

// encode adds an instruction that Go's assembler lacks, as a word: its bits without registers, and
// what it is, for a comment (Arm Architecture Reference Manual, DDI 0487, C7). d is written, the
// others are read.
func (f *Func) encode(bits uint32, text string, d V, others ...V) V {
	f.vector(1, append([]V{d}, others...), "%s", text)
	comment := f.lines[len(f.lines)-1].text
	f.lines[len(f.lines)-1].text = func(n []int) string {
		w := bits
		for i, shift := range []int{0, 5, 16}[:len(n)] {
			w |= uint32(n[i] << shift)
		}
		return fmt.Sprintf("WORD $%#08x // %s", w, comment(n))
	}
	return d
}

// word is encode for a name and the arrangement of all registers, or that of the destination and
// that of the sources, such as "4s" or "8h 8b".
func (f *Func) word(bits uint32, name, arrangement string, d V, others ...V) V {
	to, from, different := strings.Cut(arrangement, " ")
	if !different {
		from = to
	}
	text := name + " v{0}." + to
	for i := range others {
		text += fmt.Sprintf(", v{%d}.%s", i+1, from)
	}
	return f.encode(bits, text, d, others...)
}

// long is word for instructions whose destination's numbers are twice as long as those of the
// sources' first half or, with high, of their second half.
func (f *Func) long(high bool, bits uint32, name, to, low, all string, d V, others ...V) V {
	if high {
		return f.word(bits|1<<30, name+"2", to+" "+all, d, others...)
	}
	return f.word(bits, name, to+" "+low, d, others...)
}

// native adds an instruction that Go's assembler has: its sources, then the destination.
func (f *Func) native(name, arrangement string, d V, sources ...V) V {
	for i := len(sources); i > 0; i-- {
		name += fmt.Sprintf(" V{%d}.%s,", i, arrangement)
	}
	f.vector(1, append([]V{d}, sources...), "%s V{0}.%s", name, arrangement)
	return d
}

// The methods below return a new register unless they name the one they change.

func (f *Func) FAdd(a, b V) V { return f.word(0x4e20d400, "fadd", "4s", f.V(), a, b) }
func (f *Func) FSub(a, b V) V { return f.word(0x4ea0d400, "fsub", "4s", f.V(), a, b) }
func (f *Func) FMul(a, b V) V { return f.ProductTo(f.V(), a, b) }
func (f *Func) FDiv(a, b V) V { return f.word(0x6e20fc00, "fdiv", "4s", f.V(), a, b) }

// FMax and FMin are NaN where a or b is.
func (f *Func) FMax(a, b V) V { return f.word(0x4e20f400, "fmax", "4s", f.V(), a, b) }
func (f *Func) FMin(a, b V) V { return f.word(0x4ea0f400, "fmin", "4s", f.V(), a, b) }

func (f *Func) FAbs(a V) V { return f.word(0x4ea0f800, "fabs", "4s", f.V(), a) }
func (f *Func) FNeg(a V) V { return f.word(0x6ea0f800, "fneg", "4s", f.V(), a) }

// Greater has ones where a > b, Equal where a == b, FNegative where a < 0, and Negative where the
// sign is set.
func (f *Func) Greater(a, b V) V { return f.word(0x6ea0e400, "fcmgt", "4s", f.V(), a, b) }
func (f *Func) Equal(a, b V) V   { return f.word(0x4e20e400, "fcmeq", "4s", f.V(), a, b) }
func (f *Func) FNegative(a V) V {
	return f.encode(0x4ea0e800, "fcmlt v{0}.4s, v{1}.4s, #0.0", f.V(), a)
}
func (f *Func) Negative(a V) V {
	return f.encode(0x4ea0a800, "cmlt v{0}.4s, v{1}.4s, #0", f.V(), a)
}

// Select is a where mask has ones, else b. It overwrites mask.
func (f *Func) Select(mask, a, b V) V { return f.native("VBSL", "B16", mask, a, b) }

// AddTo is sum += a, MulTo is product *= a.
func (f *Func) AddTo(sum, a V)     { f.word(0x4e20d400, "fadd", "4s", sum, sum, a) }
func (f *Func) MulTo(product, a V) { f.ProductTo(product, product, a) }

// MaxTo is top = top > a ? top : a, what amd64 has. MaxNaNTo is NaN where one of both is.
func (f *Func) MaxNaNTo(top, a V) { f.word(0x4e20f400, "fmax", "4s", top, top, a) }
func (f *Func) MaxTo(top, a V)    { f.Insert(top, a, f.Greater(top, a)) }

// Insert puts a into d where mask has zeros.
func (f *Func) Insert(d, a, mask V) { f.native("VBIF", "B16", d, a, mask) }

// FMLA is sum += a*b and FMLS sum -= a*b, both rounded once.
func (f *Func) FMLA(sum, a, b V) V { return f.native("VFMLA", "S4", sum, a, b) }
func (f *Func) FMLS(sum, a, b V) V { return f.native("VFMLS", "S4", sum, a, b) }

// FMLAElement is sum += a*b[i], SDotElement sum += the products of four bytes of a each with those
// of b's word i.
func (f *Func) FMLAElement(sum, a, b V, i int) {
	f.encode(0x4f801000|element(i), fmt.Sprintf("fmla v{0}.4s, v{1}.4s, v{2}.s[%d]", i), sum, a, b)
}
func (f *Func) SDotElement(sum, a, b V, i int) {
	f.encode(0x4f80e000|element(i), fmt.Sprintf("sdot v{0}.4s, v{1}.16b, v{2}.4b[%d]", i), sum, a, b)
}
func element(i int) uint32 { return uint32(i&1<<21 | i>>1<<11) }

// UMull has the products of the first two words, or with high of the last, in 64 bits.
func (f *Func) UMull(high bool, a, b V) V {
	return f.long(high, 0x2ea0c000, "umull", "2d", "2s", "4s", f.V(), a, b)
}

// SMull has the products of the first eight bytes, or with high of the last, in int16; SMlal adds
// them. SAdalp adds pairs of int16 to int32.
func (f *Func) SMull(high bool, a, b V) V {
	return f.long(high, 0x0e20c000, "smull", "8h", "8b", "16b", f.V(), a, b)
}
func (f *Func) SMlal(high bool, sum, a, b V) {
	f.long(high, 0x0e208000, "smlal", "8h", "8b", "16b", sum, a, b)
}
func (f *Func) SAdalp(sum, a V) { f.word(0x4e606800, "sadalp", "4s 8h", sum, a) }

// Round is the nearest int32, ties to even; NaN gives 0. Float turns int32 into float32.
func (f *Func) Round(a V) V { return f.word(0x4e21a800, "fcvtns", "4s", f.V(), a) }
func (f *Func) Float(a V) V { return f.word(0x4e21d800, "scvtf", "4s", f.V(), a) }

// FloatTo turns the int32 of v into float32, and ProductTo is d = a*b.
func (f *Func) FloatTo(v V)           { f.word(0x4e21d800, "scvtf", "4s", v, v) }
func (f *Func) ProductTo(d, a, b V) V { return f.word(0x6e20dc00, "fmul", "4s", d, a, b) }

// Widen has the first eight bytes of a as int32, with their signs.
func (f *Func) Widen(a V) (low, high V) {
	h := f.word(0x0f08a400, "sxtl", "8h 8b", f.V(), a)
	return f.long(false, 0x0f10a400, "sxtl", "4s", "4h", "8h", f.V(), h),
		f.long(true, 0x0f10a400, "sxtl", "4s", "4h", "8h", f.V(), h)
}

// Narrow has the low halves of a's words and then of b's, NarrowBytes the low bytes of their
// halves.
func (f *Func) Narrow(a, b V) V {
	return f.word(0x4e612800, "xtn2", "8h 4s", f.word(0x0e612800, "xtn", "4h 4s", f.V(), a), b)
}
func (f *Func) NarrowBytes(a, b V) V {
	return f.word(0x4e212800, "xtn2", "16b 8h", f.word(0x0e212800, "xtn", "8b 8h", f.V(), a), b)
}

func (f *Func) And(a, b V) V      { return f.native("VAND", "B16", f.V(), a, b) }
func (f *Func) Or(a, b V) V       { return f.native("VORR", "B16", f.V(), a, b) }
func (f *Func) AndNot(a, b V) V   { return f.word(0x4e601c00, "bic", "16b", f.V(), a, b) }
func (f *Func) IAdd(a, b V) V     { return f.native("VADD", "S4", f.V(), a, b) }
func (f *Func) IAddTo(sum, a V)   { f.native("VADD", "S4", sum, sum, a) }
func (f *Func) ISub(a, b V) V     { return f.native("VSUB", "S4", f.V(), a, b) }
func (f *Func) UMaxTo(top, a V)   { f.native("VUMAX", "S4", top, top, a) }
func (f *Func) PairSums(a, b V) V { return f.native("VADDP", "S4", f.V(), a, b) }

// Copy is a in a register that may change: its own where it is not used any more.
func (f *Func) Copy(a V) V {
	d := f.native("VMOV", "B16", f.V(), a)
	f.lines[len(f.lines)-1].copy = true
	return d
}

// Zip1 and Zip2 take turns in the first and in the second half of a and b, by words or pairs.
func (f *Func) Zip1(a, b V) V      { return f.native("VZIP1", "S4", f.V(), a, b) }
func (f *Func) Zip2(a, b V) V      { return f.native("VZIP2", "S4", f.V(), a, b) }
func (f *Func) ZipPairs1(a, b V) V { return f.native("VZIP1", "D2", f.V(), a, b) }
func (f *Func) ZipPairs2(a, b V) V { return f.native("VZIP2", "D2", f.V(), a, b) }

// Zero is d = 0.
func (f *Func) Zero(d V) { f.vector(1, []V{d}, "VMOVI $0, V{0}.B16") }

// Left and Right shift unsigned words, SRight signed ones.
func (f *Func) Left(a V, by int) V  { return f.shift("VSHL", f.V(), a, by) }
func (f *Func) Right(a V, by int) V { return f.shift("VUSHR", f.V(), a, by) }
func (f *Func) SRight(a V, by int) V {
	return f.encode(0x4f000400|uint32((64-by)<<16), fmt.Sprintf("sshr v{0}.4s, v{1}.4s, #%d", by),
		f.V(), a)
}

// LeftTo is d = a<<by.
func (f *Func) LeftTo(d, a V, by int) { f.shift("VSHL", d, a, by) }

// AndTo is d = a & b.
func (f *Func) AndTo(d, a, b V) { f.native("VAND", "B16", d, a, b) }

func (f *Func) shift(name string, d, a V, by int) V {
	f.vector(1, []V{d, a}, "%s $%d, V{1}.S4, V{0}.S4", name, by)
	return d
}

// Broadcast has word i of a in each lane.
func (f *Func) Broadcast(a V, i int) V {
	d := f.V()
	f.BroadcastTo(d, a, i)
	return d
}

// BroadcastTo puts word i of a into each lane of d.
func (f *Func) BroadcastTo(d, a V, i int) {
	f.vector(1, []V{d, a}, "VDUP V{1}.S[%d], V{0}.S4", i)
}

// SpreadTo puts the float32 at m into each lane of d.
func (f *Func) SpreadTo(d V, m Mem) {
	f.LoadScalarTo(m, d)
	f.BroadcastTo(d, d, 0)
}

// Unzip1 and Unzip2 put the even and the odd words of a and then b into d, and Xor a^b.
func (f *Func) Unzip1(d, a, b V) V { return f.native("VUZP1", "S4", d, a, b) }
func (f *Func) Unzip2(d, a, b V) V { return f.native("VUZP2", "S4", d, a, b) }
func (f *Func) Xor(d, a, b V) V    { return f.native("VEOR", "B16", d, a, b) }

// PairByteSums adds neighbouring bytes, into the first half and again into the second.
func (f *Func) PairByteSums(a V) V { return f.native("VADDP", "B16", f.V(), a, a) }

// SetLane puts r into word i of d.
func (f *Func) SetLane(d V, i int, r R) { f.vector(1, []V{d}, "VMOV %v, V{0}.S[%d]", r, i) }

// Low is r = the first half of a.
func (f *Func) Low(a V, r R) { f.vector(0, []V{a}, "VMOV V{0}.D[0], %v", r) }

// HighHalf has the upper half of a in its lower one.
func (f *Func) HighHalf(a V) V {
	d := f.V()
	f.vector(1, []V{d, a}, "VEXT $8, V{1}.B16, V{1}.B16, V{0}.B16")
	return d
}

// Turn transposes four rows of four.
func (f *Func) Turn(r [4]V) [4]V {
	a := f.Zip1(r[0], r[1])
	b := f.Zip2(r[0], r[1])
	c := f.Zip1(r[2], r[3])
	d := f.Zip2(r[2], r[3])
	return [4]V{f.ZipPairs1(a, c), f.ZipPairs2(a, c), f.ZipPairs1(b, d), f.ZipPairs2(b, d)}
}
