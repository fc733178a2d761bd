//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
)

// A product and the split of its queries, keys and values are one kernel, with the bits of two.
func TestLinearHeads(t *testing.T) {
	all := linearTiles
	t.Cleanup(func() { linearTiles = all })
	const batch, length = 2, 70
	for i, chosen := range all[backend.BF16] {
		if linearHeadsKernels[int32(chosen.kernel.index)] == nil {
			continue
		}
		chosen.firstBlock, chosen.nextBlock = 0, 0 // chosen wherever it can be used
		linearTiles[backend.BF16] = []tile{chosen, all[backend.BF16][2]}
		for _, c := range []struct {
			heads, dim     int
			rotary, biased bool
			one            bool // whether one kernel does both
		}{
			{4, 32, true, true, true}, {2, 64, true, false, true}, {2, 64, false, true, true},
			{4, 48, false, false, true}, {4, 48, true, false, false},
		} {
			t.Run(fmt.Sprintf("%d/%+v", i, c), func(t *testing.T) {
				b, _ := openAny(t)
				if !b.hasKernel(chosen.kernel) {
					t.Skip("only Hopper GPUs have it")
				}
				width := c.heads * c.dim
				x := put(b, normal(1, batch*length*width), batch*length, width)
				w := packed(b, normal(2, 3*width*width), 3*width, width, backend.BF16)
				// a product that reads attention's result, so that rows of this width have copies
				again := packed(b, normal(2, width*width), width, width, backend.BF16)
				h := backend.Heads{Heads: c.heads, HeadDim: c.dim, Keys: length, BF16: true}
				var e backend.Epilogue
				if c.biased {
					e.Bias = put(b, normal(3, 3*width), 3*width)
				}
				var r *backend.Rotary
				if c.rotary {
					half := c.dim / 2
					r = &backend.Rotary{Cos: put(b, normal(4, length*half), length, half),
						Sin: put(b, normal(5, length*half), length, half)}
				}
				var segs []backend.Segment
				var pos []int32
				for s := range batch {
					segs = append(segs, backend.Segment{Seq: s, Row: s * length, Rows: length})
					for p := range length {
						pos = append(pos, int32(p))
					}
				}
				qkv, q, dst := b.New(batch*length, 3*width), b.New(batch*length, width),
					b.New(batch*length, width)
				k, v := b.New(batch, c.heads, length, c.dim), b.New(batch, c.heads, length, c.dim)
				run := func(between func()) {
					b.Linear(qkv, x, batch*length, w, e)
					between()
					b.SplitHeads(q, k, v, qkv, segs, pos, h, r)
					b.Attention(dst, q, k, v, segs, h)
					b.Linear(q, dst, batch*length, again, backend.Epilogue{})
				}
				results := func() (all [][]float32) {
					for _, t := range []*tensor.Dense{dst, qkv, k, v} {
						all = append(all, read(b, t))
					}
					return all
				}
				b.sync()
				run(func() {})
				names := launched(b)
				require.Equal(t, c.one, slices.Contains(names,
					linearHeadsKernels[int32(all[backend.BF16][i].kernel.index)].name), "%v", names)
				require.Equal(t, !c.one, slices.Contains(names, "unmask_split_heads"))
				got := results()
				run(func() { read(b, qkv) })
				require.Contains(t, launched(b), "unmask_split_heads")
				require.Equal(t, results(), got)

				// The layer's product that the next layer overwrites is not written.
				run(func() {})
				run(func() {})
				first := slices.IndexFunc(b.list.commands, func(cmd command) bool {
					return cmd.op == launch && cmd.params >= linearParams &&
						cmd.kernel != int32(bf16RowsKernel.index)
				})
				written := b.list.params[int(b.list.commands[first].first)+linearDst]
				require.Equal(t, c.one, written == 0)
				require.Equal(t, got, results())
			})
		}
	}
}

// A product that is read before it is overwritten is written.
func TestLinearHeadsRead(t *testing.T) {
	all := linearTiles
	t.Cleanup(func() { linearTiles = all })
	linearTiles[backend.BF16] = all[backend.BF16][1:2]
	l, reads := newLayer(t), newLayer(t)
	rows := make([]int32, layerRows)
	for i := range rows {
		rows[i] = int32(i)
	}
	for _, l := range []*layer{l, reads} {
		kept := l.b.New(layerRows, 3*layerWidth)
		for range 2 {
			l.run(func() {
				if l == reads {
					read(l.b, l.qkv)
				}
			})
			l.b.Gather(kept, l.qkv, rows)
		}
		l.run(func() {})
		l.qkv = kept
	}
	require.Equal(t, read(reads.b, reads.qkv), read(l.b, l.qkv))
	require.Equal(t, read(reads.b, reads.y), read(l.b, l.y))
}
