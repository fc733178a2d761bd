// Command neonscreen writes the assembly of package internal/simd/screen for arm64:
//
//	go run ./neonscreen -out ../screen/screen_arm64.s -stubs ../screen/screen_arm64.go -pkg screen
package main

import (
	"math"

	"unmask/internal/simd/_asm/neon"
)

func main() {
	neon.Main(func(file *neon.File) {
		write(file, "aboveNEON", "(set *uint16, x *float32, least float32, n int)", "x[i] > least",
			func(f *neon.Func) {
				set, x, least, n := f.Param("set"), f.Param("x"), f.Splat("least"), f.Param("n")
				each(f, set, x, n, func() []neon.V { return []neon.V{least, least, least, least} })
			})
		write(file, "raceNEON", "(set *uint16, x *float32, words *uint32, least float32, n int)",
			"x[i] > Luck(words[i]) + least", func(f *neon.Func) {
				set, x, words, least, n := f.Param("set"), f.Param("x"), f.Param("words"), f.Splat("least"),
					f.Param("n")
				one, unit, slope := f.Bits(1<<24), f.Bits(151<<23), f.K(math.Ln2/(1<<23))
				each(f, set, x, n, func() []neon.V {
					t := f.Vs(4)
					f.LoadAll(neon.Mem{Base: words}, t)
					f.Advance(words, 64)
					for i, w := range t {
						luck := f.Float(f.ISub(f.Float(f.ISub(one, f.Right(w, 8))), unit))
						t[i] = f.FAdd(f.FMul(luck, slope), least)
					}
					return t
				})
			})
	})
}

func write(file *neon.File, name, signature, bit string, body func(f *neon.Func)) {
	file.Func(name, signature,
		"is\n\n\tfor i := range n { bit i of set = "+bit+" }\n\nn is a multiple of 16 above 0. Nothing "+
			"compares with NaN.", func(f *neon.Func) {
			f.Constants()
			body(f)
		})
}

// each sets 16 bits of set a turn, where x is greater. Each lane of a comparison becomes a byte, of
// which the bit of its place is kept; three sums of neighbours leave a byte for each eight.
func each(f *neon.Func, set, x, n neon.R, than func() []neon.V) {
	places := f.Zip1(f.Bits(0x08040201), f.Bits(0x80402010))
	f.Each(n, 16, func() {
		v := f.Vs(4)
		f.LoadAll(neon.Mem{Base: x}, v)
		f.Advance(x, 64)
		for i, t := range than() {
			v[i] = f.Greater(v[i], t)
		}
		bits := f.And(f.NarrowBytes(f.Narrow(v[0], v[1]), f.Narrow(v[2], v[3])), places)
		for range 3 {
			bits = f.PairByteSums(bits)
		}
		f.StoreShort(bits, neon.Mem{Base: set, Off: 2, Post: true})
	})
	f.Return()
}
