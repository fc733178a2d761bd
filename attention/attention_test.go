package attention_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/backend/plain"
)

const (
	length = 6
	heads  = 2
	dim    = 4
	width  = heads * dim
)

func filled(b backend.Backend, rows, width int, seed float32) *tensor.Dense {
	t := b.New(rows, width)
	v := make([]float32, rows*width)
	for i := range v {
		seed = seed*1.7 - float32(int(seed*1.7/3))*3
		v[i] = seed - 1.5
	}
	b.Write(t, 0, v)
	return t
}

func values(b backend.Backend, t *tensor.Dense, rows int) []float32 {
	v := make([]float32, rows*t.Shape()[1])
	b.Read(v, t, 0)
	return v
}

// Rows of two sequences recomputed from the same activations give the same result.
func TestSomeRowsAgreeWithAll(t *testing.T) {
	b := plain.New()
	layer := attention.Layer{Heads: heads, HeadDim: dim}
	k, v := b.New(2, heads, length, dim), b.New(2, heads, length, dim)
	qkv := filled(b, 2*length, 3*width, 0.7)
	q, all := b.New(2*length, width), b.New(2*length, width)
	var rows attention.Rows
	for i := range int32(2 * length) {
		rows.Add(int(i)/length, i%length)
	}
	require.Equal(t, 2*length, rows.Len())
	layer.Apply(b, all, q, k, v, qkv, &rows, length)

	list := []int32{4, 1, length + 5, length}
	rows.Reset()
	for _, row := range list {
		rows.Add(int(row)/length, row%length)
	}
	require.Equal(t, []backend.Segment{{Seq: 0, Row: 0, Rows: 2, Pos: 4},
		{Seq: 1, Row: 2, Rows: 2, Pos: 5}}, rows.Segs)
	require.Equal(t, []int32{4, 1, 5, 0}, rows.Pos)
	part, some := b.New(4, 3*width), b.New(4, width)
	b.Gather(part, qkv, list)
	layer.Apply(b, some, q, k, v, part, &rows, length)
	want := b.New(4, width)
	b.Gather(want, all, list)
	require.Equal(t, values(b, want, 4), values(b, some, 4))
}

// A row sees the keys and values in the tensors, whoever wrote them.
func TestKeysAndValuesAreExplicit(t *testing.T) {
	b := plain.New()
	layer := attention.Layer{Heads: heads, HeadDim: dim}
	k, v := b.New(1, heads, length, dim), b.New(1, heads, length, dim)
	ones := make([]float32, heads*length*dim)
	for i := range ones {
		ones[i] = 1
	}
	b.Write(v, 0, ones)
	var rows attention.Rows
	rows.Add(0, 2)
	qkv, q, out := b.New(1, 3*width), b.New(1, width), b.New(1, width)
	layer.Apply(b, out, q, k, v, qkv, &rows, length)
	for _, x := range values(b, out, 1) { // its own value is 0, the other five are 1
		require.InDelta(t, 5.0/6, x, 1e-6)
	}
}

// Picked rows, with their queries gathered, attend as they do among all rows.
func TestPickedRowsAttendAsAmongAll(t *testing.T) {
	b := plain.New()
	for _, causal := range []bool{false, true} {
		layer := attention.Layer{Heads: heads, HeadDim: dim, Causal: causal}
		k, v := b.New(2, heads, length, dim), b.New(2, heads, length, dim)
		qkv := filled(b, 2*length, 3*width, 0.7)
		q, all := b.New(2*length, width), b.New(2*length, width)
		rows := attention.Rows{Causal: causal}
		for i := range int32(2 * length) {
			rows.Add(int(i)/length, i%length)
		}
		layer.Apply(b, all, q, k, v, qkv, &rows, length)
		keep := []int32{0, 2, 3, 5, length + 1, length + 4}
		var picked attention.Rows
		picked.Pick(&rows, keep)
		require.Equal(t, []int32{0, 2, 3, 5, 1, 4}, picked.Pos)
		require.Len(t, picked.Segs, map[bool]int{false: 2, true: 5}[causal])
		few, got, want := b.New(6, width), b.New(6, width), b.New(6, width)
		b.Gather(few, q, keep)
		b.Gather(want, all, keep)
		layer.Attend(b, got, few, k, v, &picked, length)
		require.Equal(t, values(b, want, 6), values(b, got, 6))
	}
}
