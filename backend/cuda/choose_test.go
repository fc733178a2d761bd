//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/rank"
	"unmask/internal/philox"
)

// chosenByHost is a choice computed from HeadStats and HeadSample of the same device, with noise
// made in Go.
type chosenByHost struct {
	row, token []int32
	logP       []float64
}

func chooseByHost(b *Backend, x *tensor.Dense, rows int, h backend.Head,
	c *backend.Choice) (r chosenByHost) {
	s := &backend.HeadStats{Beta: c.Beta, LogMoment: make([]float64, rows)}
	b.HeadStats(x, rows, h, s)
	d := &backend.HeadDraw{Power: c.Power, Uniform: make([]float64, rows), Token: make([]int32, rows),
		LogP: make([]float64, rows)}
	streams := make([]philox.Stream, rows)
	for _, g := range c.Groups {
		for i := g.Row; i < g.Row+g.Rows; i++ {
			streams[i] = philox.Stream{Seed: c.Seed, Sequence: g.Sequence, Step: c.Step}
			d.Uniform[i] = streams[i].Uniform(int(c.Position[i]), philox.Token)
		}
	}
	b.HeadSample(x, rows, h, d)
	score := func(i int, by rank.Measure, use philox.Use) float64 {
		u := streams[i].Uniform(int(c.Position[i]), use)
		xi := -math.Log(-math.Log(u))
		return [...]float64{rank.ByOrder: -float64(c.Order[c.Position[i]]), rank.ByNoise: u,
			rank.ByMoment: s.LogMoment[i] + xi, rank.ByDraw: d.LogP[i] + c.Noise*xi}[by]
	}
	for _, g := range c.Groups {
		var left, chosen []int
		for i := range g.Rows {
			left = append(left, g.Row+i)
		}
		for part, use := range []philox.Use{philox.Order, philox.Reorder} {
			slices.SortStableFunc(left,
				func(i, j int) int {
					return cmp.Compare(score(j, c.Measures[part], use), score(i, c.Measures[part], use))
				})
			n := []int{g.FirstCount, g.Count - g.FirstCount}[part]
			chosen = append(chosen, left[:n]...)
			left = slices.Sorted(slices.Values(left[n:]))
		}
		for j, i := range chosen {
			r.row = append(r.row, int32(i))
			if j < g.DrawCount {
				r.token, r.logP = append(r.token, d.Token[i]), append(r.logP, d.LogP[i])
			}
		}
	}
	return r
}

// choiceOf returns 5 groups of different sizes, of which the third has `long` rows.
func choiceOf(first, others rank.Measure, long int) (rows int, c *backend.Choice) {
	c = &backend.Choice{Seed: 1<<40 + 5, Step: 3, Measures: [2]rank.Measure{first, others}, Beta: 1.5,
		Noise: 2, Power: 1.25}
	for i, g := range []backend.Candidates{{Rows: 1, Count: 1}, {Rows: 40, FirstCount: 7, Count: 20},
		{Rows: long, FirstCount: 3, Count: 12},
		{Rows: 5, FirstCount: 5, Count: 5}, {Rows: 64, Count: 0}} {
		g.Row, g.Sequence, g.DrawCount = rows, uint32(7*i), (g.Count+1)/2
		if first == rank.ByDraw {
			g.FirstCount, g.DrawCount = g.Count, g.Count
			c.Power = 1
		}
		c.Groups = append(c.Groups, g)
		for p := range g.Rows {
			c.Position = append(c.Position, int32(p+p/3))
		}
		rows += g.Rows
	}
	for p := range 1500 {
		c.Order = append(c.Order, int32(p*37%1500))
	}
	chosen, drawn := c.Counts()
	c.Row, c.Token, c.LogP = make([]int32, chosen), make([]int32, drawn), make([]float64, drawn)
	return rows, c
}

// The device chooses and draws the same as the host.
func TestChoose(t *testing.T) {
	const in, out, classes = 16, 50, 49
	b, l := openAny(t)
	pairs := [][2]rank.Measure{{rank.ByDraw, rank.ByDraw}}
	for first := rank.ByOrder; first <= rank.ByMoment; first++ {
		for others := rank.ByOrder; others <= rank.ByMoment; others++ {
			pairs = append(pairs, [2]rank.Measure{first, others})
		}
	}
	for i, by := range pairs {
		long := 70
		if by[0] == by[1] && by[0] != rank.ByNoise { // longer than one call of project
			long = 1100
		}
		rows, c := choiceOf(by[0], by[1], long)
		x := put(b, normal(uint64(i), rows*in), rows, in)
		head := backend.Head{W: packed(b, normal(50, out*in), out, in, precisions[i%3]),
			Bias: put(b, normal(51, out), out), Outcomes: classes, Scale: 1.5}
		if l != nil {
			l.Forget()
		}
		b.HeadChoose(rows, pieces(b, x, in), head, c)
		if l != nil {
			require.Equal(t, 1, l.Calls("cuStreamSynchronize"), "nothing is read in between")
		}
		want := chooseByHost(b, x, rows, head, c)
		name := fmt.Sprintf("by %v", by)
		require.Equal(t, want.row, c.Row, name)
		require.Equal(t, want.token, c.Token, name)
		require.Equal(t, want.logP, c.LogP, name)
		require.Equal(t, -1, c.Undefined)
	}
}

// pieces returns a projection that copies rows of x.
func pieces(b *Backend, x *tensor.Dense, in int) func(first, n int) *tensor.Dense {
	view := b.New(backend.ChoiceRows, in)
	return func(first, n int) *tensor.Dense {
		rows := make([]int32, n)
		for i := range rows {
			rows[i] = int32(first + i)
		}
		b.Gather(view, x, rows)
		return view
	}
}

// A candidate without a distribution is named at its place among the candidates.
func TestChooseUndefined(t *testing.T) {
	const in, out = 16, 50
	b, _ := openAny(t)
	for _, by := range []rank.Measure{rank.ByOrder, rank.ByNoise, rank.ByMoment,
		rank.ByDraw} {
		rows, c := choiceOf(by, by, 1100)
		data := normal(1, rows*in)
		for _, row := range []int{33, 20, 1141} {
			data[row*in] = float32(math.NaN())
		}
		x := put(b, data, rows, in)
		b.HeadChoose(rows, pieces(b, x, in),
			backend.Head{W: packed(b, normal(2, out*in), out, in, backend.F32), Outcomes: out}, c)
		if by >= rank.ByMoment {
			require.Equal(t, 20, c.Undefined)
			continue
		}
		require.Equal(t, -1, c.Undefined)
		chosen, drawn := 0, 0
		for _, g := range c.Groups {
			for j := range g.DrawCount {
				bad := slices.Contains([]int32{33, 20, 1141}, c.Row[chosen+j])
				require.Equal(t, bad, math.IsNaN(c.LogP[drawn+j]))
			}
			chosen, drawn = chosen+g.Count, drawn+g.DrawCount
		}
	}
}

func TestChooseMisuse(t *testing.T) {
	b, _ := openAny(t)
	h := backend.Head{W: packed(b, normal(1, 12), 3, 4, backend.F32), Outcomes: 3}
	for want, spoil := range map[string]func(c *backend.Choice){
		"group 1 is":      func(c *backend.Choice) { c.Groups[1].Count = 41 },
		"Beta is NaN":     func(c *backend.Choice) { c.Beta = math.NaN() },
		"Power is -1":     func(c *backend.Choice) { c.Power = -1 },
		"positions, need": func(c *backend.Choice) { c.Position = c.Position[:9] },
		"of 1499": func(c *backend.Choice) {
			c.Order, c.Position[30] = c.Order[:1499],
				1499
		},
		"results for":          func(c *backend.Choice) { c.Token = nil },
		"tokens that are draw": func(c *backend.Choice) { c.Measures[0] = rank.ByDraw },
	} {
		rows, c := choiceOf(rank.ByOrder, rank.ByNoise, 1100)
		spoil(c)
		func() {
			defer func() { require.Contains(t, recover(), want) }()
			b.HeadChoose(rows, nil, h, c)
		}()
	}
	b.HeadChoose(0, nil, h, &backend.Choice{}) // nothing to choose
}
