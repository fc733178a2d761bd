package neon

import "fmt"

// word adds an instruction that Go's assembler lacks. d is written, the others are read.
func (f *Func) word(encode func(n []int) (word uint32, text string), d V, others ...V) V {
	f.add(func(n []int) string {
		w, text := encode(n)
		return fmt.Sprintf("WORD $%#08x // %s", w, text)
	}, 1, append([]V{d}, others...)...)
	return d
}

// op is an instruction's name, its bits without registers, and the arrangements of its
// destination and its sources (Arm Architecture Reference Manual, DDI 0487, C7).
type op struct {
	name    string
	bits    uint32
	to, src string
}

var (
	fadd   = op{"fadd", 0x4e20d400, "4s", "4s"}
	fsub   = op{"fsub", 0x4ea0d400, "4s", "4s"}
	fmul   = op{"fmul", 0x6e20dc00, "4s", "4s"}
	fdiv   = op{"fdiv", 0x6e20fc00, "4s", "4s"}
	fmax   = op{"fmax", 0x4e20f400, "4s", "4s"}
	fmin   = op{"fmin", 0x4ea0f400, "4s", "4s"}
	fcmgt  = op{"fcmgt", 0x6ea0e400, "4s", "4s"}
	fcmeq  = op{"fcmeq", 0x4e20e400, "4s", "4s"}
	bic    = op{"bic", 0x4e601c00, "16b", "16b"}
	smull  = op{"smull", 0x0e20c000, "8h", "8b"}
	smull2 = op{"smull2", 0x4e20c000, "8h", "16b"}
	smlal  = op{"smlal", 0x0e208000, "8h", "8b"}
	smlal2 = op{"smlal2", 0x4e208000, "8h", "16b"}

	fabs   = op{"fabs", 0x4ea0f800, "4s", "4s"}
	fneg   = op{"fneg", 0x6ea0f800, "4s", "4s"}
	fcvtns = op{"fcvtns", 0x4e21a800, "4s", "4s"}
	scvtf  = op{"scvtf", 0x4e21d800, "4s", "4s"}
	xtn4h  = op{"xtn", 0x0e612800, "4h", "4s"}
	xtn8h  = op{"xtn2", 0x4e612800, "8h", "4s"}
	xtn8b  = op{"xtn", 0x0e212800, "8b", "8h"}
	xtn16b = op{"xtn2", 0x4e212800, "16b", "8h"}
	umull  = op{"umull", 0x2ea0c000, "2d", "2s"}
	umull2 = op{"umull2", 0x6ea0c000, "2d", "4s"}
	sadalp = op{"sadalp", 0x4e606800, "4s", "8h"}
	sxtl8h = op{"sxtl", 0x0f08a400, "8h", "8b"}
	sxtl4s = op{"sxtl", 0x0f10a400, "4s", "4h"}
	sxtl2  = op{"sxtl2", 0x4f10a400, "4s", "8h"}

	fcmltZero = op{"fcmlt", 0x4ea0e800, "4s", "4s"}
	cmltZero  = op{"cmlt", 0x4ea0a800, "4s", "4s"}

	fmlaElement = op{"fmla", 0x4f801000, "4s", "4s"}
	sdotElement = op{"sdot", 0x4f80e000, "4s", "16b"}
)

// three is an instruction of a destination and two sources.
func (o op) three(n []int) (uint32, string) {
	return o.bits | uint32(n[2]<<16|n[1]<<5|n[0]),
		fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s", o.name, n[0], o.to, n[1], o.src, n[2], o.src)
}

// two is one of a single source.
func (o op) two(n []int) (uint32, string) {
	return o.bits | uint32(n[1]<<5|n[0]),
		fmt.Sprintf("%s v%d.%s, v%d.%s", o.name, n[0], o.to, n[1], o.src)
}

// zero compares with 0.
func (o op) zero(n []int) (uint32, string) {
	w, text := o.two(n)
	if o.name[0] == 'f' {
		return w, text + ", #0.0"
	}
	return w, text + ", #0"
}

// element takes a word of its second source.
func (o op) element(index int, lane string) func(n []int) (uint32, string) {
	return func(n []int) (uint32, string) {
		w, _ := o.three(n)
		w |= uint32(index&1<<21 | index>>1<<11)
		return w, fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s[%d]", o.name, n[0], o.to, n[1], o.src, n[2],
			lane, index)
	}
}

func sshr(shift int) func(n []int) (uint32, string) {
	return func(n []int) (uint32, string) {
		return 0x4f000400 | uint32((64-shift)<<16|n[1]<<5|n[0]),
			fmt.Sprintf("sshr v%d.4s, v%d.4s, #%d", n[0], n[1], shift)
	}
}

// native adds an instruction that Go's assembler has: its sources, then the destination.
func (f *Func) native(name, arrangement string, d V, sources ...V) V {
	f.add(func(n []int) string {
		text := name
		for i := len(n) - 1; i > 0; i-- {
			text += fmt.Sprintf(" V%d.%s,", n[i], arrangement)
		}
		return fmt.Sprintf("%s V%d.%s", text, n[0], arrangement)
	}, 1, append([]V{d}, sources...)...)
	return d
}

// The methods below return a new register unless they name the one they change.

func (f *Func) FAdd(a, b V) V { return f.word(fadd.three, f.V(), a, b) }
func (f *Func) FSub(a, b V) V { return f.word(fsub.three, f.V(), a, b) }
func (f *Func) FMul(a, b V) V { return f.word(fmul.three, f.V(), a, b) }
func (f *Func) FDiv(a, b V) V { return f.word(fdiv.three, f.V(), a, b) }

// FMax and FMin are NaN where a or b is.
func (f *Func) FMax(a, b V) V { return f.word(fmax.three, f.V(), a, b) }
func (f *Func) FMin(a, b V) V { return f.word(fmin.three, f.V(), a, b) }

func (f *Func) FAbs(a V) V { return f.word(fabs.two, f.V(), a) }
func (f *Func) FNeg(a V) V { return f.word(fneg.two, f.V(), a) }

// Greater has ones where a > b, Equal where a == b, FNegative where a < 0, and Negative where the
// sign is set.
func (f *Func) Greater(a, b V) V { return f.word(fcmgt.three, f.V(), a, b) }
func (f *Func) Equal(a, b V) V   { return f.word(fcmeq.three, f.V(), a, b) }
func (f *Func) FNegative(a V) V  { return f.word(fcmltZero.zero, f.V(), a) }
func (f *Func) Negative(a V) V   { return f.word(cmltZero.zero, f.V(), a) }

// Select is a where mask has ones, else b. It overwrites mask.
func (f *Func) Select(mask, a, b V) V { return f.native("VBSL", "B16", mask, a, b) }

// AddTo is sum += a, MulTo is product *= a.
func (f *Func) AddTo(sum, a V)     { f.word(fadd.three, sum, sum, a) }
func (f *Func) MulTo(product, a V) { f.word(fmul.three, product, product, a) }

// MaxTo is top = top > a ? top : a, what amd64 has. MaxNaNTo is NaN where one of both is.
func (f *Func) MaxNaNTo(top, a V) { f.word(fmax.three, top, top, a) }
func (f *Func) MaxTo(top, a V)    { f.Insert(top, a, f.Greater(top, a)) }

// Insert puts a into d where mask has zeros.
func (f *Func) Insert(d, a, mask V) { f.native("VBIF", "B16", d, a, mask) }

// FMLA is sum += a*b and FMLS sum -= a*b, both rounded once.
func (f *Func) FMLA(sum, a, b V) V { return f.native("VFMLA", "S4", sum, a, b) }
func (f *Func) FMLS(sum, a, b V) V { return f.native("VFMLS", "S4", sum, a, b) }

// FMLAElement is sum += a*b[i], SDotElement sum += the products of four bytes of a each with those
// of b's word i.
func (f *Func) FMLAElement(sum, a, b V, i int) { f.word(fmlaElement.element(i, "s"), sum, a, b) }
func (f *Func) SDotElement(sum, a, b V, i int) { f.word(sdotElement.element(i, "4b"), sum, a, b) }

// UMull has the products of the first two words, or with high of the last, in 64 bits.
func (f *Func) UMull(high bool, a, b V) V {
	return f.word(pick(high, umull2, umull).three, f.V(), a, b)
}

// SMull has the products of the first eight bytes, or with high of the last, in int16; SMlal adds
// them. SAdalp adds pairs of int16 to int32.
func (f *Func) SMull(high bool, a, b V) V {
	return f.word(pick(high, smull2, smull).three, f.V(), a, b)
}
func (f *Func) SMlal(high bool, sum, a, b V) {
	f.word(pick(high, smlal2, smlal).three, sum, a, b)
}
func (f *Func) SAdalp(sum, a V) { f.word(sadalp.two, sum, a) }

func pick(high bool, a, b op) op {
	if high {
		return a
	}
	return b
}

// Round is the nearest int32, ties to even; NaN gives 0. Float turns int32 into float32.
func (f *Func) Round(a V) V { return f.word(fcvtns.two, f.V(), a) }
func (f *Func) Float(a V) V { return f.word(scvtf.two, f.V(), a) }

// FloatTo turns the int32 of v into float32, and ProductTo is d = a*b.
func (f *Func) FloatTo(v V)         { f.word(scvtf.two, v, v) }
func (f *Func) ProductTo(d, a, b V) { f.word(fmul.three, d, a, b) }

// Widen has the first eight bytes of a as int32, with their signs.
func (f *Func) Widen(a V) (low, high V) {
	h := f.word(sxtl8h.two, f.V(), a)
	return f.word(sxtl4s.two, f.V(), h), f.word(sxtl2.two, f.V(), h)
}

// Narrow has the low halves of a's words and then of b's, NarrowBytes the low bytes of their
// halves.
func (f *Func) Narrow(a, b V) V      { return f.word(xtn8h.two, f.word(xtn4h.two, f.V(), a), b) }
func (f *Func) NarrowBytes(a, b V) V { return f.word(xtn16b.two, f.word(xtn8b.two, f.V(), a), b) }

func (f *Func) And(a, b V) V      { return f.native("VAND", "B16", f.V(), a, b) }
func (f *Func) Or(a, b V) V       { return f.native("VORR", "B16", f.V(), a, b) }
func (f *Func) AndNot(a, b V) V   { return f.word(bic.three, f.V(), a, b) }
func (f *Func) Copy(a V) V        { return f.native("VMOV", "B16", f.V(), a) }
func (f *Func) IAdd(a, b V) V     { return f.native("VADD", "S4", f.V(), a, b) }
func (f *Func) IAddTo(sum, a V)   { f.native("VADD", "S4", sum, sum, a) }
func (f *Func) ISub(a, b V) V     { return f.native("VSUB", "S4", f.V(), a, b) }
func (f *Func) UMaxTo(top, a V)   { f.native("VUMAX", "S4", top, top, a) }
func (f *Func) PairSums(a, b V) V { return f.native("VADDP", "S4", f.V(), a, b) }

// Zip1 and Zip2 take turns in the first and in the second half of a and b, by words or pairs.
func (f *Func) Zip1(a, b V) V      { return f.native("VZIP1", "S4", f.V(), a, b) }
func (f *Func) Zip2(a, b V) V      { return f.native("VZIP2", "S4", f.V(), a, b) }
func (f *Func) ZipPairs1(a, b V) V { return f.native("VZIP1", "D2", f.V(), a, b) }
func (f *Func) ZipPairs2(a, b V) V { return f.native("VZIP2", "D2", f.V(), a, b) }

// Zero is d = 0.
func (f *Func) Zero(d V) {
	f.add(func(n []int) string { return fmt.Sprintf("VMOVI $0, V%d.B16", n[0]) }, 1, d)
}

// Left and Right shift unsigned words, SRight signed ones.
func (f *Func) Left(a V, by int) V  { return f.shift("VSHL", f.V(), a, by) }
func (f *Func) Right(a V, by int) V { return f.shift("VUSHR", f.V(), a, by) }
func (f *Func) SRight(a V, by int) V {
	return f.word(sshr(by), f.V(), a)
}

// LeftTo is d = a<<by.
func (f *Func) LeftTo(d, a V, by int) { f.shift("VSHL", d, a, by) }

// AndTo is d = a & b.
func (f *Func) AndTo(d, a, b V) { f.native("VAND", "B16", d, a, b) }

func (f *Func) shift(name string, d, a V, by int) V {
	f.add(func(n []int) string { return fmt.Sprintf("%s $%d, V%d.S4, V%d.S4", name, by, n[1], n[0]) },
		1, d, a)
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
	f.add(func(n []int) string { return fmt.Sprintf("VDUP V%d.S[%d], V%d.S4", n[1], i, n[0]) }, 1, d,
		a)
}

// Unzip1 and Unzip2 put the even and the odd words of a and then b into d, and Xor a^b.
func (f *Func) Unzip1(d, a, b V) V { return f.native("VUZP1", "S4", d, a, b) }
func (f *Func) Unzip2(d, a, b V) V { return f.native("VUZP2", "S4", d, a, b) }
func (f *Func) Xor(d, a, b V) V    { return f.native("VEOR", "B16", d, a, b) }

// PairByteSums adds neighbouring bytes, into the first half and again into the second.
func (f *Func) PairByteSums(a V) V { return f.native("VADDP", "B16", f.V(), a, a) }

// SetLane puts r into word i of d.
func (f *Func) SetLane(d V, i int, r R) {
	f.add(func(n []int) string { return fmt.Sprintf("VMOV %v, V%d.S[%d]", r, n[0], i) }, 1, d)
}

// Low is r = the first half of a.
func (f *Func) Low(a V, r R) {
	f.add(func(n []int) string { return fmt.Sprintf("VMOV V%d.D[0], %v", n[0], r) }, 0, a)
}

// HighHalf has the upper half of a in its lower one.
func (f *Func) HighHalf(a V) V {
	d := f.V()
	f.add(func(n []int) string {
		return fmt.Sprintf("VEXT $8, V%d.B16, V%d.B16, V%d.B16", n[1], n[1],
			n[0])
	}, 1, d, a)
	return d
}

// Turn transposes four rows of four.
func (f *Func) Turn(r [4]V) [4]V {
	a, b, c, d := f.Zip1(r[0], r[1]), f.Zip2(r[0], r[1]), f.Zip1(r[2], r[3]), f.Zip2(r[2], r[3])
	return [4]V{f.ZipPairs1(a, c), f.ZipPairs2(a, c), f.ZipPairs1(b, d), f.ZipPairs2(b, d)}
}
