package gemm

import "math"

// PackA packs rows of x, ldx values apart, each depth long. In the int8 formats each row is
// divided by its largest magnitude's 127th part, which goes to scale[row]; a row with a NaN or
// an infinity gets scale NaN. Otherwise scale is not used.
func (k *Kernel) PackA(dst, scale, x []float32, ldx, rows, depth int) {
	lines := k.Lines(depth)
	for row := 0; row < rows; {
		h := k.panel(rows - row).rows
		for r := range h {
			src := x[(row+r)*ldx:][:depth]
			inverse := float32(0)
			if k.Quantised() {
				scale[row+r], inverse = k.Levels(src)
			}
			k.PackRun(dst[4*(row*lines+r):], 4*h, src, inverse)
		}
		row += h
	}
}

// Quantised reports whether rows of A have scales.
func (k *Kernel) Quantised() bool {
	return k.Format == Int8 || k.Format == Int8Wide || k.Format == Int8Signed
}

// Panel returns the height of the next panel where so many rows are left.
func (k *Kernel) Panel(rows int) int { return k.panel(rows).rows }

// Levels returns the distance of a row's 255 levels, and its inverse for PackRun.
func (k *Kernel) Levels(x []float32) (scale, inverse float32) {
	var top float32
	if n := len(x) / 8; n > 0 {
		top = k.largest(&x[0], n)
	}
	for _, v := range x[len(x)&^7:] {
		top = max(top, float32(math.Abs(float64(v))))
	}
	return levels(top)
}

// levels returns the distance of 255 levels up to a magnitude, and its inverse.
func levels(top float32) (scale, inverse float32) {
	switch {
	case top == 0:
		return 0, 0
	case !(top < infinite):
		return float32(math.NaN()), 0
	case 127/top == infinite: // denormal: too small for a float32 inverse
		return 0, 0
	}
	return top / 127, 127 / top
}

// PackRun packs the lines of one row from x; the last is filled up with zeros. Lines are stride
// words apart. inverse is a result of Levels; formats without levels ignore it.
func (k *Kernel) PackRun(dst []float32, stride int, x []float32, inverse float32) {
	step := formats[k.Format].step
	whole := len(x) / step
	packed := whole * step / k.Values() * stride // words of dst before the lines that are left
	if whole > 0 {
		_ = dst[packed-stride+3]
		k.pack(&dst[0], &x[0], stride, whole, inverse)
	}
	if remainder := x[whole*step:]; len(remainder) > 0 {
		k.packRemainder(dst[packed:], stride, remainder, inverse)
	}
}

// packRemainder packs fewer than step values, in plain Go. It does not call formats[...].pack,
// because arguments of a call through a table escape, which allocates.
func (k *Kernel) packRemainder(dst []float32, stride int, x []float32, inverse float32) {
	var padded, lines [16]float32
	copy(padded[:], x)
	switch k.Format {
	case F32:
		packF32Go(&lines[0], &padded[0], 4, 1, 0)
	case BF16:
		packBF16Go(&lines[0], &padded[0], 4, 1, 0)
	case BF16Wide:
		packBF16WideGo(&lines[0], &padded[0], 4, 1, 0)
	case Int8:
		packInt8Go(&lines[0], &padded[0], 4, 1, inverse)
	case Int8Wide:
		packInt8WideGo(&lines[0], &padded[0], 4, 1, inverse)
	case Int8Signed:
		packInt8SignedGo(&lines[0], &padded[0], 4, 1, inverse)
	}
	for i := range k.Lines(len(x)) {
		copy(dst[i*stride:][:4], lines[4*i:])
	}
}

// PackB packs a panel of B from float32 memory for F32: element (d, c) of B is
// src[d*strideDepth+c*strideColumn], for depth and up to Columns columns. The others are zero.
// Both strides may be anything: keys [position, headDim] are B of q k^T with strideDepth 1, values
// are B of p v with strideColumn 1.
func (k *Kernel) PackB(dst, src []float32, depth, columns, strideDepth, strideColumn int) {
	if k.Format != F32 {
		panic("gemm: PackB: this format's B is packed by PackColumns")
	}
	n := k.Columns
	for d := range depth {
		line := dst[d*n:][:n]
		if strideColumn == 1 {
			clear(line[copy(line, src[d*strideDepth:][:columns]):])
			continue
		}
		for c := range columns {
			line[c] = src[d*strideDepth+c*strideColumn]
		}
		clear(line[columns:])
	}
	clear(dst[depth*n : k.SizeB(depth)])
}

// PackColumns packs columns at..at+15 of a panel of B. Column c is x[c*ldx:][:depth], and is used
// as working memory with the 15 values after it. In the int8 formats a column is divided by its
// largest magnitude's 127th part; that scale and the sum of its levels are returned.
func (k *Kernel) PackColumns(dst []float32, at int, x []float32, ldx, depth int) (scale [16]float32,
	sum [16]int32) {
	words := depth
	if k.Format != F32 {
		words = (depth + formats[k.Format].values - 1) / formats[k.Format].values
		for c := range scale {
			column := x[c*ldx:][:(depth+15)&^15]
			clear(column[depth:])
			if k.Quantised() {
				scale[c], sum[c] = k.quantise(column)
			} else {
				k.pair(column)
			}
		}
	}
	_ = x[15*ldx+words-1] // the assembly checks no bounds
	_ = dst[(words-1)*k.Columns+at+15]
	whole := 0
	if k.turn != nil {
		whole = words / 8
	}
	if whole > 0 {
		k.turn(&dst[at], &x[0], k.Columns, ldx, whole)
		k.turn(&dst[at+8], &x[8*ldx], k.Columns, ldx, whole)
	}
	for d := 8 * whole; d < words; d++ {
		for c := range scale {
			dst[d*k.Columns+at+c] = x[c*ldx+d]
		}
	}
	return scale, sum
}

// pair replaces the first half of x by words of two bfloat16.
func (k *Kernel) pair(x []float32) {
	k.pack(&x[0], &x[0], 4, len(x)/formats[k.Format].step, 0)
	if k.Format == BF16Wide { // each has been rounded where it was
		for i := range x[:len(x)/2] {
			low := math.Float32bits(x[2*i])
			high := math.Float32bits(x[2*i+1])
			x[i] = math.Float32frombits(low>>16 | high)
		}
	}
}

// quantise replaces the first quarter of x by words of four bytes, and returns the distance of
// their levels and their sum.
func (k *Kernel) quantise(x []float32) (scale float32, sum int32) {
	scale, inverse := k.Levels(x)
	k.bytes(&x[0], &x[0], 4, len(x)/16, inverse)
	for i, w := range x[:len(x)/4] {
		shifted := math.Float32bits(w) ^ k.flip // each byte is its level plus 128
		pairs := shifted&0xff00ff + shifted>>8&0xff00ff
		sum += int32((pairs+pairs>>16)&0xffff) - 4*128
		x[i] = math.Float32frombits(shifted ^ 0x80808080)
	}
	return scale, sum
}

// round rounds to nearest even; NaN gives 0.
func round(x float32) int32 {
	if x != x {
		return 0
	}
	return int32(math.RoundToEven(float64(x)))
}
