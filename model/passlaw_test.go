package model_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/attention"
	"unmask/backend/plain"
	"unmask/kvcache"
	"unmask/model"
)

// rowOf is what a pass must have of one row.
type rowOf struct {
	sequence int
	position int // in the batch, where the row's result goes
	slot     int // of its key
	rotary   int
	keys     int
	shadow   *attention.Shadow
}

// expectRows compares all passes of p with the rows that they must have, in order.
func expectRows(t *rapid.T, p *model.Passes, b *model.Batch, want []rowOf) {
	at := 0
	for q := p.Next(); q != nil; q = p.Next() {
		shadows := q.Shadows()
		first := at
		for segment, s := range q.Segs {
			sequence := q.Sequences[segment].Seq
			require.Equal(t, s.Row, q.Sequences[segment].Row)
			require.Equal(t, s.Rows, q.Sequences[segment].Rows)
			for i := s.Row; i < s.Row+s.Rows; i++ {
				row := want[at]
				require.Equal(t, row.sequence, sequence)
				require.Equal(t, int32(sequence*b.Length+row.position), q.ResultRows[i])
				require.Equal(t, b.Tokens[sequence*b.Length+row.position], q.Tokens[i])
				require.Equal(t, int32(row.slot), q.Pos[i])
				require.Equal(t, int32(row.rotary), q.RotaryPos[i])
				require.Equal(t, row.rotary, q.Position(i))
				if row.shadow != nil {
					require.Equal(t, 1, s.Rows)
					shadow := shadows[0]
					shadow.OwnRow += first // counted in all passes
					shadow.LentRow += first
					require.Equal(t, *row.shadow, shadow)
					shadows = shadows[1:]
				} else if len(q.Seen) > 0 {
					require.Equal(t, row.keys, q.Seen[segment])
				} else {
					require.Equal(t, row.keys, q.Keys)
				}
				at++
			}
		}
		require.Empty(t, shadows)
	}
	require.Len(t, want, at)
}

// drawSparse draws a batch of a network without extra rows.
func drawSparse(t *rapid.T, p *model.Passes) *model.Batch {
	size := rapid.IntRange(1, 4).Draw(t, "size")
	b := &model.Batch{Size: size, Length: rapid.IntRange(2, 12).Draw(t, "length")}
	for range size * b.Length {
		b.Tokens = append(b.Tokens, int32(rapid.IntRange(0, 3).Draw(t, "token")))
	}
	for range size {
		b.Lengths = append(b.Lengths, rapid.IntRange(2, b.Length).Draw(t, "used"))
	}
	b.Cache = p.NewCache(size, b.Length)
	return b
}

// positions returns ascending positions below n, drawn, at least one.
func positions(t *rapid.T, n int, name string) (list []int32) {
	for i := range n {
		if rapid.Bool().Draw(t, name) || i == n-1 && len(list) == 0 {
			list = append(list, int32(i))
		}
	}
	return list
}

// A network that sees some positions only has their rows alone, with their keys side by side and
// rotated by their positions; rows that are computed again lie where they lay.
func TestKeptPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &model.Passes{Backend: plain.New(), Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}},
			Causal: rapid.Bool().Draw(t, "causal")}
		b := drawSparse(t, p)
		var rows []int32
		var all, some []rowOf
		for i := range b.Size {
			kept := positions(t, b.UsedLength(i), "kept")
			b.Kept = append(b.Kept, kept)
			for pos := range b.UsedLength(i) {
				again := rapid.Bool().Draw(t, "again")
				if again {
					rows = append(rows, int32(i*b.Length+pos))
				}
				slot, isKept := slices.BinarySearch(kept, int32(pos))
				if !isKept {
					continue
				}
				row := rowOf{sequence: i, position: pos, slot: slot, rotary: pos, keys: len(kept)}
				all = append(all, row)
				if again {
					some = append(some, row)
				}
			}
		}
		require.NoError(t, p.Full(b))
		expectRows(t, p, b, all)
		require.NoError(t, p.Partial(b, rows))
		expectRows(t, p, b, some)
	})
}

// A shadow is a second row of a position. It sees the other shadows of its sequence in the place of
// the position's own key or, where attention is causal, what is before the position and itself.
func TestShadowRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &model.Passes{Backend: plain.New(), Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}},
			Causal: rapid.Bool().Draw(t, "causal")}
		b := drawSparse(t, p)
		var want []rowOf
		for i := range b.Size {
			used := b.UsedLength(i)
			count := rapid.IntRange(0, used/2).Draw(t, "count")
			keys := used - count
			shadows := make([]int32, keys)
			for j := range shadows {
				shadows[j] = int32(j)
			}
			shadows = rapid.Permutation(shadows).Draw(t, "order")[:count]
			slices.Sort(shadows)
			b.Shadows = append(b.Shadows, shadows)

			first := len(want)
			for pos := range keys {
				want = append(want, rowOf{sequence: i, position: pos, slot: pos, rotary: pos, keys: keys})
			}
			for j, of := range shadows {
				shadow := &attention.Shadow{
					Slot:    int(of),
					OwnRow:  first + int(of),
					LentRow: first + keys + j,
					LentPos: int(of),
					Keys:    int(of) + 1,
				}
				if !p.Causal {
					shadow.LentRow = first + used - 1
					shadow.LentPos = int(shadows[count-1])
					shadow.Keys = used - 1
				}
				want = append(want, rowOf{sequence: i, position: keys + j, slot: keys + j, rotary: int(of),
					shadow: shadow})
			}
		}
		require.NoError(t, p.Full(b))
		expectRows(t, p, b, want)
	})
}

// With MasksLast the rows of known tokens come before those of masks, in places without gaps.
func TestMasksLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &model.Passes{Backend: plain.New(), Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}},
			Causal: true, MasksLast: true, Mask: 3}
		b := drawSparse(t, p)
		var rows []int32
		var all, some []rowOf
		expect := func(list []rowOf, sequence, from int) []rowOf {
			slot := from
			for _, masked := range []bool{false, true} {
				for pos := from; pos < b.UsedLength(sequence); pos++ {
					if (b.Tokens[sequence*b.Length+pos] == p.Mask) == masked {
						list = append(list, rowOf{sequence: sequence, position: pos, slot: slot, rotary: pos})
						slot++
					}
				}
			}
			return list
		}
		for i := range b.Size {
			from := rapid.IntRange(0, b.UsedLength(i)-1).Draw(t, "from")
			all = expect(all, i, 0)
			some = expect(some, i, from)
			for pos := from; pos < b.UsedLength(i); pos++ {
				rows = append(rows, int32(i*b.Length+pos))
			}
		}
		longest := slices.Max(b.Lengths)
		for _, list := range [][]rowOf{all, some} {
			for i := range list {
				list[i].keys = longest // a causal row sees those up to its own
			}
		}
		require.NoError(t, p.Full(b))
		expectRows(t, p, b, all)
		require.NoError(t, p.Partial(b, rows))
		expectRows(t, p, b, some)
	})
}

// Bytes are those of the tensors of NewCache.
func TestBytesOfASequence(t *testing.T) {
	p := &model.Passes{Backend: plain.New(), Extra: 2, States: []int{5, 7},
		Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}, {Heads: 3, HeadDim: 4}}}
	cache := p.NewCache(1, 10)
	floats := 0
	for layer := range p.Layers {
		floats += cache.K[layer].Shape().TotalSize() + cache.V[layer].Shape().TotalSize()
	}
	for _, state := range cache.States {
		floats += state.Shape().TotalSize()
	}
	require.Equal(t, 4*floats, p.Bytes(10))
}

// What no network with a Spec can compute is refused, and all that is within its bounds is not.
func TestBoundsOfABatch(t *testing.T) {
	spec := model.Spec{Outcomes: 5, Mask: 5, Shape: []int{8}, Sparse: true}
	p := &model.Passes{Backend: plain.New(), Layers: []kvcache.Layer{{Heads: 1, HeadDim: 2}}}
	valid := func() *model.Batch {
		return &model.Batch{Size: 2, Length: 8, Tokens: slices.Repeat([]int32{0, 4, 5, 1}, 4),
			Lengths: []int{1, 8}, Time: []float64{1, 0}, Conditions: []*model.Condition{nil, nil},
			Places: []int{1, 0}, Cache: p.NewCache(2, 8)}
	}
	require.NoError(t, valid().Check(spec))
	short := valid()
	short.Lengths = []int{1, 7}
	short.Tokens[15] = 77 // at a position that is not in use
	require.NoError(t, short.Check(spec))

	for name, change := range map[string]func(b *model.Batch, s *model.Spec){
		"too long": func(_ *model.Batch, s *model.Spec) { s.Shape = []int{7} },
		"empty":    func(b *model.Batch, _ *model.Spec) { b.Length = 0 },
		"not the length": func(_ *model.Batch, s *model.Spec) {
			s.Fixed = true
			s.Shape = []int{9}
		},
		"a fixed length in use": func(_ *model.Batch, s *model.Spec) { s.Fixed = true },
		"no sequences":          func(b *model.Batch, _ *model.Spec) { b.Size = 0; b.Tokens = nil },
		"tokens":                func(b *model.Batch, _ *model.Spec) { b.Tokens = b.Tokens[1:] },
		"times":                 func(b *model.Batch, _ *model.Spec) { b.Time = b.Time[1:] },
		"lengths":               func(b *model.Batch, _ *model.Spec) { b.Lengths = b.Lengths[1:] },
		"conditions":            func(b *model.Batch, _ *model.Spec) { b.Conditions = b.Conditions[1:] },
		"places":                func(b *model.Batch, _ *model.Spec) { b.Places = b.Places[1:] },
		"a length of 0":         func(b *model.Batch, _ *model.Spec) { b.Lengths[0] = 0 },
		"a length above":        func(b *model.Batch, _ *model.Spec) { b.Lengths[1] = 9 },
		"a token below":         func(b *model.Batch, _ *model.Spec) { b.Tokens[0] = -1 },
		"a token above":         func(b *model.Batch, _ *model.Spec) { b.Tokens[8] = 6 },
		"no such outcome":       func(_ *model.Batch, s *model.Spec) { s.Outcomes = 4 },
		"a place below":         func(b *model.Batch, _ *model.Spec) { b.Places[1] = -1 },
		"a place above":         func(b *model.Batch, _ *model.Spec) { b.Places[0] = 2 },
		"a small cache":         func(b *model.Batch, _ *model.Spec) { b.Cache = p.NewCache(2, 7) },
		"kept": func(b *model.Batch, s *model.Spec) {
			b.Kept = [][]int32{{0}, {1}}
			s.Sparse = false
		},
		"shadows": func(b *model.Batch, s *model.Spec) {
			b.Shadows = [][]int32{nil, {1}}
			s.Sparse = false
		},
	} {
		b := valid()
		changed := spec
		change(b, &changed)
		require.Error(t, b.Check(changed), name)
	}
}

// A fingerprint depends on the names and the bytes of files that decide outputs, and on how they
// are read, but on no other file.
func TestWhatAFingerprintDependsOn(t *testing.T) {
	fingerprint := func(change func(files fstest.MapFS, s *model.Source)) string {
		files := fstest.MapFS{
			"config.json":             {Data: []byte("{}")},
			"model.safetensors":       {Data: []byte("weights")},
			"vqvae/config.json":       {Data: []byte("{}")},
			"chat_template.jinja":     {Data: []byte("{{ a }}")},
			"README.md":               {Data: []byte("words")},
			".cache/x/config.json":    {Data: []byte("{}")},
			"vqvae/.hidden/more.json": {Data: []byte("{}")},
		}
		s := &model.Source{Name: "name", Files: files}
		change(files, s)
		sum, err := s.Fingerprint()
		require.NoError(t, err)
		require.Len(t, sum, 16)
		return sum
	}
	same := func(fstest.MapFS, *model.Source) {}
	before := fingerprint(same)
	for name, equal := range map[string]bool{"README.md": true, ".cache/x/config.json": true,
		"vqvae/.hidden/more.json": true, "config.json": false, "vqvae/config.json": false,
		"chat_template.jinja": false, "model.safetensors": false} {
		after := fingerprint(func(files fstest.MapFS, _ *model.Source) {
			files[name] = &fstest.MapFile{Data: []byte("other")}
		})
		require.Equal(t, equal, before == after, name)
		gone := fingerprint(func(files fstest.MapFS, _ *model.Source) { delete(files, name) })
		require.Equal(t, equal, before == gone, name)
	}
	require.Equal(t, before, fingerprint(func(_ fstest.MapFS, s *model.Source) { s.Name = "b" }))
	kinds := []string{before}
	for _, kind := range []string{"a", "b"} {
		kinds = append(kinds, fingerprint(func(_ fstest.MapFS, s *model.Source) {
			s.KindOverride = kind
		}))
	}
	slices.Sort(kinds)
	require.Len(t, slices.Compact(kinds), 3)
}
