package gemm

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
)

// What kernels compute, for those of arm64 too: comments without the function's name, and
// signatures.

const (
	Signature     = "(a, b, from, c *float32, ldf, ldc, lines int, next uintptr)"
	PackSignature = "(dst, x *float32, stride, n int, inverse float32)"

	UnpackSignature = "(dst, src, high *float32, width, half, blocks, stride int)"
	ExpandSignature = "(dst, d, levels *float32, columns, rows, stride int)"

	F32Loop = "for k := range 4*lines { c[i][j] = fma(a[i][k], b[k][j], c[i][j]) }"

	BF16WideLoop = "for k := range 2*lines { c[i][j] = fma(a[i][2*k+1], b[k][j].hi, " +
		"fma(a[i][2*k], b[k][j].lo, c[i][j])) }"

	PackF32 = "copies 8n values, 4 to a line: for i := range 8*n { " +
		"dst[i/4*stride][i%4] = x[i] }."
	PackBF16Wide = "rounds 8n values to bfloat16 and keeps float32, 4 to a line: " +
		"for i := range 8*n { dst[i/4*stride][i%4] = bfloat16(x[i]) }."

	AbsMax    = "is for i := range 8*n { m = max(m, abs(x[i])) }: NaN where one of x is."
	TurnWords = "is for d := range 8*n { for c := range 8 { dst[d*ldd+c] = x[c*ldx+d] } }."

	QuantiseRuns = "is, for 32n values, where dst holds int8 and sums int32, from 0:\n\n" +
		"\tfor i := range 32*n { dst[i] = int8(round(x[i]*inverse[i/32])); sums[i/16] += dst[i] }"
	ExpandScales = "is, for j of columns and i of rows, which are stride bytes apart:\n\n" +
		"\tdst[i][j] = d[j] * float32(int8(levels[i][j]))"
)

// Int8Loop is that of int8 products, A's bytes being of a type.
func Int8Loop(a string) string {
	return "for k := range 4*lines { for t := range 4 { c[i][j] += int32(" + a +
		"(a[i][k][t])) * int32(int8(b[k][j][t])) } }"
}

// Product describes a kernel by its loop; it fetches a number of bytes a line.
func Product(rows, columns int, loop string, ahead int) string {
	return fmt.Sprintf("is, for i of %d rows and j of %d columns, with c = from first:\n\n\t%s\n\n"+
		"and fetches %d bytes a line from next on into the caches.", rows, columns, loop, ahead)
}

// BlocksSignature is that of block formats; last is the parameter that differs.
func BlocksSignature(last string) string {
	return "(a, b, mins, c, " + last + " *float32, ldc, panels, skip, records, words int, " +
		"next uintptr, step int)"
}

// Blocks describes a kernel of block formats, with or without mins, whose bytes of B are of the
// type level. It fetches a number of lines a word.
func Blocks(rows, columns int, level string, lines int, mins bool) string {
	last := ""
	if mins {
		last = `
	if mins != nil { // not with levels that have signs
		sum := 64*dot(a.high[i], mins[j]) + dot(a.low[i], mins[j]), of two words each
		p[i][j] = fma(float32(sum), mins.scale[j], p[i][j])
	}`
	}
	return fmt.Sprintf(`is, for each panel and for i of %d rows and j of %d columns, with p = 0 first:

	for r := range records {
		sum := a[r].begin[i]
		for w := range words { for t := range 4 {
			sum += int32(int8(a[r][w][i][t])) * int32(%s(b[r][w][j][t])) } }
		p[i][j] = fma(float32(sum), b[r].scale[j], p[i][j])
	}%s
	c[i][j] = fma(p[i][j], a.scale[i], c[i][j])

and fetches %d lines a word from next on, step apart. A panel is skip bytes behind another's end.`,
		rows, columns, level, last, lines)
}

// Levels is how a kernel that takes levels as they are packed reads B: 4 bits, and more in planes.
func Levels(bits int) string {
	loop := "b'[r][w][j][t] = b[r][w%4][j][t] >> (w/4*4) & 15"
	if bits > 0 {
		loop += fmt.Sprintf(" | planes[r][%d*w/8][j][t] >> (%d*w%%8) & %d << 4", bits, bits, 1<<bits-1)
	}
	return loop
}

// Unpack describes what makes bytes of levels of 4 bits and more.
func Unpack(bits int) string {
	loop := "v[w][i] = src[w%4][i] >> (w/4*4) & 15"
	if bits > 0 {
		loop += fmt.Sprintf(" | high[%d*w/8][i] >> (%d*w%%8) & %d << 4", bits, bits, 1<<bits-1)
	}
	return "makes bytes of levels. Of each of blocks, which are stride bytes apart in dst, words 0 to 3 go\n" +
		"to dst and 4 to 7 half bytes after:\n\n" +
		"\tfor w := range 8 { for i := range width { " + loop + " } }"
}

// start begins a function.
func start(name, signature, doc string) {
	TEXT(name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(strings.Split(name+" "+doc, "\n")...)
}
