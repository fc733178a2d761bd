package neon

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Func is a function while it is written.
type Func struct {
	file *File
	head string

	// offsets are those of parameters and results in the frame.
	offsets map[string]int

	results []string
	lines   []line

	// vectors and general count the registers handed out by V and R.
	vectors int
	general int

	// pool points to the constants, once pooled is set by Constants.
	pool   R
	pooled bool
}

// V is a vector register: a machine register below 32, else one to be chosen.
type V int

// R is a general register.
type R int

func (r R) String() string { return fmt.Sprintf("R%d", int(r)) }

// Asm implements avo's operands, so that a kernel written with them is for both architectures.
func (v V) Asm() string   { return fmt.Sprintf("V%d", int(v)) }
func (r R) Asm() string   { return r.String() }
func (m Mem) Asm() string { return m.String() }

// Mem is a place in memory. With Post the base moves on by Off afterwards, and the place is where
// it was.
type Mem struct {
	Base R
	Off  int
	Post bool
}

func (m Mem) String() string {
	if m.Off == 0 {
		return fmt.Sprintf("(%v)", m.Base)
	}
	return fmt.Sprintf("%d(%v)", m.Off, m.Base)
}

func (m Mem) suffix() string {
	if m.Post {
		return ".P"
	}
	return ""
}

// line is an instruction, or a label.
type line struct {
	// text returns the instruction with the machine registers n of v.
	text func(n []int) string
	v    []V

	// defs is how many of v, from the first on, the instruction writes.
	defs int

	// copy is set if the instruction copies the second of v to the first, so that both may get one
	// register.
	copy bool

	// label is the label that begins here, or "".
	label string

	// to is the label that the instruction branches to, or "".
	to string
}

func (f *Func) add(text func(n []int) string, defs int, v ...V) {
	f.lines = append(f.lines, line{text: text, v: v, defs: defs})
}

// vector adds an instruction that writes the first `defs` of v. "{0}" in it is the number of the
// first of them, "{1}" that of the second.
func (f *Func) vector(defs int, v []V, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.add(func(n []int) string {
		s := text
		for i, n := range n {
			s = strings.ReplaceAll(s, fmt.Sprintf("{%d}", i), strconv.Itoa(n))
		}
		return s
	}, defs, v...)
}

// do adds an instruction of no vector registers.
func (f *Func) do(format string, args ...any) { f.vector(0, nil, format, args...) }

// V returns a new vector register.
func (f *Func) V() V {
	f.vectors++
	return V(31 + f.vectors)
}

// Vs returns n new vector registers.
func (f *Func) Vs(n int) []V {
	v := make([]V, n)
	for i := range v {
		v[i] = f.V()
	}
	return v
}

// R returns a new general register. R16 to R18 and from R25 up have other uses.
func (f *Func) R() R {
	r := f.general
	f.general++
	if r > 15 {
		r += 3
	}
	if r > 24 {
		panic("neon: no general register is left")
	}
	return R(r)
}

// Param loads a pointer or an int.
func (f *Func) Param(name string) R {
	r := f.R()
	f.do("MOVD %s+%d(FP), %v", name, f.offset(name), r)
	return r
}

// Word loads a uint32.
func (f *Func) Word(name string) R {
	r := f.R()
	f.do("MOVWU %s+%d(FP), %v", name, f.offset(name), r)
	return r
}

// Bytes loads a count of float32 as the bytes that they take.
func (f *Func) Bytes(name string) R {
	r := f.Param(name)
	f.Shift(r, 2)
	return r
}

// Splat has a float32 parameter in each lane.
func (f *Func) Splat(name string) V {
	v := f.V()
	at := f.offset(name)
	f.vector(1, []V{v}, "FMOVS %s+%d(FP), F{0}", name, at)
	f.vector(1, []V{v}, "VDUP V{0}.S[0], V{0}.S4")
	return v
}

func (f *Func) offset(name string) int {
	at, ok := f.offsets[name]
	if !ok {
		panic("neon: no parameter " + name)
	}
	return at
}

// Constants makes K and Bits possible.
func (f *Func) Constants() {
	f.pool, f.pooled = f.R(), true
	f.do("MOVD $constants<>(SB), %v", f.pool)
}

// Bits has u in each lane.
func (f *Func) Bits(u uint32) V {
	v := f.V()
	f.BitsTo(u, v)
	return v
}

// BitsTo puts u into each lane of v.
func (f *Func) BitsTo(u uint32, v V) {
	if !f.pooled {
		panic("neon: Constants comes first")
	}
	f.LoadTo(Mem{Base: f.pool, Off: f.file.place(u)}, v)
}

// K has the float32 nearest to x in each lane.
func (f *Func) K(x float64) V { return f.Bits(math.Float32bits(float32(x))) }

// Return ends the function; lane 0 of each v is a result.
func (f *Func) Return(v ...V) {
	for i, name := range f.results {
		f.vector(0, []V{v[i]}, "FMOVS F{0}, %s+%d(FP)", name, f.offset(name))
	}
	f.do("RET")
	f.file.asm.WriteString(f.head + f.text())
}

// Results ends the function, whose results are lane 0 of v and then r.
func (f *Func) Results(v V, r ...R) {
	for i, r := range r {
		name := f.results[1+i]
		f.do("MOVD %v, %s+%d(FP)", r, name, f.offset(name))
	}
	f.results = f.results[:1]
	f.Return(v)
}

// Label is a place to branch to.
func (f *Func) Label(name string) { f.lines = append(f.lines, line{label: name}) }

// Branch jumps, on a condition such as "LT" of the last comparison unless that is empty.
func (f *Func) Branch(condition, to string) {
	f.do("B%s %s", condition, to)
	f.lines[len(f.lines)-1].to = to
}

// BranchUnlessEqual jumps where lanes 0 of a and b differ, or one is NaN.
func (f *Func) BranchUnlessEqual(a, b V, to string) {
	f.vector(0, []V{a, b}, "FCMPS F{0}, F{1}")
	f.Branch("NE", to)
}

// IfZero jumps where r is 0.
func (f *Func) IfZero(r R, to string) {
	f.do("CBZ %v, %s", r, to)
	f.lines[len(f.lines)-1].to = to
}

// Repeat runs body r times, which may be none, and leaves r at 0.
func (f *Func) Repeat(r R, name string, body func()) {
	f.IfZero(r, name+"End")
	f.Label(name)
	body()
	f.Again(r, 1, name)
	f.Label(name + "End")
}

// Each runs body for each count of n float32, and n is a multiple of count.
func (f *Func) Each(n R, count int, body func()) {
	shift := 0
	for 1<<shift < count {
		shift++
	}
	f.do("LSR $%d, %v, %v", shift, n, n)
	f.Repeat(n, "loop", body)
}

// Shift is r <<= n.
func (f *Func) Shift(r R, n int) { f.do("LSL $%d, %v, %v", n, r, r) }

// Move is d = r.
func (f *Func) Move(r, d R) { f.do("MOVD %v, %v", r, d) }

// Add is r += x.
func (f *Func) Add(x, r R) { f.do("ADD %v, %v, %v", x, r, r) }

// Sum is d = x + y.
func (f *Func) Sum(x, y, d R) { f.do("ADD %v, %v, %v", x, y, d) }

// Difference is d = x - y.
func (f *Func) Difference(x, y, d R) { f.do("SUB %v, %v, %v", y, x, d) }

// Multiply is r *= x.
func (f *Func) Multiply(x, r R) { f.do("MUL %v, %v, %v", x, r, r) }

// Set is r = n.
func (f *Func) Set(n int, r R) { f.do("MOVD $%d, %v", n, r) }

// AddShifted is d = y + x<<n.
func (f *Func) AddShifted(x R, n int, y, d R) { f.do("ADD %v<<%d, %v, %v", x, n, y, d) }

// Advance is r += n bytes.
func (f *Func) Advance(r R, n int) { f.do("ADD $%d, %v, %v", n, r, r) }

// Decrease is r -= n, for a comparison of r with 0.
func (f *Func) Decrease(r R, n int) { f.do("SUBS $%d, %v, %v", n, r, r) }

// Again is r -= n, and jumps to the label unless it is 0.
func (f *Func) Again(r R, n int, label string) {
	f.Decrease(r, n)
	f.Branch("NE", label)
}

// Compare compares r with n.
func (f *Func) Compare(r R, n int) { f.do("CMP $%d, %v", n, r) }

// Prefetch asks for a cache line that will be read.
func (f *Func) Prefetch(m Mem) { f.do("PRFM %v, PLDL1KEEP", m) }

// Load returns 16 bytes.
func (f *Func) Load(m Mem) V {
	v := f.V()
	f.LoadTo(m, v)
	return v
}

// LoadTo is v = m.
func (f *Func) LoadTo(m Mem, v V) { f.vector(1, []V{v}, "FMOVQ%s %v, F{0}", m.suffix(), m) }

// LoadPair is a, b = m, m+16.
func (f *Func) LoadPair(m Mem, a, b V) {
	f.vector(2, []V{a, b}, "FLDPQ%s %v, (F{0}, F{1})", m.suffix(), m)
}

// LoadAll fills v from m on.
func (f *Func) LoadAll(m Mem, v []V) {
	for ; len(v) > 1; v = v[2:] {
		f.LoadPair(m, v[0], v[1])
		m.Off += 32
	}
	if len(v) == 1 {
		f.LoadTo(m, v[0])
	}
}

// LoadScalar loads a float32 into lane 0.
func (f *Func) LoadScalar(m Mem) V {
	v := f.V()
	f.LoadScalarTo(m, v)
	return v
}

// LoadScalarTo is LoadScalar into v.
func (f *Func) LoadScalarTo(m Mem, v V) { f.vector(1, []V{v}, "FMOVS%s %v, F{0}", m.suffix(), m) }

// StoreHalf is m = the first 8 bytes of v.
func (f *Func) StoreHalf(v V, m Mem) { f.vector(0, []V{v}, "FMOVD%s F{0}, %v", m.suffix(), m) }

// LoadHalf loads 8 bytes into the first half of v.
func (f *Func) LoadHalf(m Mem, v V) { f.vector(1, []V{v}, "FMOVD%s %v, F{0}", m.suffix(), m) }

// Store is m = v.
func (f *Func) Store(v V, m Mem) { f.vector(0, []V{v}, "FMOVQ%s F{0}, %v", m.suffix(), m) }

// StoreShort is m = the first 16 bits of v.
func (f *Func) StoreShort(v V, m Mem) {
	f.vector(0, []V{v}, "VMOV V{0}.H[0], R25")
	f.do("MOVH%s R25, %v", m.suffix(), m)
}

// StorePair is m, m+16 = a, b.
func (f *Func) StorePair(a, b V, m Mem) {
	f.vector(0, []V{a, b}, "FSTPQ%s (F{0}, F{1}), %v", m.suffix(), m)
}

// StoreAll writes v from m on.
func (f *Func) StoreAll(v []V, m Mem) {
	for ; len(v) > 1; v = v[2:] {
		f.StorePair(v[0], v[1], m)
		m.Off += 32
	}
	if len(v) == 1 {
		f.Store(v[0], m)
	}
}

// text is the function's instructions, with machine registers.
func (f *Func) text() string {
	registers := f.allocate()
	var b strings.Builder
	for _, l := range f.lines {
		if l.label != "" {
			fmt.Fprintf(&b, "%s:\n", l.label)
			continue
		}
		n := make([]int, len(l.v))
		for i, v := range l.v {
			n[i] = registers[v]
		}
		if l.copy && n[0] == n[1] {
			continue
		}
		fmt.Fprintf(&b, "\t%s\n", l.text(n))
	}
	return b.String()
}
