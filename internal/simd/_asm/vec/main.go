// Command vec generates internal/simd/vec's assembly, and declarations of the functions by part:
//
//	go run ./vec -out ../vec/vec_amd64.s -pkg vec
//	go run ./vec -part rows -out /dev/null -stubs ../vec/rows_amd64.go -pkg vec
package main

import (
	"flag"

	. "github.com/mmcloughlin/avo/build"
)

// parts are the kernels by the file that declares them.
var parts = []struct {
	name     string
	generate func()
}{
	{"functions", func() { each(width.maps) }},
	{"rows", func() { each(width.reductions, width.elementwise, width.columns) }},
	{"attention", func() {
		each(func(w width) {
			for _, p := range w.panels() {
				p.scores()
				p.softmax()
				p.values()
			}
		})
		transpose()
	}},
	{"fixed", func() { bf16(); fixed() }},
}

// each runs generators once for each instruction set.
func each(generate ...func(width)) {
	for _, w := range widths {
		for _, g := range generate {
			g(w)
		}
	}
}

func main() {
	part := flag.String("part", "", "one part alone")
	flag.Parse()
	ConstraintExpr("amd64,!purego")
	for _, p := range parts {
		if *part == "" || *part == p.name {
			p.generate()
		}
	}
	Generate()
}
