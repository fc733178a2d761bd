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

// choiceMemory is the working memory of HeadChoose.
type choiceMemory struct {
	// mu is held during a whole choice. It is not Backend.mu, because a choice calls project, which
	// calls other kernels.
	mu sync.Mutex

	inputs      scratchMemory // [rows, in] the head's inputs of all candidates
	candidates  scratchMemory // values of every candidate, see prepareChoice
	results     scratchMemory // what the host reads, see rankAndDraw
	drawnInputs scratchMemory // [drawn, in] the head's inputs of the candidates to draw

	// groups are the groups in the layout of the kernels, eight numbers each.
	groups []int32

	// undefined is, for each group, its lowest candidate without a distribution.
	undefined []int32
}

// choice is one call of HeadChoose, with the device addresses of its data.
type choice struct {
	*backend.Choice
	head head

	// rows, chosen and drawn are numbers of candidates: all, those chosen, and those of them whose
	// tokens are drawn.
	rows   int
	chosen int
	drawn  int

	// usesMoments says that a group is ranked by moments. drawsAll says that one is ranked by the
	// probability of a token that is drawn at every candidate.
	usesMoments bool
	drawsAll    bool

	// logMoment and logSum are [rows] float64, with usesMoments.
	logMoment devicePtr
	logSum    devicePtr

	// token [rows] int32, logP and uniform [rows] float64 are of every candidate, with drawsAll.
	token   devicePtr
	logP    devicePtr
	uniform devicePtr

	// x is [rows, in], without drawsAll: the inputs from which tokens are drawn later.
	x devicePtr
}

// HeadChoose ranks candidates and draws the tokens of the first ones, without copying anything to
// the host in between: waiting for the device in every step would cost as much as a short pass.
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

	w := choice{
		Choice:      c,
		rows:        rows,
		chosen:      chosen,
		drawn:       drawn,
		usesMoments: c.RanksBy(rank.ByMoment),
		drawsAll:    c.RanksBy(rank.ByDraw),
	}
	b.prepareChoice(&w, h)

	// b.mu is free while project runs, which computes on this backend too.
	for first := 0; first < rows; first += backend.ChoiceRows {
		n := min(backend.ChoiceRows, rows-first)
		x := project(first, n)
		backend.CheckHead("HeadChoose", x, n, h)
		b.scoreCandidates(&w, x, first, n)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.rankAndDraw(&w)
	b.sync()
	for _, row := range s.undefined {
		if int(row) < rows && (c.Undefined < 0 || int(row) < c.Undefined) {
			c.Undefined = int(row)
		}
	}
	keepAlive(h.W, h.Bias)
}

// prepareChoice takes memory for all candidates and, if a token is drawn at each, makes the random
// numbers.
func (b *Backend) prepareChoice(w *choice, h backend.Head) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The calls before are the same in each step and those after are not: as a list of their own
	// they become a graph.
	b.flush()

	s := &b.choices
	w.head = b.newHead(h)
	s.groups = s.groups[:0]
	chosen := 0
	drawn := 0
	for _, g := range w.Groups {
		s.groups = append(s.groups, int32(g.Row), int32(g.Rows), int32(g.Sequence),
			int32(g.FirstCount), int32(g.Count), int32(g.DrawCount), int32(chosen), int32(drawn))
		chosen += g.Count
		drawn += g.DrawCount
	}

	values := b.scratch(&s.candidates, 32*w.rows)
	array := devicePtr(8 * w.rows)
	if !w.drawsAll {
		w.logMoment = values
		w.logSum = values + array
		w.x = b.scratch(&s.inputs, 4*w.rows*w.head.weights.in)
		return
	}
	w.logP = values
	w.uniform = values + array
	w.token = values + 2*array
	b.begin(chooseUniformsKernel, grid{x: len(w.Groups)}, 256, 0).pointer(w.uniform).ints(s.groups).
		ints(w.Position[:w.rows]).
		int(int(uint32(w.Seed))).int(int(uint32(w.Seed >> 32))).int(int(w.Step)).end()
}

// scoreCandidates computes what needs the logits of candidates first..first+n-1, and keeps x for
// those whose tokens will be drawn.
func (b *Backend) scoreCandidates(w *choice, x *tensor.Dense, first, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	input := b.addressOf(x)
	doubles := devicePtr(8 * first) // offset of candidate first in an array of float64
	ints := devicePtr(4 * first)
	if w.drawsAll {
		b.enqueueDraws(&w.head, input, n, 1, w.uniform+doubles, w.token+ints, w.logP+doubles)
		return
	}
	if w.usesMoments {
		b.enqueueStats(&w.head, input, n, w.Beta,
			statistics{logMoment: w.logMoment + doubles, logSum: w.logSum + doubles})
	}
	b.copy(rowAddress(w.x, first, w.head.weights.in), input, 4*n*w.head.weights.in)
	runtime.KeepAlive(x)
}

// rankAndDraw ranks the candidates, draws tokens and requests the results, which are on the host
// after the next sync. The caller holds b.mu.
func (b *Backend) rankAndDraw(w *choice) {
	s := &b.choices

	// the results, one array after the other: float64 first, so that all are aligned
	logP := b.scratch(&s.results, 24*w.drawn+4*w.chosen+4*len(w.Groups))
	uniform := logP + devicePtr(8*w.drawn)
	token := uniform + devicePtr(8*w.drawn)
	drawn := token + devicePtr(4*w.drawn)
	chosen := drawn + devicePtr(4*w.drawn)
	undefined := chosen + devicePtr(4*w.chosen)

	// A block sorts its group in shared memory by bitonic merges, which need a power of two.
	largest := 0
	for _, g := range w.Groups {
		largest = max(largest, g.Rows)
	}
	size := 64
	for size < largest {
		size *= 2
	}
	c := b.begin(chooseKernel, grid{x: len(w.Groups)}, min(maxThreads, size/2), 13*size).
		pointer(chosen).pointer(drawn).pointer(uniform).pointer(undefined).ints(s.groups).
		ints(w.Position[:w.rows]).ints(w.Order)
	switch {
	case w.drawsAll:
		c.pointer(0).pointer(w.logP).pointer(w.token).pointer(w.logP)
	case w.usesMoments:
		c.pointer(w.logMoment).pointer(w.logSum).pointer(0).pointer(0)
	default:
		c.pointer(0).pointer(0).pointer(0).pointer(0)
	}
	c.pointer(token).pointer(logP).int(size).int(w.rows).
		int(int(w.Measures[0])).int(int(w.Measures[1])).
		double(w.Noise).
		int(int(uint32(w.Seed))).int(int(uint32(w.Seed >> 32))).int(int(w.Step)).end()

	if !w.drawsAll && w.drawn > 0 {
		x := b.scratch(&s.drawnInputs, 4*w.drawn*w.head.weights.in)
		b.begin(gatherKernel, grid{x: ceilDiv(w.drawn, rowWarps)}, rowThreads, 0).
			pointer(x).pointer(w.x).pointer(drawn).int(w.drawn).int(w.head.weights.in).end()
		b.enqueueDraws(&w.head, x, w.drawn, w.Power, uniform, token, logP)
	}

	if len(s.undefined) != len(w.Groups) {
		s.undefined = make([]int32, len(w.Groups))
	}
	fetch(b, w.Row[:w.chosen], chosen)
	fetch(b, w.Token[:w.drawn], token)
	fetch(b, w.LogP[:w.drawn], logP)
	fetch(b, s.undefined, undefined)
}
