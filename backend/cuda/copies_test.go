//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
)

// layer is a transformer's layer without residuals: norm, product, attention and two products.
type layer struct {
	b                     *Backend
	x, h, qkv, q, k, v, y *tensor.Dense
	w, out, up            backend.Matrix
}

const layerRows, layerWidth = 70, 64

func newLayer(t *testing.T) *layer {
	b, _ := openAny(t)
	withoutHopper(b) // the tests name kernels
	r := rand.New(rand.NewPCG(3, 4))
	row := func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = float32(r.NormFloat64()) / 8
		}
	}
	l := &layer{b: b, x: b.New(layerRows, layerWidth), h: b.New(layerRows, layerWidth),
		qkv: b.New(layerRows, 3*layerWidth), q: b.New(layerRows, layerWidth),
		k: b.New(1, 2, layerRows, 32), v: b.New(1, 2, layerRows, 32), y: b.New(layerRows, layerWidth)}
	l.w = b.Pack(3*layerWidth, layerWidth, backend.BF16, inOrder(row))
	l.out = b.Pack(layerWidth, layerWidth, backend.BF16, inOrder(row))
	l.up = b.Pack(layerWidth, layerWidth, backend.BF16, inOrder(row))
	x := make([]float32, layerRows*layerWidth)
	row(0, x)
	b.Write(l.x, 0, x)
	return l
}

// inOrder computes all rows in order beforehand, so that they can be requested in any order.
func inOrder(row backend.RowFunc) backend.RowFunc {
	rows := make([][]float32, 3*layerWidth)
	for i := range rows {
		rows[i] = make([]float32, layerWidth)
		row(i, rows[i])
	}
	return func(i int, dst []float32) { copy(dst, rows[i]) }
}

// run calls between after each kernel.
func (l *layer) run(between func()) {
	b, segs := l.b, []backend.Segment{{Rows: layerRows}}
	h := backend.Heads{Heads: 2, HeadDim: 32, Keys: layerRows, BF16: true}
	pos := make([]int32, layerRows)
	for i := range pos {
		pos[i] = int32(i)
	}
	b.LayerNorm(l.h, l.x, layerRows, backend.Norm{Eps: 1e-5})
	between()
	b.Linear(l.qkv, l.h, layerRows, l.w, backend.Epilogue{})
	between()
	b.SplitHeads(l.q, l.k, l.v, l.qkv, segs, pos, h, nil)
	between()
	b.Attention(l.h, l.q, l.k, l.v, segs, h)
	between()
	b.Linear(l.q, l.h, layerRows, l.up, backend.Epilogue{Act: backend.GELUTanh})
	between()
	b.Linear(l.y, l.q, layerRows, l.out, backend.Epilogue{})
	between()
}

// launched returns the names of the list's kernels.
func launched(b *Backend) (names []string) {
	for _, c := range b.list.commands {
		if c.op == launch {
			names = append(names, kernels[c.kernel].name)
		}
	}
	return names
}

// TestCopies: products read the bfloat16 numbers that norms and attention wrote. They have the bits
// that rounding the float32 numbers would give.
func TestCopies(t *testing.T) {
	l, reads := newLayer(t), newLayer(t)
	l.b.sync()
	l.run(func() {})
	require.Equal(t, []string{"unmask_layer_norm", "unmask_linear_bf16_small", "unmask_split_heads",
		"unmask_attention_narrow_32",
		"unmask_linear_bf16_tiny", "unmask_linear_bf16_tiny"}, launched(l.b))
	require.Zero(t, l.b.list.params[l.b.list.commands[0].first+6],
		"the norm's float32 numbers are overwritten before anybody reads them")

	reads.run(func() {
		for _, x := range []*tensor.Dense{reads.h, reads.q, reads.k, reads.v} {
			read(reads.b, x)
		}
	})
	require.Equal(t, read(reads.b, reads.y), read(l.b, l.y))
	require.Equal(t, read(reads.b, reads.h), read(l.b, l.h), "the last float32 numbers are there")
	require.Equal(t, read(reads.b, reads.q), read(l.b, l.q))
	require.Equal(t, read(reads.b, reads.k), read(l.b, l.k))

	// Again: now everything that the first layer wrote in float32 is overwritten.
	l.run(func() {})
	l.run(func() {})
	split := l.b.list.commands[2]
	require.Equal(t, kernels[split.kernel].name, "unmask_split_heads")
	for i := range 3 {
		require.Zero(t, l.b.list.params[int(split.first)+8+2*i])
	}
	require.Equal(t, read(reads.b, reads.y), read(l.b, l.y))
	require.Equal(t, read(reads.b, reads.v), read(l.b, l.v))
}

// TestCopiesEnd: any other write to a tensor ends its copy, and any other read finds float32
// numbers.
func TestCopiesEnd(t *testing.T) {
	for name, write := range map[string]func(l *layer){
		"Write":    func(l *layer) { l.b.Write(l.h, 3, make([]float32, 10)) },
		"Scatter":  func(l *layer) { l.b.Scatter(l.h, l.x, []int32{7}) },
		"Activate": func(l *layer) { l.b.Activate(l.h, 2, backend.ReLU) },
		"Modulate": func(l *layer) {
			l.b.Modulate(l.h, l.y, l.y,
				[]backend.Segment{{Rows: 7}, {Seq: 1, Row: 9, Rows: 3}})
		},
		"all": func(l *layer) {
			l.b.Modulate(l.h, l.x, l.x, []backend.Segment{{Rows: 7}, {Seq: 1, Row: 7, Rows: layerRows - 7}})
		},
		"Memclr": func(l *layer) { l.b.Memclr(l.h) },
		"Linear": func(l *layer) { l.b.Linear(l.h, l.y, 5, l.out, backend.Epilogue{Add: true}) },
		"fewer":  func(l *layer) { l.b.LayerNorm(l.h, l.y, 5, backend.Norm{Eps: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			l, reads := newLayer(t), newLayer(t)
			for _, l := range []*layer{l, reads} {
				l.b.LayerNorm(l.h, l.x, layerRows, backend.Norm{Eps: 1e-5})
				if l == reads {
					read(l.b, l.h)
				}
				write(l)
				if l == reads {
					read(l.b, l.h)
				}
				l.b.Linear(l.y, l.h, layerRows, l.out, backend.Epilogue{})
			}
			require.Equal(t, read(reads.b, reads.y), read(l.b, l.y))
			require.Equal(t, read(reads.b, reads.h), read(l.b, l.h))
		})
	}
}

// TestCopiesMany: a kernel never overwrites the copies that it reads, however many tensors have
// one.
func TestCopiesMany(t *testing.T) {
	l, reads := newLayer(t), newLayer(t)
	for _, l := range []*layer{l, reads} {
		for range 2 * len(l.b.copies.entries) {
			l.k, l.v = l.b.New(1, 2, layerRows, 32), l.b.New(1, 2, layerRows, 32)
			l.run(func() {
				if l == reads {
					read(l.b, l.k)
					read(l.b, l.v)
				}
			})
		}
	}
	require.Equal(t, read(reads.b, reads.y), read(l.b, l.y))
	require.Equal(t, read(reads.b, reads.v), read(l.b, l.v))
}
