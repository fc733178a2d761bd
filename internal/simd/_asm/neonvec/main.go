// Command neonvec writes the vector kernels of package internal/simd/vec for arm64, and
// declarations of the functions by part:
//
//	go run ./neonvec -out ../vec/vec_arm64.s -pkg vec
//	go run ./neonvec -part rows -stubs ../vec/rows_arm64.go -pkg vec
//
// Lane by lane they do what the kernels for AVX2 do, in the same order, so results have the same
// bits. The 16 virtual lanes of a sum are 4 registers.
package main

import (
	"flag"

	"unmask/internal/simd/_asm/neon"
)

// parts are the kernels by the file that declares them.
var parts = []struct {
	name     string
	generate func(*neon.File)
}{
	{"functions", maps},
	{"rows", func(f *neon.File) {
		reductions(f)
		elementwise(f)
		columns(f)
	}},
	{"attention", func(f *neon.File) {
		for _, p := range []panel{{"Wide", 6, 4}, {"Narrow", 2, 8}} {
			p.scores(f)
			p.values(f)
		}
		softmax(f)
		transpose(f)
	}},
}

func main() {
	part := flag.String("part", "", "one part alone")
	neon.Main(func(f *neon.File) {
		for _, p := range parts {
			if *part == "" || *part == p.name {
				p.generate(f)
			}
		}
	})
}

// kernel is a function being written, with the operations that its kind needs.
type kernel struct{ *neon.Func }

// write adds a function named for NEON. doc is its loop, and what else there is to say.
func write(file *neon.File, name, signature, doc string, body func(k kernel)) {
	file.Func(name+"NEON", signature, "is\n\n"+doc, func(f *neon.Func) {
		f.Constants()
		body(kernel{f})
	})
}

// at is register i of the line of 16 at r.
func at(r neon.R, i int) neon.Mem { return neon.Mem{Base: r, Off: 16 * i} }

// line loads 16 float32.
func (k kernel) line(r neon.R) []neon.V {
	v := k.Vs(4)
	k.LoadAll(at(r, 0), v)
	return v
}

// lines runs body for each 16 of n float32, and moves the pointers on.
func (k kernel) lines(n neon.R, pointers []neon.R, body func()) {
	k.Each(n, 16, func() {
		body()
		for _, p := range pointers {
			k.Advance(p, 64)
		}
	})
}

func (k kernel) zeros(n int) []neon.V {
	v := k.Vs(n)
	for _, v := range v {
		k.Zero(v)
	}
	return v
}

// copies are constants that will change.
func (k kernel) copies(n int, x float64) []neon.V {
	v := make([]neon.V, n)
	for i := range v {
		v[i] = k.K(x)
	}
	return v
}
