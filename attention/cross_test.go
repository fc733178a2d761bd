package attention_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/attention"
	"unmask/backend/plain"
	"unmask/nn"
)

// A row of Cross sees the known rows of its sequence, whatever is asked beside it: by the
// definition of attention, in float64, with both sides rotated by their positions.
func TestCrossByDefinition(t *testing.T) {
	b := plain.New()
	const positions = 12
	width := heads * dim
	freq := nn.Frequencies(10000, dim/2)
	layer := attention.Layer{Heads: heads, HeadDim: dim, Rotary: nn.NewRotary(b, freq, 1, positions)}
	cross := attention.Cross{Layer: layer}
	rapid.Check(t, func(t *rapid.T) {
		sequences := rapid.IntRange(1, 3).Draw(t, "sequences")
		var asked, known attention.Rows
		for s := range sequences {
			drawRows := func(rows *attention.Rows, name string) int {
				list := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).Draw(t, name)
				n := rapid.IntRange(1, positions).Draw(t, name+" rows")
				for place, position := range list[:n] {
					rows.Add(s, int32(place))
					rows.RotaryPos = append(rows.RotaryPos, position)
				}
				return n
			}
			drawRows(&asked, "asked")
			n := drawRows(&known, "known")
			asked.Seen = append(asked.Seen, n)
			known.Seen = append(known.Seen, n)
		}
		number := rapid.Float32Range(-2, 2)
		draw := func(n int, name string) []float32 {
			return rapid.SliceOfN(number, n, n).Draw(t, name)
		}
		q := draw(asked.Len()*width, "q")
		kv := draw(known.Len()*2*width, "kv")
		queries := b.New(asked.Len(), width)
		b.Write(queries, 0, q)
		b.Write(cross.KeysAndValues(b, known.Len()), 0, kv)
		dst := b.New(asked.Len(), width)
		k := b.New(sequences, heads, positions, dim)
		v := b.New(sequences, heads, positions, dim)
		cross.Attend(b, dst, queries, k, v, &asked, &known)
		got := make([]float32, asked.Len()*width)
		b.Read(got, dst, 0)

		turn := func(x []float32, position int32) []float64 {
			out := make([]float64, dim)
			for j, f := range freq {
				sin, cos := math.Sincos(float64(position) * float64(f))
				lo, hi := float64(x[j]), float64(x[j+dim/2])
				out[j], out[j+dim/2] = lo*cos-hi*sin, hi*cos+lo*sin
			}
			return out
		}
		for i := range asked.Len() {
			for h := range heads {
				query := turn(q[i*width+h*dim:][:dim], asked.RotaryPos[i])
				want := make([]float64, dim)
				total := 0.0
				for j := range known.Len() {
					if segmentOf(&known, j) != segmentOf(&asked, i) {
						continue
					}
					key := turn(kv[j*2*width+h*dim:][:dim], known.RotaryPos[j])
					score := 0.0
					for x := range dim {
						score += query[x] * key[x]
					}
					p := math.Exp(score / math.Sqrt(dim))
					total += p
					for x := range dim {
						want[x] += p * float64(kv[j*2*width+width+h*dim+x])
					}
				}
				for x := range dim {
					require.InDelta(t, want[x]/total, got[i*width+h*dim+x], 1e-4)
				}
			}
		}
	})
}

// segmentOf returns the sequence of a row.
func segmentOf(r *attention.Rows, row int) int {
	for _, s := range r.Segs {
		if row < s.Row+s.Rows {
			return s.Seq
		}
	}
	return -1
}
