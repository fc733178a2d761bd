package quant

import (
	"encoding/binary"
	"math"

	"unmask/internal/float16"
)

// Encode writes the blocks nearest to src, whole blocks of values, to dst. Scales are chosen by the
// least sum of squared errors among a few candidates, so the bytes may differ from those of other
// programs. Values must be finite and within float16's range times the format's levels. t is one of
// Types or Q5_0.
func Encode(t Type, dst []byte, src []float32) {
	l := layouts[t]
	for len(src) > 0 {
		x := src[:l.values]
		b := dst[:l.bytes]
		switch t {
		case Q8_0:
			encode8(b, x)
		case Q4_0, Q5_0:
			encodeHalves(t, b, x)
		case Q4_K, Q5_K:
			encodeMins(t, b, x)
		case Q6_K:
			encode6(b, x)
		}
		dst = dst[l.bytes:]
		src = src[l.values:]
	}
}

// putHalf stores x as a float16 and returns its rounded value.
func putHalf(b []byte, x float32) float32 {
	h := float16.Round(x)
	binary.LittleEndian.PutUint16(b, h)
	return float16.Float32(h)
}

// level returns the nearest of the integers from low to high to x/d, and the one nearest to 0 where
// d is 0.
func level(x, d float32, low, high int) int {
	if d == 0 {
		return min(max(0, low), high)
	}
	return min(max(int(math.RoundToEven(float64(x/d))), low), high)
}

// extreme returns the value of the largest magnitude, with its sign.
func extreme(x []float32) (m float32) {
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(m)) {
			m = v
		}
	}
	return m
}

// encode8 encodes Q8_0.
func encode8(b []byte, x []float32) {
	d := putHalf(b, float32(math.Abs(float64(extreme(x))))/127)
	for i, v := range x {
		b[2+i] = byte(int8(level(v, d, -127, 127)))
	}
}

// encodeHalves encodes Q4_0 and Q5_0, whose levels lie around 0.
func encodeHalves(t Type, b []byte, x []float32) {
	low := layouts[t].offset
	d := putHalf(b, extreme(x)/float32(-low)) // the extreme value has level -8, as there is no +8
	clear(b[2:])
	for i, v := range x {
		n := level(v, d, -low, low-1) + low
		b[layouts[t].bytes-16+i%16] |= byte(n & 15 << (i / 16 * 4))
		if t == Q5_0 {
			b[2+i/8] |= byte(n >> 4 << (i % 8))
		}
	}
}

// encodeMins encodes Q4_K and Q5_K: y = d*scale*q - m*min, with scale and min of 6 bits.
func encodeMins(t Type, b []byte, x []float32) {
	top := 15
	if t == Q5_K {
		top = 31
	}
	var scale, low [8]float32
	var mostScale, mostMin float32
	for s := range 8 {
		scale[s], low[s] = fitMin(x[32*s:32*s+32], top)
		mostScale = max(mostScale, scale[s])
		mostMin = max(mostMin, low[s])
	}
	d := putHalf(b, mostScale/63)
	m := putHalf(b[2:], mostMin/63)
	clear(b[4:])
	q := b[16:]
	if t == Q5_K {
		q = b[48:]
	}
	for s := range 8 {
		sc := level(scale[s], d, 0, 63)
		mi := level(low[s], m, 0, 63)
		if s < 4 {
			b[4+s] |= byte(sc)
			b[8+s] |= byte(mi)
		} else {
			b[8+s] |= byte(sc&15 | mi&15<<4)
			b[s] |= byte(sc >> 4 << 6)
			b[4+s] |= byte(mi >> 4 << 6)
		}
		step := d * float32(sc)
		shift := m * float32(mi)
		for i, v := range x[32*s : 32*s+32] {
			n := level(v+shift, step, 0, top)
			q[s/2*32+i] |= byte(n & 15 << (s % 2 * 4))
			if t == Q5_K {
				b[16+i] |= byte(n >> 4 << s)
			}
		}
	}
}

// fitMin returns the scale and the min, both at least 0, for which values of scale*q-min with q
// from 0 to top have the least squared error among a few tries: steps around the range's, each
// improved by least squares.
func fitMin(x []float32, top int) (scale, low float32) {
	lowest := float32(0) // the min is not negative, so the range includes 0
	highest := x[0]
	for _, v := range x {
		lowest = min(lowest, v)
		highest = max(highest, v)
	}
	if highest <= lowest {
		return 0, -lowest
	}
	best := math.Inf(1)
	for try := -4; try <= 4; try++ {
		step := (highest - lowest) / (float32(top) + 0.25*float32(try))
		shift := -lowest
		for range 2 {
			var n, q, qq, v, qv float64
			for _, value := range x {
				l := float64(level(value+shift, step, 0, top))
				n++
				q += l
				qq += l * l
				v += float64(value)
				qv += l * float64(value)
			}
			det := n*qq - q*q
			if !(det > 0) { // no second value of q, or NaN
				continue
			}
			a := (n*qv - q*v) / det // values are about a*q + c
			c := (qq*v - q*qv) / det
			if c > 0 {
				a = qv / qq
				c = 0
			}
			if a > 0 {
				step = float32(a)
				shift = float32(-c)
			}
		}
		squaredError := errorOf(x, step, shift, top)
		if squaredError < best {
			best = squaredError
			scale = step
			low = shift
		}
	}
	return scale, low
}

// errorOf returns the sum of squared errors of values step*q - shift, with q from 0 to top.
func errorOf(x []float32, step, shift float32, top int) (e float64) {
	for _, v := range x {
		d := float64(step)*float64(level(v+shift, step, 0, top)) - float64(shift) - float64(v)
		e += d * d
	}
	return e
}

// encode6 encodes Q6_K: y = d*scale*(q-32), with a scale of 8 bits for each 16 values.
func encode6(b []byte, x []float32) {
	var scale [16]float32
	for s := range scale {
		scale[s] = fit(x[16*s : 16*s+16])
	}
	largest := extreme(scale[:])
	clear(b)
	d := putHalf(b[208:], largest/-128)
	for s := range scale {
		sc := level(scale[s], d, -128, 127)
		b[192+s] = byte(int8(sc))
		step := d * float32(sc)
		for i, v := range x[16*s : 16*s+16] {
			put6(b, 16*s+i, level(v, step, -32, 31))
		}
	}
}

// put6 sets value i of a block of Q6_K, whose bits are 0, to a level from -32 to 31.
func put6(b []byte, i, level int) {
	n := level + 32
	h := i / 128 // half of the block
	r := i % 128
	b[64*h+r%64] |= byte(n & 15 << (r / 64 * 4))
	b[128+32*h+r%32] |= byte(n >> 4 << (r / 32 * 2))
}

// fit returns the scale of levels -32 to 31 with the least squared error of a few tries.
func fit(x []float32) (scale float32) {
	top := extreme(x)
	if top == 0 {
		return 0
	}
	best := math.Inf(1)
	for try := -4; try <= 4; try++ {
		step := top / (-32 + 0.25*float32(try))
		var qq, qv float64
		for _, v := range x {
			l := float64(level(v, step, -32, 31))
			qq += l * l
			qv += l * float64(v)
		}
		if qq > 0 {
			step = float32(qv / qq)
		}
		e := 0.0
		for _, v := range x {
			d := float64(step)*float64(level(v, step, -32, 31)) - float64(v)
			e += d * d
		}
		if e < best {
			best = e
			scale = step
		}
	}
	return scale
}
