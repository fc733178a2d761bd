package llama_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/internal/simd"
	"unmask/model"
	"unmask/testkit/parity"
)

// Packs of models whose final tokens go through causally; the last ones have published sizes, see
// parity.Open.
var (
	nemotrons = []string{"nemotron-labs-tiny", "nemotron-labs-tiny-bf16", "nemotron-labs"}
	wedlms    = []string{"wedlm-7b-tiny", "wedlm-8b-tiny", "wedlm-7b", "wedlm-8b"}
)

// feeding is a model and the cases that it is compared with.
type feeding struct {
	t         *testing.T
	p         *parity.Pack
	m         model.Feeder
	tolerance float64
	plain     bool // without the adapter for drafts
}

// eachFeeder loads every pack on every device. In float32 the bound is 1e-5.
func eachFeeder(t *testing.T, packs []string, test func(f *feeding)) {
	for _, name := range packs {
		for _, d := range parity.Devices {
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := parity.Open(t, name)
				if d.Slow() && p.Full() {
					t.Skip("minutes a pass")
				}
				l, err := model.Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
				require.NoError(t, err)
				f := &feeding{t: t, p: p, m: l.Denoiser.(model.Feeder), tolerance: d.Tolerance}
				if d.Precision == backend.F32 {
					f.tolerance = 1e-5
				} else { // the largest of thousands of errors: closeRMS bounds the rest
					f.tolerance = 1e-1
				}
				test(f)
			})
		}
	}
}

// feed computes positions from..to-1 of a batch of equally long sequences, whose tokens there are
// the rows of tokens [size, to-from], and compares the network's own rows with a case. The last
// `last` rows are compared, 0 for all.
func (f *feeding) feed(b *model.Batch, tokens []int32, from int, how model.Feeding, name string,
	last int) {
	f.t.Helper()
	want, shape := f.p.Floats(name)
	n := len(tokens) / b.Size
	if last == 0 {
		last = n
	}
	b.Lengths = slices.Repeat([]int{from + n}, b.Size)
	var rows, read []int32
	for s := range b.Size {
		base := s * b.Length
		copy(b.Tokens[base+from:], tokens[s*n:(s+1)*n])
		for at := range n {
			rows = append(rows, int32(base+from+at))
		}
		read = append(read, rows[len(rows)-last:]...)
	}
	got, err := f.m.Feed(context.Background(), b, rows, how)
	require.NoError(f.t, err, name)
	logits := parity.Logits(f.t, got, read, shape[2])
	parity.RequireClose(f.t, want, logits, f.tolerance)
	if f.tolerance > 1e-4 {
		closeRMS(f.t, want, logits, 4e-2)
	}
}

// batch returns a batch with a cache.
func (f *feeding) batch(size, length int) *model.Batch {
	b := parity.Batch(make([]int32, size*length), []int{size, length})
	b.Cache = f.m.NewCache(size, length)
	return b
}

// Nemotron-Labs-Diffusion: causal passes, blocks on top of them, drafts with the adapter.
func TestNemotronPasses(t *testing.T) {
	eachFeeder(t, nemotrons, (*feeding).nemotron)
}

func (f *feeding) nemotron() {
	tokens, shape := f.p.Ints("tokens")
	size, length := shape[0], shape[1]
	f.feed(f.batch(size, length), tokens, 0, model.Commit, "logits", 0)
	f.feed(f.batch(size, length), tokens, 0, model.Fill, "bidirectional_logits", 0)

	prefix, _ := f.p.Ints("prefix")
	block, _ := f.p.Ints("block")
	at, n := int(prefix[0]), int(block[0])
	part := func(from, to int) (list []int32) {
		for s := range size {
			list = append(list, tokens[s*length+from:s*length+to]...)
		}
		return list
	}
	b := f.batch(size, length)
	f.only(b, part(0, at))
	first, _ := f.p.Ints("block_tokens")
	f.feed(b, first, at, model.Fill, "block_logits", 0)
	if !f.plain {
		f.feed(b, first, at, model.Draft, "draft_logits", 0)
	}
	f.feed(b, part(at, at+n), at, model.Commit, "commit_logits", 0)
	second, _ := f.p.Ints("second_block_tokens")
	f.feed(b, second, at+n, model.Fill, "second_block_logits", 0)

	if f.p.Has("far_tokens") { // beyond the length before YaRN
		far, shape := f.p.Ints("far_tokens")
		more, _ := f.p.Ints("far_block_tokens")
		b := f.batch(1, shape[1]+len(more))
		f.feed(b, far, 0, model.Commit, "far_logits", 24)
		f.feed(b, more, shape[1], model.Fill, "far_block_logits", 0)
	}
}

// only commits the first tokens of each sequence.
func (f *feeding) only(b *model.Batch, tokens []int32) {
	n := len(tokens) / b.Size
	b.Lengths = slices.Repeat([]int{n}, b.Size)
	var rows []int32
	for s := range b.Size {
		copy(b.Tokens[s*b.Length:], tokens[s*n:(s+1)*n])
		for at := range n {
			rows = append(rows, int32(s*b.Length+at))
		}
	}
	b.ReadRows = []int32{}
	_, err := f.m.Feed(context.Background(), b, rows, model.Commit)
	require.NoError(f.t, err)
	b.ReadRows = nil
}

// A causal pass's marginals belong to the next position, also to the one after the last row.
func TestNemotronPredictsNext(t *testing.T) {
	eachFeeder(t, nemotrons[:1], func(f *feeding) {
		tokens, shape := f.p.Ints("tokens")
		want, wantShape := f.p.Floats("logits")
		columns, n := wantShape[2], 9
		b := f.batch(1, shape[1])
		copy(b.Tokens, tokens[:n])
		b.Lengths, b.ReadRows = []int{n}, []int32{4, 9}
		got, err := f.m.Feed(context.Background(), b, parity.Count(n), model.Commit)
		require.NoError(t, err)
		logits := make([]float32, 2*columns)
		require.NoError(t, got.Visit(b.ReadRows, func(i int, row []float32) {
			require.Less(t, row[f.m.Spec().Mask], float32(-1e30), "the mask is never predicted")
			copy(logits[i*columns:], row)
			mask := int(f.m.Spec().Mask)
			logits[i*columns+mask] = want[(int(b.ReadRows[i])-1)*columns+mask]
		}))
		parity.RequireClose(f.t, append(slices.Clone(want[3*columns:4*columns]),
			want[8*columns:9*columns]...),
			logits, f.tolerance)
	})
}

// WeDLM: known tokens first, then masks, each with the rotation of its own position.
func TestWeDLMPasses(t *testing.T) {
	eachFeeder(t, wedlms, (*feeding).wedlm)
}

func (f *feeding) wedlm() {
	tokens, shape := f.p.Ints("tokens")
	order, _ := f.p.Ints("order")
	want, wantShape := f.p.Floats("reordered_logits")
	size, n, columns := shape[0], shape[1], wantShape[2]
	var read []int32 // the cases' rows are in the order in which they are fed
	for s := range size {
		for i := range n {
			read = append(read, int32(s*n)+order[s*n+i])
		}
	}
	got, err := f.m.Forward(context.Background(), parity.Batch(tokens, shape))
	require.NoError(f.t, err)
	parity.RequireClose(f.t, want, parity.Logits(f.t, got, read, columns), f.tolerance)

	prefix, _ := f.p.Ints("prefix")
	at := int(prefix[0])
	b := f.batch(1, n)
	f.only(b, tokens[:at])
	for _, c := range []struct{ tokens, rows, logits string }{
		{"tokens", "rest", "rest_logits"}, {"opened_tokens", "opened_rest", "opened_logits"}} {
		tokens, _ := f.p.Ints(c.tokens)
		rest, _ := f.p.Ints(c.rows)
		want, _ := f.p.Floats(c.logits)
		copy(b.Tokens, tokens[:n])
		b.Lengths = []int{n}
		got, err := f.m.Feed(context.Background(), b, parity.Count(n)[at:], model.Commit)
		require.NoError(f.t, err)
		parity.RequireClose(f.t, want, parity.Logits(f.t, got, rest, columns), f.tolerance)
	}
}

// The rows of causal passes have the same bits however a sequence is cut into passes, beyond the
// blocks of keys of any kernel too, in every precision and on every instruction set.
func TestFeedInParts(t *testing.T) {
	const n, columns = 150, 160
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(12 + i*7%80)
	}
	levels := simd.Available()
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-8b-tiny"} {
		for i, level := range levels {
			for _, precision := range []backend.Precision{backend.F32, backend.BF16, backend.Int8} {
				if precision == backend.Int8 && i != len(levels)-1 {
					continue
				}
				p := parity.Open(t, pack)
				l, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{
					ISA: level.String()}), Precision: precision})
				require.NoError(t, err)
				f := &feeding{t: t, p: p, m: l.Denoiser.(model.Feeder)}
				passes := func(ends ...int) (logits []float32) {
					b, from := f.batch(1, n), 0
					copy(b.Tokens, tokens)
					for _, to := range ends {
						b.Lengths, b.ReadRows = []int{to}, nil
						rows := parity.Count(to)[from:]
						got, err := f.m.Feed(context.Background(), b, rows, model.Commit)
						require.NoError(t, err)
						logits = append(logits, parity.Logits(t, got, rows, columns)...)
						from = to
					}
					return logits
				}
				want := passes(n)
				for _, ends := range [][]int{{96, n}, {31, 64, 70, 149, n}} {
					require.Equal(t, want, passes(ends...), "%s, %s, %s, %v", pack, level, precision, ends)
				}
			}
		}
	}
}

// Sequences of one pass have the bytes that they have alone, whatever their lengths and prefixes.
func TestFeedTogether(t *testing.T) {
	for _, pack := range []string{"nemotron-labs-tiny", "wedlm-8b-tiny"} {
		eachFeeder(t, []string{pack}, func(f *feeding) {
			tokens, shape := f.p.Ints("tokens")
			n, columns := shape[1], 160
			ends, starts := []int{n, n - 6}, []int{12, 7}
			for _, how := range []model.Feeding{model.Commit, model.Fill, model.Draft} {
				together := f.batch(2, n)
				copy(together.Tokens, tokens)
				var prefix, rows []int32
				for s := range 2 {
					for at := range starts[s] {
						prefix = append(prefix, int32(s*n+at))
					}
					for at := starts[s]; at < ends[s]; at++ {
						rows = append(rows, int32(s*n+at))
					}
				}
				together.Lengths = starts
				_, err := f.m.Feed(context.Background(), together, prefix, model.Commit)
				require.NoError(f.t, err)
				together.Lengths = ends
				got, err := f.m.Feed(context.Background(), together, rows, how)
				require.NoError(f.t, err)
				all := parity.Logits(f.t, got, rows, columns)
				for s := range 2 {
					alone := f.batch(1, n)
					copy(alone.Tokens, tokens[s*n:(s+1)*n])
					alone.Lengths = starts[s : s+1]
					_, err := f.m.Feed(context.Background(), alone, parity.Count(starts[s]), model.Commit)
					require.NoError(f.t, err)
					alone.Lengths = ends[s : s+1]
					own := parity.Count(ends[s])[starts[s]:]
					got, err := f.m.Feed(context.Background(), alone, own, how)
					require.NoError(f.t, err)
					want := all[:len(own)*columns]
					all = all[len(want):]
					require.Equal(f.t, want, parity.Logits(f.t, got, own, columns))
				}
			}
		})
	}
}

// closeRMS requires that the root mean square of got-want is at most tolerance times that of want.
func closeRMS(t testing.TB, want, got []float32, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want))
	var apart, size float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		apart, size = apart+d*d, size+float64(w)*float64(w)
	}
	require.LessOrEqual(t, math.Sqrt(apart/size), tolerance)
}
