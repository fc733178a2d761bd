package gemm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"unmask/internal/float16"
	"unmask/internal/quant"
	"unmask/internal/simd"
)

// eachBlocks runs f on every kernel of block formats that this machine can run, and the plain Go
// ones.
func eachBlocks(t *testing.T, f func(t *testing.T, k *Blocks)) {
	for _, level := range simd.Available() {
		for _, q := range quant.Types() {
			t.Run(fmt.Sprintf("%v/%v", level, q), func(t *testing.T) { f(t, BlocksFor(level, q)) })
		}
	}
	for _, q := range quant.Types() {
		t.Run(fmt.Sprintf("twin/%v", q), func(t *testing.T) { f(t, genericBlocks(q, 32, true)) })
	}
}

// randomBlocks are n blocks of any bytes with scales near 0.01.
func randomBlocks(r *rand.Rand, q quant.Type, n int) []byte {
	data := make([]byte, n*q.Bytes())
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(data); at += q.Bytes() {
		for _, d := range [...][]int{quant.Q8_0: {0}, quant.Q4_0: {0}, quant.Q4_K: {0, 2},
			quant.Q5_K: {0, 2}, quant.Q6_K: {208}}[q] {
			h := float16.Round(0.005 + 0.01*r.Float32())
			data[at+d], data[at+d+1] = byte(h), byte(h>>8)
		}
	}
	return data
}

// columnsOf packs columns of blocks, and returns their values too.
func columnsOf(k *Blocks, r *rand.Rand, depth int) (panel []float32, values [][]float32) {
	panel = make([]float32, k.SizeB(depth))
	for c := range k.Columns {
		data := randomBlocks(r, k.Type, depth/k.Type.Values())
		if c == 0 { // the lowest levels that there are
			for i := range data {
				if i%k.Type.Bytes() >= 2 {
					data[i] = 0x80
				}
			}
		}
		k.PackColumns(panel, c, data, depth)
		w := make([]float32, depth)
		quant.Decode(k.Type, w, data)
		values = append(values, w)
	}
	return panel, values
}

func packBlocks(k *Blocks, x []float32, rows, depth int) []float32 {
	a := make([]float32, k.SizeA(rows, depth))
	k.PackA(a, x, depth, rows, depth, make([]float32, PackScratch))
	return a
}

// TestBlocksMul compares with the plain Go twin, bit for bit, and with the blocks' own values.
func TestBlocksMul(t *testing.T) {
	eachBlocks(t, func(t *testing.T, k *Blocks) {
		r, twin := rand.New(rand.NewPCG(1, uint64(k.Type))), genericBlocks(k.Type, k.Columns, k.flip)
		const deep = 4 * group
		for _, shape := range [][2]int{{0, 256}, {1, 256}, {2, 512}, {3, 256}, {4, 256}, {5, 768},
			{7, 256}, {8, 256}, {13, 512}, {25, 256}, {131, 512}, {3, deep}, {5, 2 * deep}} {
			rows, depth := shape[0], shape[1]
			if k.Type.Values() == run {
				depth = depth/4 + 32
			}
			x, ldc := random(r, rows*depth), k.Columns+3
			for i := range x {
				x[i] *= float32(1 + i/run%5)
				if rows > 2 && i/depth > 0 && i/depth < 3 { // the lowest and the highest levels
					x[i] = float32(2*(i/depth) - 3)
				}
			}
			panel, values := columnsOf(k, r, depth)
			a := packBlocks(k, x, rows, depth)
			c, want := make([]float32, (rows+2)*ldc), make([]float32, (rows+2)*ldc)
			for i := range c {
				c[i], want[i] = nan, nan
			}
			k.Mul(c[ldc:], ldc, a, panel, rows, depth, make([]float32, k.Scratch()))
			b := packBlocks(twin, x, rows, depth)
			twin.Mul(want[ldc:], ldc, b, panel, rows, depth, make([]float32, twin.Scratch()))
			for i := range c {
				require.Equal(t, math.Float32bits(want[i]), math.Float32bits(c[i]), "%v at %d %d: %v, want %v",
					shape, i/ldc-1, i%ldc, c[i], want[i])
			}
			for i := range rows {
				var step []float64 // between levels, of each group
				each := groupOf(depth)
				for from := 0; from < depth; from += each {
					scale, _ := levels(largestGo(&x[i*depth+from], min(each, depth-from)/8))
					step = append(step, float64(scale))
				}
				for j := range k.Columns {
					var exact, bound float64
					for d, w := range values[j] {
						exact += float64(x[i*depth+d]) * float64(w)
						bound += math.Pow(float64(w)*step[d/each], 2)
					}
					require.InDelta(t, exact, c[(i+1)*ldc+j], 6*math.Sqrt(bound/12)+1e-4, "%v at %d %d", shape, i,
						j)
				}
			}
		}
	})
}

// TestBlocksRowsAlone: a row's result does not depend on the rows beside it.
func TestBlocksRowsAlone(t *testing.T) {
	eachBlocks(t, func(t *testing.T, k *Blocks) {
		const rows, depth = 131, 512
		r := rand.New(rand.NewPCG(3, 4))
		x := random(r, rows*depth)
		panel, _ := columnsOf(k, r, depth)
		scratch := make([]float32, k.Scratch())
		a := packBlocks(k, x, rows, depth)
		all, one := make([]float32, rows*k.Columns), make([]float32, k.Columns)
		k.Mul(all, k.Columns, a, panel, rows, depth, scratch)
		for i := range rows {
			a := packBlocks(k, x[i*depth:], 1, depth)
			k.Mul(one, k.Columns, a, panel, 1, depth, scratch)
			for j, v := range one {
				require.Equal(t, math.Float32bits(all[i*k.Columns+j]), math.Float32bits(v))
			}
		}
	})
}

// blockBits are what products of block formats are, on every processor and from panels of any
// width.
var blockBits = map[quant.Type]uint32{quant.Q8_0: 0x9b7c61fd, quant.Q4_0: 0xed4258aa,
	quant.Q4_K: 0x38d7f313, quant.Q5_K: 0x68d39f8d, quant.Q6_K: 0x780fe715}

// TestBlocksSameBits: all instruction sets give the same numbers, this year and next.
func TestBlocksSameBits(t *testing.T) {
	for _, q := range quant.Types() {
		for _, level := range simd.Available() {
			const rows, depth = 5, 1024
			k, r := BlocksFor(level, q), rand.New(rand.NewPCG(5, uint64(q)))
			x := random(r, rows*depth)
			panel := make([]float32, k.SizeB(depth))
			for c := range 16 {
				k.PackColumns(panel, c, randomBlocks(r, q, depth/q.Values()), depth)
			}
			a := packBlocks(k, x, rows, depth)
			c := make([]float32, rows*k.Columns)
			k.Mul(c, k.Columns, a, panel, rows, depth, make([]float32, k.Scratch()))
			h := crc32.NewIEEE()
			for i := range rows {
				require.NoError(t, binary.Write(h, binary.LittleEndian, c[i*k.Columns:][:16]))
			}
			assert.Equal(t, blockBits[q], h.Sum32(), "%v on %v: %#x", q, level, h.Sum32())
		}
	}
}

// TestBlocksUndefinedRows: a value that is no number spoils its own row alone.
func TestBlocksUndefinedRows(t *testing.T) {
	eachBlocks(t, func(t *testing.T, k *Blocks) {
		const rows, depth = 9, 256
		for _, bad := range []float32{nan, float32(math.Inf(1)), float32(math.Inf(-1))} {
			r := rand.New(rand.NewPCG(7, 8))
			x := random(r, rows*depth)
			x[3*depth+77] = bad
			panel, _ := columnsOf(k, r, depth)
			a := packBlocks(k, x, rows, depth)
			c := make([]float32, rows*k.Columns)
			k.Mul(c, k.Columns, a, panel, rows, depth, make([]float32, k.Scratch()))
			for i, v := range c {
				require.Equal(t, i/k.Columns == 3, v != v, "row %d", i/k.Columns)
			}
		}
	})
}

func BenchmarkBlocks(b *testing.B) {
	for _, level := range simd.Available() {
		for _, q := range quant.Types() {
			for _, rows := range []int{32, 128} {
				if level.ISA == simd.Generic || level.BF16 != simd.Available()[0].BF16 {
					continue
				}
				const depth = 4096
				k, r := BlocksFor(level, q), rand.New(rand.NewPCG(1, 1))
				panel := make([]float32, k.SizeB(depth))
				for c := range k.Columns {
					k.PackColumns(panel, c, randomBlocks(r, q, depth/q.Values()), depth)
				}
				a := packBlocks(k, random(r, rows*depth), rows, depth)
				c, scratch := make([]float32, rows*k.Columns), make([]float32, k.Scratch())
				b.Run(fmt.Sprintf("%v/%v/%d", level, q, rows), func(b *testing.B) {
					for b.Loop() {
						k.Mul(c, k.Columns, a, panel, rows, depth, scratch)
					}
					b.ReportMetric(2*float64(rows*k.Columns*depth)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
				})
			}
		}
	}
}
