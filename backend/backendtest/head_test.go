package backendtest

import (
	"math"
	"sync"

	"github.com/stretchr/testify/require"

	"unmask/backend"
)

// head is an output head on both devices, with the reference's logits for its rows.
type head struct {
	dev, ref backend.Head
	x        twin
	rows     int
	logits   [][]float64
	error    []float64 // of the logits of a row
}

// headShapes are rows, in, out, classes.
var headShapes = [][4]int{
	{1, 8, 1, 1}, {3, 16, 10, 9}, {7, 40, 100, 100}, {9, 33, 50, 49}, {2, 24, 1030, 1024},
	{35, 16, 97, 96}, {5, 64, 3000, 2999}, {130, 8, 200, 150},
}

// head returns a head; about a tenth of the outcomes is forbidden, but never the first.
func (s *suite) head(shape [4]int, as backend.Precision, scale float32, forbid bool) *head {
	rows, in, out, classes := shape[0], shape[1], shape[2], shape[3]
	h := &head{x: s.rows(rows, in), rows: rows}
	w := s.weights(out, in, as)
	bias := s.fill(func(i int) float32 {
		switch {
		case i >= classes:
			return float32(math.Inf(1)) // ignored by all reductions
		case forbid && i > 0 && s.rand.IntN(10) == 0:
			return float32(math.Inf(-1))
		}
		return s.normal(i)
	}, out)
	h.dev = backend.Head{W: w.dev, Bias: bias.dev, Outcomes: classes, Scale: scale}
	h.ref = backend.Head{W: w.ref, Bias: bias.ref, Outcomes: classes, Scale: scale}
	h.error = make([]float64, rows)
	h.logits = make([][]float64, rows)
	s.ref.HeadVisit(h.x.ref, rows, h.ref, func(row int, logits []float32) {
		for i, v := range logits[:classes] {
			h.logits[row] = append(h.logits[row], float64(v))
			if math.IsInf(float64(v), 0) {
				continue
			}
			e := w.error(i, h.x.row(row))*float64(backend.HeadScale(h.ref)) + 4*eps*(1+math.Abs(float64(v)))
			h.error[row] = max(h.error[row], e)
		}
	})
	return h
}

func (s *suite) heads(test func(h *head, what string)) {
	for i, shape := range headShapes {
		for j, as := range precisions {
			scale := []float32{0, 0.3, 2}[(i+j)%3]
			test(s.head(shape, as, scale, i%2 == 0), name("%v %v scale %v", shape, as, scale))
		}
	}
}

// newStats requests everything.
func newStats(rows int, beta float64) *backend.HeadStats {
	f := func() []float64 { return make([]float64, rows) }
	return &backend.HeadStats{Beta: beta, LogMoment: f(), Entropy: f(), P1: f(), P2: f(),
		Arg: make([]int32, rows), LogSum: f()}
}

// compareStats compares the device's reductions with the reference's, given the logits' errors.
func (h *head) compareStats(s *suite, what string, beta float64) *backend.HeadStats {
	s.Helper()
	got, want := newStats(h.rows, beta), newStats(h.rows, beta)
	s.dev.HeadStats(h.x.dev, h.rows, h.dev, got)
	s.ref.HeadStats(h.x.ref, h.rows, h.ref, want)
	const sum = 64 * eps // for the exponentials and their sums
	for i := range h.rows {
		e := h.error[i]
		require.InDelta(s, want.LogSum[i], got.LogSum[i], e+sum+eps*math.Abs(want.LogSum[i]),
			"%s: log sum of row %d", what, i)
		require.InDelta(s, want.LogMoment[i], got.LogMoment[i],
			(1+beta)*(2*e+sum)+eps*beta*math.Abs(want.LogSum[i]), "%s: log moment %v of row %d", what, beta,
			i)
		classes := math.Log(float64(h.ref.Outcomes))
		require.InDelta(s, want.Entropy[i], got.Entropy[i], (1+classes)*4*(e+sum),
			"%s: entropy of row %d", what, i)
		require.InDelta(s, want.P1[i], got.P1[i], 3*(e+sum), "%s: first of row %d", what, i)
		require.InDelta(s, want.P2[i], got.P2[i], 3*(e+sum), "%s: second of row %d", what, i)
		top, arg := h.logits[i][want.Arg[i]], h.logits[i][got.Arg[i]]
		require.GreaterOrEqual(s, arg, top-2*e, "%s: argmax of row %d", what, i)
	}
	return got
}

// statsAlone checks that each reduction alone equals that computed with the others.
func (h *head) statsAlone(s *suite, what string, got *backend.HeadStats) {
	s.Helper()
	for _, one := range []struct {
		name string
		ask  backend.HeadStats
		want func(*backend.HeadStats) []float64
	}{
		{name: "LogMoment", ask: backend.HeadStats{LogMoment: make([]float64, h.rows)},
			want: func(s *backend.HeadStats) []float64 { return s.LogMoment }},
		{name: "Entropy", ask: backend.HeadStats{Entropy: make([]float64, h.rows)},
			want: func(s *backend.HeadStats) []float64 { return s.Entropy }},
		{name: "P1", ask: backend.HeadStats{P1: make([]float64, h.rows)},
			want: func(s *backend.HeadStats) []float64 { return s.P1 }},
		{name: "P2", ask: backend.HeadStats{P2: make([]float64, h.rows)},
			want: func(s *backend.HeadStats) []float64 { return s.P2 }},
		{name: "LogSum", ask: backend.HeadStats{LogSum: make([]float64, h.rows)},
			want: func(s *backend.HeadStats) []float64 { return s.LogSum }},
	} {
		one.ask.Beta = got.Beta
		s.dev.HeadStats(h.x.dev, h.rows, h.dev, &one.ask)
		require.Equal(s, one.want(got), one.want(&one.ask), "%s: %s alone", what, one.name)
	}
	arg := make([]int32, h.rows)
	s.dev.HeadStats(h.x.dev, h.rows, h.dev, &backend.HeadStats{Arg: arg})
	require.Equal(s, got.Arg, arg, "%s: Arg alone", what)
}

func headStats(s *suite) {
	s.heads(func(h *head, what string) {
		var got *backend.HeadStats
		for _, beta := range []float64{0, 0.5, 1, 7.25, 2} {
			got = h.compareStats(s, what, beta)
		}
		h.statsAlone(s, what, got)
	})
}

// compareSample checks that each token's interval of the cumulative distribution contains its
// uniform number.
func (h *head) compareSample(s *suite, what string, power float64, uniform []float64) {
	s.Helper()
	d := &backend.HeadDraw{Power: power, Uniform: uniform, Token: make([]int32, h.rows),
		LogP: make([]float64, h.rows)}
	s.dev.HeadSample(h.x.dev, h.rows, h.dev, d)
	for i, u := range uniform {
		token := int(d.Token[i])
		require.True(s, token >= 0 && token < h.ref.Outcomes, "%s: row %d drew %d of %d outcomes", what,
			i, token, h.ref.Outcomes)
		logp, before, after := cumulate(h.logits[i], power, token)
		require.False(s, math.IsInf(logp, 0), "%s: row %d drew %d, which is impossible", what, i, token)
		e := h.error[i]
		slack := 2*power*e + 64*eps
		require.True(s, before-slack <= u && u <= after+slack, "%s: row %d drew %d of (%v, %v) by %v",
			what, i, token, before, after, u)
		require.InDelta(s, logp, d.LogP[i], 2*e+64*eps+eps*math.Abs(logp), "%s: log p of row %d", what, i)
	}
}

// cumulate returns log p of an outcome and the cumulative p^power before and after it.
func cumulate(logits []float64, power float64, token int) (logp, before, after float64) {
	top := math.Inf(-1)
	for _, v := range logits {
		top = max(top, v)
	}
	var sum, total float64
	for i, v := range logits {
		if math.IsInf(v, -1) {
			continue
		}
		if i == token {
			before = total
		}
		sum += math.Exp(v - top)
		total += math.Exp(power * (v - top))
		if i == token {
			after = total
		}
	}
	return logits[token] - top - math.Log(sum), before / total, after / total
}

func headSample(s *suite) {
	s.heads(func(h *head, what string) {
		for _, power := range []float64{0, 0.5, 1, 3} {
			u := make([]float64, h.rows)
			for i := range u {
				u[i] = s.rand.Float64()
			}
			h.compareSample(s, name("%s power %v", what, power), power, u)
			for i := range u {
				u[i] = []float64{math.SmallestNonzeroFloat64, 1 - 0x1p-53}[i%2]
			}
			h.compareSample(s, name("%s power %v", what, power), power, u)
		}
	})
}

func headVisit(s *suite) {
	s.heads(func(h *head, what string) {
		out := h.ref.W.Out()
		got, want := h.visit(s, s.dev, h.x, h.rows)
		for i := range h.rows {
			require.Len(s, got[i], out, "%s: row %d", what, i)
			near(s, what, got[i], want[i], func(int) float64 { return h.error[i] })
		}
	})
}

// visit collects the rows of both devices; each must be visited once.
func (h *head) visit(s *suite, b backend.Backend, x twin, rows int) (got, want [][]float32) {
	got, want = make([][]float32, rows), make([][]float32, rows)
	var mu sync.Mutex
	b.HeadVisit(x.dev, rows, h.dev, func(row int, logits []float32) {
		mu.Lock()
		defer mu.Unlock()
		require.Nil(s, got[row], "row %d came twice", row)
		got[row] = append([]float32(nil), logits...)
		clear(logits) // it may be written to
	})
	s.ref.HeadVisit(x.ref, rows, h.ref,
		func(row int, logits []float32) { want[row] = append([]float32(nil), logits...) })
	return got, want
}

// headAlone checks that a row has the same bits alone and among others.
func headAlone(s *suite) {
	for _, as := range precisions {
		h := s.head([4]int{75, 40, 1500, 1490}, as, 1.5, true)
		all := newStats(h.rows, 1.25)
		s.dev.HeadStats(h.x.dev, h.rows, h.dev, all)
		u := make([]float64, h.rows)
		for i := range u {
			u[i] = s.rand.Float64()
		}
		draw := func(x twin, u []float64) *backend.HeadDraw {
			d := &backend.HeadDraw{Power: 1.5, Uniform: u, Token: make([]int32, len(u)),
				LogP: make([]float64, len(u))}
			s.dev.HeadSample(x.dev, len(u), h.dev, d)
			return d
		}
		drawn := draw(h.x, u)
		logits, _ := h.visit(s, s.dev, h.x, h.rows)
		in := h.ref.W.In()
		for at, n := 0, 1; at < h.rows; at, n = at+n, 2*n {
			n = min(n, h.rows-at)
			part := s.rows(n, in)
			part.write(h.x.want()[at*in : (at+n)*in])
			got := newStats(n, 1.25)
			s.dev.HeadStats(part.dev, n, h.dev, got)
			require.Equal(s, &backend.HeadStats{Beta: 1.25, LogMoment: all.LogMoment[at : at+n],
				Entropy: all.Entropy[at : at+n],
				P1:      all.P1[at : at+n], P2: all.P2[at : at+n], Arg: all.Arg[at : at+n],
				LogSum: all.LogSum[at : at+n]}, got)
			d := draw(part, u[at:at+n])
			require.Equal(s, drawn.Token[at:at+n], d.Token)
			require.Equal(s, drawn.LogP[at:at+n], d.LogP)
			visited, _ := h.visit(s, s.dev, part, n)
			for i := range n {
				same(s, name("logits of row %d", at+i), visited[i], logits[at+i])
			}
		}
	}
}

// headExtremes checks that large exponents and logits do not overflow, and that impossible outcomes
// stay impossible.
func headExtremes(s *suite) {
	for _, scale := range []float32{1, 100} {
		h := s.head([4]int{6, 16, 300, 299}, backend.F32, scale, true)
		for _, beta := range []float64{0, 0.01, 50, 1000} {
			h.compareStats(s, name("scale %v", scale), beta)
			u := []float64{1e-300, 0.25, 0.5, 0.75, 1 - 0x1p-53, 1}
			h.compareSample(s, name("scale %v power %v", scale, beta), beta, u)
		}
	}
	// Only one outcome is possible, the first or the last.
	for _, only := range []int{0, 100, 298} {
		h := s.head([4]int{5, 16, 300, 299}, backend.F32, 1, false)
		h.bias(s, func(i int) float32 {
			if i == only {
				return 1
			}
			return float32(math.Inf(-1))
		})
		st := newStats(5, 2)
		s.dev.HeadStats(h.x.dev, 5, h.dev, st)
		d := &backend.HeadDraw{Power: 1, Uniform: []float64{0, 0.1, 0.5, 1 - 0x1p-53, 1},
			Token: make([]int32, 5), LogP: make([]float64, 5)}
		s.dev.HeadSample(h.x.dev, 5, h.dev, d)
		for i := range 5 {
			require.EqualValues(s, only, st.Arg[i])
			require.EqualValues(s, only, d.Token[i])
			require.InDelta(s, 1, st.P1[i], 4*eps)
			for _, zero := range []float64{st.Entropy[i], st.LogMoment[i], st.P2[i], d.LogP[i]} {
				require.InDelta(s, 0, zero, 4*eps)
			}
		}
	}
}

func (h *head) bias(s *suite, f func(i int) float32) {
	b := s.fill(f, h.ref.W.Out())
	h.dev.Bias, h.ref.Bias = b.dev, b.ref
}

// headUndefined checks that a row without a distribution shows in LogSum and LogP, and that its
// token is -1.
func headUndefined(s *suite) {
	for what, f := range map[string]func(i int) float32{
		"NaN":      func(i int) float32 { return []float32{0, nan}[i/77%2] },
		"+Inf":     func(i int) float32 { return []float32{0, float32(math.Inf(1))}[i/150] },
		"all -Inf": func(int) float32 { return float32(math.Inf(-1)) },
	} {
		h := s.head([4]int{9, 16, 300, 299}, backend.F32, 1, false)
		h.bias(s, f)
		st := newStats(9, 2)
		s.dev.HeadStats(h.x.dev, 9, h.dev, st)
		d := &backend.HeadDraw{Power: 1, Uniform: make([]float64, 9), Token: make([]int32, 9),
			LogP: make([]float64, 9)}
		s.dev.HeadSample(h.x.dev, 9, h.dev, d)
		for i := range 9 {
			require.False(s, st.LogSum[i]-st.LogSum[i] == 0, "%s: log sum is %v", what, st.LogSum[i])
			require.EqualValues(s, -1, st.Arg[i], what)
			require.EqualValues(s, -1, d.Token[i], what)
			for _, v := range []float64{st.LogMoment[i], st.Entropy[i], st.P1[i], st.P2[i], d.LogP[i]} {
				require.True(s, math.IsNaN(v), "%s: %v", what, v)
			}
		}
	}
}
