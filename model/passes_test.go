package model_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/kvcache"
	"unmask/model"
)

// seen returns the number of keys that a segment attends to.
func seen(q *model.Pass, segment int) int {
	if len(q.Seen) == 0 {
		return q.Keys
	}
	return q.Seen[segment]
}

// Passes contain each row once, sequences stay together, and At is right for every row.
func TestPassesCoverRowsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := model.Passes{Backend: plain.New(),
			Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}, {Heads: 2, HeadDim: 2}, {Heads: 1, HeadDim: 2}},
			States: []int{3}, Extra: rapid.IntRange(0, 2).Draw(t, "extra"),
			Causal: rapid.Bool().Draw(t, "causal")}
		size, length := rapid.IntRange(1, 9).Draw(t, "size"), rapid.IntRange(1, 900).Draw(t, "length")
		b := &model.Batch{Size: size, Length: length, Tokens: make([]int32, size*length)}
		for i := range b.Tokens {
			b.Tokens[i] = int32(i)
		}
		if rapid.Bool().Draw(t, "ragged") {
			for range size {
				b.Lengths = append(b.Lengths, rapid.IntRange(0, length).Draw(t, "used"))
			}
		}
		if rapid.Bool().Draw(t, "cached") {
			b.Cache = p.NewCache(size+2, length)
			places := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}[:size+2]).Draw(t, "places")
			b.Places = places[:size]
		}
		var want []int32 // rows of the batch that the passes compute
		keep := rapid.IntRange(1, 3).Draw(t, "keep")
		full := b.Cache == nil || rapid.Bool().Draw(t, "full")
		for i := range size {
			for pos := range b.UsedLength(i) {
				if full || pos%keep == 0 {
					want = append(want, int32(i*length+pos))
				}
			}
		}
		var read []int32
		if rapid.Bool().Draw(t, "some read") {
			read = []int32{}
			for i, row := range want {
				if i%3 == 1 {
					read = append(read, row)
				}
			}
			b.ReadRows = read
		}
		if full {
			require.NoError(t, p.Full(b))
		} else {
			require.NoError(t, p.Partial(b, want))
		}
		var rows, found []int32
		inPass := map[int]int{} // the number of each sequence's pass
		for n, q := 0, p.Next(); q != nil; n, q = n+1, p.Next() {
			require.Equal(t, full, q.Full)
			require.Len(t, q.Sequences, len(q.Segs))
			for i, seg := range q.Segs {
				sequence := q.Sequences[i].Seq
				if before, seen := inPass[sequence]; seen {
					require.Equal(t, before, n, "sequence %d is in two passes", sequence)
				}
				inPass[sequence] = n
				if b.Cache != nil {
					require.Equal(t, b.Place(sequence), seg.Seq)
				}
				if !p.Causal {
					require.Equal(t, p.Extra+b.UsedLength(sequence), seen(q, i))
				}
				require.Equal(t, q.Pos[seg.Row], int32(seg.Pos))
				for j := range seg.Rows {
					r, pos := seg.Row+j, int(q.Pos[seg.Row+j])
					require.Equal(t, int32(sequence*(length+p.Extra)+pos), q.ResultRows[r])
					require.Less(t, pos, q.Keys)
					if p.Causal {
						require.Equal(t, seg.Pos+j, pos)
					}
					if pos < p.Extra {
						require.Equal(t, int32(-1), q.Tokens[r])
						continue
					}
					require.Equal(t, int32(sequence*length+pos-p.Extra), q.Tokens[r])
					rows = append(rows, q.Tokens[r])
				}
			}
			kept := q
			if q.ReadRows != nil {
				kept = q.Pick(q.ReadRows)
			}
			for i, seg := range kept.Sequences {
				if !p.Causal {
					require.Equal(t, p.Extra+b.UsedLength(seg.Seq), seen(kept, i))
				}
			}
			for i, token := range kept.Tokens {
				if token >= 0 {
					found = append(found, token)
					span, at := int32(length+p.Extra), kept.ResultRows[i]
					require.Equal(t, token, at/span*int32(length)+at%span-int32(p.Extra))
				}
			}
			require.LessOrEqual(t, q.Len(), backend.GroupRows(p.Backend)+length+p.Extra)
			for layer := range p.Layers {
				k, v := q.KV(layer)
				require.Equal(t, p.Layers[layer].Heads, k.Shape()[1])
				require.Equal(t, k.Shape(), v.Shape())
				require.Greater(t, k.Shape()[0],
					slices.MaxFunc(q.Segs, func(a, b backend.Segment) int { return a.Seq - b.Seq }).Seq)
				require.GreaterOrEqual(t, k.Shape()[2], q.Keys)
			}
			require.Equal(t, 3, q.State(0).Shape()[1])
		}
		require.Equal(t, want, slices.Clip(rows))
		if read == nil {
			read = want
		}
		require.ElementsMatch(t, read, found)
	})
}

func TestPassesOfNothingAndWithoutACache(t *testing.T) {
	p := model.Passes{Backend: plain.New(), Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}}}
	b := &model.Batch{Size: 1, Length: 4, Tokens: make([]int32, 4)}
	require.EqualError(t, p.Partial(b, []int32{1}),
		"there is no cache, want that of a full pass before a partial one")
	b.Cache = p.NewCache(1, 3)
	require.EqualError(t, p.Full(b), "the cache has 1 layers of 3 rows, want 1 of 4")
	b.Cache = p.NewCache(1, 4)
	require.NoError(t, p.Partial(b, nil))
	require.Nil(t, p.Next())
	require.Equal(t, 4*2*4*2, p.Bytes(4))
	require.NoError(t, p.Full(b))
	once := testing.AllocsPerRun(5, func() {
		require.NoError(t, p.Full(b))
		for q := p.Next(); q != nil; q = p.Next() {
			q.Pick([]int32{1, 3})
		}
	})
	require.LessOrEqual(t, once, 2.0) // allocations of the test itself
}
