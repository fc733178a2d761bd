// Command vec generates internal/simd/vec's assembly:
//
//	go run ./vec -out ../vec/vec_amd64.s -stubs ../vec/vec_amd64.go -pkg vec
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64,!purego")
	for _, w := range widths {
		w.maps()
		w.reductions()
		w.elementwise()
		w.columns()
		for _, p := range w.panels() {
			p.scores()
			p.softmax()
			p.values()
		}
	}
	bf16()
	fixed()
	transpose()
	Generate()
}
