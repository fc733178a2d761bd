package gemm

import (
	"math"
	"unsafe"

	"unmask/internal/bfloat16"
)

// generic is the plain Go twin of every kernel of a format: the same results from the same
// packed memory.
func generic(f Format) *Kernel {
	k := &Kernel{
		Format:  f,
		Rows:    4,
		Columns: 16,
		Cache:   1 << 16,
		pack:    formats[f].pack,
		bytes:   packInt8Go,
		largest: largestGo,
		finish:  finishGo,
		scale:   scaleGo,
	}
	for _, rows := range []int{4, 2, 1} {
		k.heights = append(k.heights, height{rows, multiplyGo(f, rows, 16)})
	}
	return k
}

// multiplyGo returns the kernel of a row count.
func multiplyGo(f Format, rows, columns int) multiply {
	words := formats[f].words
	return func(a, b, from, c *float32, ldf, ldc, lines int, _ uintptr) {
		as := unsafe.Slice(a, 4*rows*lines)
		bs := unsafe.Slice(b, words*columns*lines)
		for i := range rows {
			row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(c), 4*i*ldc)), columns)
			copy(row, unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(from), 4*i*ldf)), columns))
			for w := range words * lines {
				line := as[(w/words*rows+i)*4:][:4]
				addWord(f, row, line, w%words, bs[w*columns:][:columns])
			}
		}
	}
}

// addWord adds to a row of C the products of word w of A's line and a word of each column.
func addWord(f Format, c, line []float32, w int, b []float32) {
	b = b[:len(c)]
	switch f {
	case F32:
		for j, v := range b {
			c[j] = fma(line[w], v, c[j])
		}
	case BF16:
		lo, hi := bfloat16.Halves(line[w])
		for j, v := range b {
			l, h := bfloat16.Halves(v)
			c[j] = dot2(lo, hi, l, h, c[j])
		}
	case BF16Wide:
		for j, v := range b {
			l, h := bfloat16.Halves(v)
			c[j] = fma(line[2*w+1], h, fma(line[2*w], l, c[j]))
		}
	case Int8:
		for j := range b {
			c[j] = addInts(c[j], b[j],
				func(t int) int32 { return int32(uint8(math.Float32bits(line[w]) >> (8 * t))) })
		}
	case Int8Signed:
		for j := range b {
			c[j] = addInts(c[j], b[j],
				func(t int) int32 { return int32(int8(math.Float32bits(line[w]) >> (8 * t))) })
		}
	case Int8Wide:
		for j := range b {
			c[j] = addInts(c[j], b[j], func(t int) int32 {
				return int32(int16(math.Float32bits(line[2*w+t%2]) >> (16 * (t / 2))))
			})
		}
	}
}

// addInts adds to the int32 in c the products of a's four values and of b's four bytes.
func addInts(c, b float32, a func(t int) int32) float32 {
	sum := int32(math.Float32bits(c))
	bits := math.Float32bits(b)
	for t := range 4 {
		sum += a(t) * int32(int8(bits>>(8*t)))
	}
	return math.Float32frombits(uint32(sum))
}

// dot2 is VDPBF16PS: the product of the second values and then that of the first is added to c,
// each with one rounding to nearest even, and denormals count as zero (Intel SDM, VDPBF16PS).
func dot2(a0, a1, b0, b1, c float32) float32 {
	c = flush(fma(flush(a1), flush(b1), flush(c)))
	return flush(fma(flush(a0), flush(b0), c))
}

// flush turns denormals into zero of their sign.
func flush(x float32) float32 {
	if u := math.Float32bits(x); u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return x
}

// fma is a*b+c rounded once. The float64 sum of the exact product is right unless it is halfway
// between two float32 after having been rounded itself; then the error of that rounding decides.
func fma(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b))
	s := p + float64(c)
	u := math.Float64bits(s)
	if u&0x1fffffff != 0x10000000 && (u>>52&0x7ff > 1023-127 || s == 0) {
		return float32(s)
	}
	return fmaHalfway(p, float64(c), s)
}

// fmaHalfway moves s = p+c, rounded, to the side of the exact sum when it is none (round to odd:
// Boldo and Melquiond, 2008).
func fmaHalfway(p, c, s float64) float32 {
	big := p
	small := c
	if math.Abs(c) > math.Abs(p) {
		big, small = small, big
	}
	e := small - float64(s-big) // exact: Dekker's fast two-sum
	if e != 0 && e == e && math.Float64bits(s)&1 == 0 {
		toward := math.Inf(1)
		if e < 0 {
			toward = math.Inf(-1)
		}
		s = math.Nextafter(s, toward)
	}
	return float32(s)
}

// line returns the four words from word `first` of dst on.
func line(dst *float32, first int) *[4]float32 {
	return (*[4]float32)(unsafe.Add(unsafe.Pointer(dst), 4*first))
}

// The packers in plain Go. Each packs n steps of x; lines of dst are stride words apart.

func packF32Go(dst, x *float32, stride, n int, _ float32) {
	for i := range 2 * n {
		*line(dst, i*stride) = *line(x, 4*i)
	}
}

func packBF16Go(dst, x *float32, stride, n int, _ float32) {
	for i, v := range unsafe.Slice(x, 16*n) {
		l := (*[8]uint16)(unsafe.Pointer(line(dst, i/8*stride)))
		l[i%8] = bfloat16.Round(flush(v))
	}
}

func packBF16WideGo(dst, x *float32, stride, n int, _ float32) {
	for i, v := range unsafe.Slice(x, 8*n) {
		line(dst, i/4*stride)[i%4] = bfloat16.Float32(bfloat16.Round(v))
	}
}

func packInt8Go(dst, x *float32, stride, n int, inverse float32) {
	for i, v := range unsafe.Slice(x, 16*n) {
		l := (*[16]uint8)(unsafe.Pointer(line(dst, i/16*stride)))
		l[i%16] = uint8(128 + round(v*inverse))
	}
}

func packInt8SignedGo(dst, x *float32, stride, n int, inverse float32) {
	for i, v := range unsafe.Slice(x, 16*n) {
		l := (*[16]int8)(unsafe.Pointer(line(dst, i/16*stride)))
		l[i%16] = int8(round(v * inverse))
	}
}

func packInt8WideGo(dst, x *float32, stride, n int, inverse float32) {
	for i, v := range unsafe.Slice(x, 8*n) {
		l := (*[8]int16)(unsafe.Pointer(line(dst, i/8*stride)))
		l[i/4%2*4+i%2*2+i/2%2] = int16(round(v * inverse))
	}
}

// largestGo returns the largest magnitude of 8n values.
func largestGo(x *float32, n int) (m float32) {
	for _, v := range unsafe.Slice(x, 8*n) {
		m = max(m, float32(math.Abs(float64(v))))
	}
	return m
}

var finishGo = finish{times: timesGo, store: storeGo}

// timesGo is Times, storeGo is Store and scaleGo is Scale, without bounds.
func timesGo(tile, x *float32, ldt, ldx, rows, cols int) {
	for i := range rows {
		t := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(tile), 4*i*ldt)), cols)
		y := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(x), 4*i*ldx)), cols)
		for j := range t {
			t[j] *= y[j]
		}
	}
}

func storeGo(dst, tile, bias *float32, ldd, ldt, rows, cols, add int) {
	b := unsafe.Slice(bias, cols)
	for i := range rows {
		y := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), 4*i*ldd)), cols)
		t := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(tile), 4*i*ldt)), cols)
		for j := range y {
			v := t[j] + b[j]
			if add != 0 {
				v += y[j]
			}
			y[j] = v
		}
	}
}

func scaleGo(tile, row, col, offset *float32, ldt, rows, cols int) {
	c := unsafe.Slice(col, cols)
	o := unsafe.Slice(offset, cols)
	for i, scale := range unsafe.Slice(row, rows) {
		t := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(tile), 4*i*ldt)), cols)
		for j := range t {
			sum := int32(math.Float32bits(t[j])) - int32(math.Float32bits(o[j]))
			t[j] = float32(sum) * scale * c[j]
		}
	}
}
