package ceiling

import "unmask/internal/simd/_asm/neon"

// ARM64 writes the loops for NEON.
func ARM64(file *neon.File) {
	writeLoopNEON(file, "fmaNEON", "24 FMLA on 4 float32 each", 24,
		func(f *neon.Func, sums []neon.V, x, y neon.V) {
			for _, s := range sums {
				f.FMLAElement(s, x, y, 0)
			}
		})
	writeLoopNEON(file, "dotNEON", "24 SDOT on 16 bytes each", 24,
		func(f *neon.Func, sums []neon.V, x, y neon.V) {
			for _, s := range sums {
				f.SDotElement(s, x, y, 0)
			}
		})
	writeLoopNEON(file, "pairsNEON", "16 times SMULL and SMLAL on 8 bytes each, and the SADALP that adds "+
		"them up", 16, func(f *neon.Func, sums []neon.V, x, y neon.V) {
		for i, s := range sums {
			high := i%2 == 1
			p := f.SMull(high, x, y)
			f.SMlal(high, p, x, y)
			f.SAdalp(s, p)
		}
	})
	writeReadMemoryNEON(file)
}

// writeLoopNEON writes a function that repeats a step of several sums. The factors are 0.5 in
// float32.
func writeLoopNEON(file *neon.File, name, doc string, sums int,
	step func(f *neon.Func, sums []neon.V, x, y neon.V)) {
	f := file.Start(name, "(n int)", "does n times: "+doc+".")
	n := f.Param("n")
	f.Constants()
	x := f.K(0.5)
	y := f.K(0.5)
	v := f.Vs(sums)
	for _, s := range v {
		f.Zero(s)
	}
	f.Repeat(n, "loop", func() { step(f, v, x, y) })
	f.Return()
}

// writeReadMemoryNEON writes a pass over memory.
func writeReadMemoryNEON(file *neon.File) {
	f := file.Start("readNEON", "(x *float32, n int)",
		"loads n times 256 bytes, one after the other, from x on.")
	x := f.Param("x")
	n := f.Param("n")
	f.Repeat(n, "loop", func() {
		for offset := 0; offset < 256; offset += 64 {
			f.Prefetch(neon.Mem{Base: x, Off: offset + 3072})
			f.LoadAll(neon.Mem{Base: x, Off: offset}, f.Vs(4))
		}
		f.Advance(x, 256)
	})
	f.Return()
}
