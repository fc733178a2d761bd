package vec

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"

	"unmask/internal/simd/_asm/neon"
)

// ScreenAMD64 writes the kernels of package screen for AVX2 and AVX-512.
func ScreenAMD64() {
	for _, w := range widths {
		kernels{w}.screens()
	}
}

// ScreenARM64 writes those for NEON.
func ScreenARM64(f *neon.File) { kernels{&arm{file: f, suffix: "NEON"}}.screens() }

// screens writes comparisons with one number, and with a number for each element.
func (k kernels) screens() {
	doc := func(bit string) string {
		return "for i := range n { bit i of set = " + bit + " }\n\nn is a multiple of 16 above 0. " +
			"Nothing compares with NaN."
	}
	k.text("above", "(set *uint16, x *float32, least float32, n int)", doc("x[i] > least"))
	set := k.pointer("set")
	x := k.pointer("x")
	least := k.splat("least")
	n := k.pointer("n")
	k.greater(set, n, []Op{x}, func(at func(Op) Op) (a, b Op) { return at(x), least })

	k.text("race", "(set *uint16, x *float32, words *uint32, least float32, n int)",
		doc("x[i] > Luck(words[i]) + least"))
	set = k.pointer("set")
	x = k.pointer("x")
	words := k.pointer("words")
	least = k.splat("least")
	n = k.pointer("n")
	one := k.word(1 << 24)
	unit := k.word(151 << 23)
	slope := k.k(math.Ln2 / (1 << 23))
	k.greater(set, n, []Op{x, words}, func(at func(Op) Op) (a, b Op) {
		t := k.float(k.isub(one, k.right(k.load(at(words)), 8)))
		return at(x), k.add(k.mul(k.float(k.isub(t, unit)), slope), least)
	})
}
