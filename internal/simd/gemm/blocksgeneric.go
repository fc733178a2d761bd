package gemm

import (
	"math"
	"unsafe"

	"unmask/internal/quant"
)

// genericBlocks is the plain Go twin of every kernel of a block format: the same results from the
// same packed memory. flip is the kernel's.
func genericBlocks(t quant.Type, columns int, flip bool) *Blocks {
	k := &Blocks{
		Type:     t,
		flip:     flip,
		largest:  largestGo,
		quantise: quantiseGo,
		unpack:   unpackGo(t),
		expand:   expandGo,
	}
	for _, rows := range []int{4, 2, 1} {
		k.heights = append(k.heights, blockHeight{rows, multiplyBlocksGo(rows, columns, flip), 1, false})
	}
	return k.tiled(columns, 1<<16, finishGo)
}

// multiplyBlocksGo returns the kernel of a row count. unsigned says that B's bytes have no sign.
func multiplyBlocksGo(rows, columns int, unsigned bool) multiplyBlocks {
	level := func(bits uint32) int32 { return int32(int8(bits)) }
	if unsigned {
		level = func(bits uint32) int32 { return int32(uint8(bits)) }
	}
	dot := func(sum int32, a, b float32) int32 {
		q := math.Float32bits(a)
		v := math.Float32bits(b)
		for t := 0; t < 32; t += 8 {
			sum += int32(int8(q>>t)) * level(v>>t)
		}
		return sum
	}
	return func(a, b, mins, c, p *float32, ldc, panels, skip, records, words int, _ uintptr, _ int) {
		// addRecord adds the products of row i of a record of A with a record of B to part.
		addRecord := func(part, x, y []float32, i int) {
			for j := range part {
				sum := int32(math.Float32bits(x[words*rows+i]))
				for w := range words {
					sum = dot(sum, x[w*rows+i], y[w*columns+j])
				}
				part[j] = fma(float32(sum), y[words*columns+j], part[j])
			}
		}

		sizeA := rows * (words + 1)    // words of a record of A
		sizeB := columns * (words + 1) // words of a record of B
		panelWords := records*sizeA + rows
		var m []float32
		if mins != nil {
			panelWords += rows * (sums + 1)
			m = unsafe.Slice(mins, 3*columns)
		}
		part := unsafe.Slice(p, columns)
		group := unsafe.Slice(b, records*sizeB)
		for panel := range panels {
			start := unsafe.Add(unsafe.Pointer(a), panel*(4*panelWords+skip))
			panelA := unsafe.Slice((*float32)(start), panelWords)
			for i := range rows {
				clear(part)
				x := panelA
				for r := range records {
					addRecord(part, x, group[r*sizeB:], i)
					x = x[sizeA:]
				}
				if mins != nil {
					for j := range part {
						high := dot(dot(0, x[i], m[j]), x[rows+i], m[columns+j])
						sum := dot(dot(64*high, x[2*rows+i], m[j]), x[3*rows+i], m[columns+j])
						part[j] = fma(float32(sum), m[2*columns+j], part[j])
					}
					x = x[rows*(sums+1):]
				}
				row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(c), 4*(panel*rows+i)*ldc)), columns)
				for j := range row {
					row[j] = fma(part[j], x[i], row[j])
				}
			}
		}
	}
}

// quantiseGo is, for 32n values: dst[i] = int8(round(x[i]*inverse[i/32])), and sums[i/16] +=
// dst[i], int32, from 0.
func quantiseGo(dst, sums, x, inverse *float32, n int) {
	q := unsafe.Slice((*int8)(unsafe.Pointer(dst)), n*run)
	total := unsafe.Slice((*int32)(unsafe.Pointer(sums)), 2*n)
	inverses := unsafe.Slice(inverse, n)
	clear(total)
	for i, v := range unsafe.Slice(x, n*run) {
		q[i] = int8(round(v * inverses[i/run]))
		total[i/16] += int32(q[i])
	}
}

// unpackGo returns the loop that makes bytes of levels of less than a byte: of each of a number of
// times 32 values, width bytes a word, words 0 to 3 go to dst and 4 to 7 half bytes after; the next
// are stride bytes after these.
func unpackGo(t quant.Type) func(dst, src, high *float32, width, half, blocks, stride int) {
	bits := [...]int{quant.Q4_0: 0, quant.Q4_K: 0, quant.Q5_K: 1, quant.Q6_K: 2, quant.Q8_0: 0}[t]
	return func(dst, src, high *float32, width, half, blocks, stride int) {
		low := unsafe.Slice((*uint8)(unsafe.Pointer(src)), 4*width*blocks)
		var planes []uint8
		if bits > 0 {
			planes = unsafe.Slice((*uint8)(unsafe.Pointer(high)), bits*width*blocks)
		}
		for s := range blocks {
			target := unsafe.Slice((*uint8)(unsafe.Add(unsafe.Pointer(dst), s*stride)), half+4*width)
			for w := range 8 {
				for i := range width {
					v := low[(4*s+w%4)*width+i] >> (w / 4 * 4) & 15
					if bits > 0 {
						v |= planes[(bits*s+bits*w/8)*width+i] >> (bits * w % 8) & (1<<bits - 1) << 4
					}
					target[w/4*half+w%4*width+i] = v
				}
			}
		}
	}
}

// expandGo is, for j of columns and i of rows: dst[i][j] = d[j]*float32(int8(levels[i][j])), with
// rows of dst stride bytes apart.
func expandGo(dst, d, levels *float32, columns, rows, stride int) {
	factors := unsafe.Slice(d, columns)
	q := unsafe.Slice((*int8)(unsafe.Pointer(levels)), rows*columns)
	for i := range rows {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), i*stride)), columns)
		for j := range row {
			row[j] = factors[j] * float32(q[i*columns+j])
		}
	}
}
