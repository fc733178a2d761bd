//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/backend/rank"
)

var (
	chooseKernel         = register("unmask_choose")
	chooseUniformsKernel = register("unmask_choose_uniforms")
)

// choices is the memory of choices. mu is held during a whole choice, which calls project in
// between.
type choices struct {
	mu                        sync.Mutex
	rows, all, results, drawn memory
	groups, undefined         []int32
}

// choice is one call of HeadChoose, with the device addresses of its data.
type choice struct {
	*backend.Choice
	h                 head
	rows              int
	chosen, drawn     int // numbers of candidates
	moments, drawing  bool
	logMoment, logSum devicePtr // [rows]
	token, logP       devicePtr // [rows], drawn at every candidate
	uniform           devicePtr // [rows]
	x                 devicePtr // [rows, in], unless a token is drawn at every candidate
}

// HeadChoose ranks candidates and draws the tokens of the first ones, without copying anything to
// the host in between.
func (b *Backend) HeadChoose(rows int, project func(first, n int) *tensor.Dense, h backend.Head,
	c *backend.Choice) {
	backend.CheckChoice(rows, h, c)
	c.Undefined = -1
	chosen, drawn := c.Counts()
	if chosen == 0 {
		return
	}
	s := &b.choices
	s.mu.Lock()
	defer s.mu.Unlock()
	w := choice{Choice: c, rows: rows, chosen: chosen, drawn: drawn, moments: c.RanksBy(rank.ByMoment),
		drawing: c.RanksBy(rank.ByDraw)}
	b.layChoice(&w, h)
	for first := 0; first < rows; first += backend.ChoiceRows {
		n := min(backend.ChoiceRows, rows-first)
		x := project(first, n)
		backend.CheckHead("HeadChoose", x, n, h)
		b.score(&w, x, first, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.choose(&w)
	b.sync()
	for _, row := range s.undefined {
		if int(row) < rows && (c.Undefined < 0 || int(row) < c.Undefined) {
			c.Undefined = int(row)
		}
	}
	keep(h.W, h.Bias)
}

// layChoice takes memory for all candidates and, if a token is drawn at each, makes the random
// numbers.
func (b *Backend) layChoice(w *choice, h backend.Head) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// the calls before are the same in each step and those after are not: as a list of their own
	// they become a graph
	b.flush()
	s := &b.choices
	w.h = b.headOf(h)
	s.groups = s.groups[:0]
	chosen, drawn := 0, 0
	for _, g := range w.Groups {
		s.groups = append(s.groups, int32(g.Row), int32(g.Rows), int32(g.Sequence), int32(g.FirstCount),
			int32(g.Count), int32(g.DrawCount), int32(chosen), int32(drawn))
		chosen += g.Count
		drawn += g.DrawCount
	}
	at := b.scratch(&s.all, 32*w.rows)
	n := devicePtr(8 * w.rows)
	w.logMoment, w.logSum = at, at+n // or, if a token is drawn at each
	w.logP, w.uniform, w.token = at, at+n, at+2*n
	if !w.drawing {
		w.x = b.scratch(&s.rows, 4*w.rows*w.h.w.in)
		return
	}
	b.begin(chooseUniformsKernel, grid{x: len(w.Groups)}, 256, 0).pointer(w.uniform).ints(s.groups).
		ints(w.Position[:w.rows]).
		int(int(uint32(w.Seed))).int(int(uint32(w.Seed >> 32))).int(int(w.Step)).end()
}

// score computes what needs the logits of candidates first..first+n-1, and keeps x for those whose
// tokens will be drawn.
func (b *Backend) score(w *choice, x *tensor.Dense, first, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.address(x)
	eight, four := devicePtr(8*first), devicePtr(4*first)
	switch {
	case w.drawing:
		b.sample(&w.h, at, n, 1, w.uniform+eight, w.token+four, w.logP+eight)
		return
	case w.moments:
		b.stats(&w.h, at, n, w.Beta, statistics{logMoment: w.logMoment + eight, logSum: w.logSum + eight})
	}
	b.copy(rowAt(w.x, first, w.h.w.in), at, 4*n*w.h.w.in)
	runtime.KeepAlive(x)
}

// choose ranks the candidates, draws tokens and requests the results.
func (b *Backend) choose(w *choice) {
	s := &b.choices
	logP := b.scratch(&s.results, 24*w.drawn+4*w.chosen+4*len(w.Groups))
	uniform := logP + devicePtr(8*w.drawn)
	token := uniform + devicePtr(8*w.drawn)
	drawn := token + devicePtr(4*w.drawn)
	chosen := drawn + devicePtr(4*w.drawn)
	undefined := chosen + devicePtr(4*w.chosen)
	most := 0
	for _, g := range w.Groups {
		most = max(most, g.Rows)
	}
	size := 64
	for size < most {
		size *= 2
	}
	c := b.begin(chooseKernel, grid{x: len(w.Groups)}, min(maxThreads, size/2), 13*size).
		pointer(chosen).pointer(drawn).pointer(uniform).pointer(undefined).ints(s.groups).
		ints(w.Position[:w.rows]).ints(w.Order)
	switch {
	case w.drawing:
		c.pointer(0).pointer(w.logP).pointer(w.token).pointer(w.logP)
	case w.moments:
		c.pointer(w.logMoment).pointer(w.logSum).pointer(0).pointer(0)
	default:
		c.pointer(0).pointer(0).pointer(0).pointer(0)
	}
	c.pointer(token).pointer(logP).int(size).int(w.rows).
		int(int(w.Measures[0])).int(int(w.Measures[1])).
		double(w.Noise).
		int(int(uint32(w.Seed))).int(int(uint32(w.Seed >> 32))).int(int(w.Step)).end()
	if !w.drawing && w.drawn > 0 {
		x := b.scratch(&s.drawn, 4*w.drawn*w.h.w.in)
		b.begin(gatherKernel, grid{x: ceilDiv(w.drawn, rowWarps)}, rowThreads, 0).
			pointer(x).pointer(w.x).pointer(drawn).int(w.drawn).int(w.h.w.in).end()
		b.sample(&w.h, x, w.drawn, w.Power, uniform, token, logP)
	}
	if len(s.undefined) != len(w.Groups) {
		s.undefined = make([]int32, len(w.Groups))
	}
	fetch(b, w.Row[:w.chosen], chosen)
	fetch(b, w.Token[:w.drawn], token)
	fetch(b, w.LogP[:w.drawn], logP)
	fetch(b, s.undefined, undefined)
}
