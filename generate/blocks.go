package generate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"unmask/backend"
	"unmask/internal/philox"
	"unmask/kvcache"
	"unmask/model"
	"unmask/samplers"
)

// Block diffusion: models whose positions see their own block and those before it
// (model.Spec.Block). Keys and values of a finished block never change, so a pass feeds the current
// block, and of those before it what changed since the last pass: exact, and a sequence costs what
// it has become, not what it might. A sequence ends with the block in which a token of Spec.Ends
// opens.
//
// The originals make a pass of their own over a prompt and over each finished block; here it is
// part of the next block's first.

// blocks is one run of sequences block by block; all its memory is used again.
type blocks struct {
	o     Options
	d     model.Refiner
	spec  model.Spec
	size  int // of a block
	steps int // of a block
	post  int // of an editor, steps of a block after its last mask; -1: the sampler replaces nothing

	turn     sync.Locker // of the model
	stateful samplers.Stateful
	plans    bool // the sampler decides how many positions a step opens
	start    []int32
	slots    []blockSlot
	busy     []*blockSlot
	step     Step
	cache    *kvcache.Cache
	batch    model.Batch
	rows     []int32
	filtered model.Filtered
	last     model.Marginals
	view     samplers.View
	visited  *blockSlot
	head     blockHead
}

// blockSlot is a sequence's place in the batch.
type blockSlot struct {
	seq          *Sequence
	row          int     // of the batch
	seen         []int32 // [length] what keys and values are of, -1 where there are none
	from, to     int     // the current block
	n, after     int     // its step, and steps since its last mask
	masked, open []int
	past         []float64
	state        any
	opening      samplers.Opening
	at, openAt   int // where its rows begin in blockHead
	pending      []Opened
}

// runBlocks is Run with Reuse Blocks.
func runBlocks(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		r, err := newBlocks(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		for first := 0; first < r.o.N; first += r.o.Batch {
			if !r.run(ctx, r.o.First+first, min(r.o.Batch, r.o.N-first), yield) {
				return
			}
		}
	}
}

func newBlocks(d model.Denoiser, o Options) (_ *blocks, err error) {
	defer backend.Recover(&err)
	if o, err = o.Check(d); err != nil {
		return nil, err
	}
	if d, err = blockwise(d, o.BlockSize); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	r := &blocks{o: o, d: d.(model.Refiner), turn: model.Turn(d), spec: d.Spec(), post: -1}
	r.size, r.steps = r.spec.Block, min(o.Steps, r.spec.Block)
	_, r.plans = samplers.As[samplers.Planner](o.Sampler)
	if r.plans {
		r.steps = r.size
	}
	if e, ok := samplers.As[samplers.Editor](o.Sampler); ok {
		r.post = e.Edits()
	}
	r.stateful, _ = samplers.As[samplers.Stateful](o.Sampler)
	if r.start = slices.Clone(o.Tokens); r.start == nil {
		r.start = slices.Repeat([]int32{r.spec.Mask}, o.Length)
	}
	n := o.Batch
	r.cache = r.d.NewCache(n, o.Length)
	r.slots, r.step.Sequences = make([]blockSlot, n), make([]Sequence, n)
	r.batch = model.Batch{Length: o.Length, Cache: r.cache}
	r.filtered = model.Filtered{Filter: &r.o.Filter, Outcomes: r.spec.Outcomes}
	if o.Adjust != nil {
		r.filtered.Adjust = func(row int32, logits []float32) {
			o.Adjust(r.slots[int(row)/o.Length].seq.Index, int(row)%o.Length, logits)
		}
	}
	r.view = samplers.View{Mask: r.spec.Mask, Outcomes: r.spec.Outcomes, Shape: []int{o.Length},
		Visit: r.visit}
	return r, nil
}

// blockwise returns the model with blocks of a size, 0 for its own.
func blockwise(d model.Denoiser, size int) (model.Denoiser, error) {
	if size == 0 || size == d.Spec().Block {
		return d, nil
	}
	b, ok := d.(model.Blockwise)
	if !ok {
		return nil, fmt.Errorf("block-size is %d, want 0: this model has no blocks of another size", size)
	}
	return b.WithBlock(size)
}

// run makes sequences first..first+count-1; false stops the whole run.
func (r *blocks) run(ctx context.Context, first, count int, yield func(*Step, error) bool) bool {
	spans := (r.o.Length + r.size - 1) / r.size
	r.step = Step{Steps: spans * (r.steps + max(r.post, 0)), Sequences: r.step.Sequences[:count]}
	r.slots, r.batch.Size, r.batch.Tokens = r.slots[:count], count, r.batch.Tokens[:0]
	for i := range r.slots {
		s := &r.slots[i]
		q := &r.step.Sequences[i]
		*q = Sequence{Index: first + i, Tokens: append(q.Tokens[:0], r.start...), Opened: q.Opened[:0],
			Closed: q.Closed[:0]}
		*s = blockSlot{seq: q, row: i, seen: s.seen[:0], masked: s.masked[:0], open: s.open[:0],
			pending: s.pending[:0],
			past:    make([]float64, r.o.Length)}
		s.seen = append(s.seen, slices.Repeat([]int32{-1}, r.o.Length)...)
		if r.stateful != nil {
			s.state = r.stateful.NewState(r.o.Length)
		}
		r.batch.Tokens = append(r.batch.Tokens, r.start...)
		r.enter(s, 0)
	}
	if r.step.Done = r.done(); r.step.Done {
		return yield(&r.step, nil)
	}
	var finished *Step
	for n := 1; !r.step.Done; n++ {
		began := time.Now()
		if err := r.do(ctx, n); err != nil {
			yield(finished, fmt.Errorf("generate: step %d: %w", n, err))
			return false
		}
		r.step.N, r.step.Done, r.step.Seconds = n, r.done(), time.Since(began).Seconds()
		finished = &r.step
		if !yield(finished, nil) {
			return false
		}
	}
	return true
}

func (r *blocks) done() bool {
	for i := range r.slots {
		if !r.slots[i].seq.Done {
			return false
		}
	}
	return true
}

// enter makes the first block from `from` on that has a mask the current one, or ends the sequence.
func (r *blocks) enter(s *blockSlot, from int) {
	for ; from < r.o.Length; from += r.size {
		to := min(from+r.size, r.o.Length)
		if slices.Contains(s.seq.Tokens[from:to], r.spec.Mask) {
			s.from, s.to, s.n, s.after = from, to, 0, 0
			return
		}
	}
	s.seq.Done = true
}

// do makes a step of every sequence that is not done.
func (r *blocks) do(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.view.Reset()
	r.busy = r.busy[:0]
	for i := range r.slots {
		s := &r.slots[i]
		s.seq.Opened, s.seq.Finished = s.seq.Opened[:0], false
		if !s.seq.Done {
			r.begin(s)
			r.busy = append(r.busy, s)
		}
	}
	r.turn.Lock() // until nothing more is read of the pass
	defer r.turn.Unlock()
	if err := r.pass(ctx); err != nil {
		return err
	}
	need := samplers.Need{}
	for _, s := range r.busy {
		need = need.With(r.o.Sampler.Needs(s.n, r.steps))
	}
	if err := r.stats(need, n); err != nil {
		return err
	}
	for _, s := range r.busy {
		r.look(s, n)
		r.head.show(&r.view, need, s)
		o, err := r.o.Sampler.Choose(&r.view)
		if err == nil {
			s.opening = o
			err = r.check(s)
		}
		if err != nil {
			return fmt.Errorf("sequence %d: %w", s.seq.Index, err)
		}
	}
	for _, s := range r.busy {
		if err := r.draw(s, n); err != nil {
			return err
		}
	}
	for _, s := range r.busy {
		r.commit(s)
		s.seq.N, s.seq.Steps, s.seq.Finished = n, r.step.Steps, s.seq.Done
	}
	return nil
}

// begin finds the positions of a sequence's next step.
func (r *blocks) begin(s *blockSlot) {
	s.n++
	s.masked, s.open = s.masked[:0], s.open[:0]
	for p := s.from; p < s.to; p++ {
		switch {
		case s.seq.Tokens[p] == r.spec.Mask:
			s.masked = append(s.masked, p)
		case r.post >= 0 && r.start[p] == r.spec.Mask:
			s.open = append(s.open, p)
		}
	}
}

// pass feeds every busy sequence's current block, and blocks before it that changed.
func (r *blocks) pass(ctx context.Context) error {
	r.rows, r.batch.Read = r.rows[:0], r.batch.Read[:0]
	for _, s := range r.busy {
		base := s.row * r.o.Length
		before := len(r.rows)
		for at := 0; at < s.to; at += r.size { // positions of a block see each other
			end := min(at+r.size, s.to)
			if at == s.from || !slices.Equal(s.seen[at:end], s.seq.Tokens[at:end]) {
				for p := at; p < end; p++ {
					r.rows = append(r.rows, int32(base+p))
				}
			}
		}
		copy(r.batch.Tokens[base:], s.seq.Tokens)
		copy(s.seen, s.seq.Tokens[:s.to])
		for p := s.from; p < s.to; p++ {
			r.batch.Read = append(r.batch.Read, int32(base+p))
		}
		s.seq.Evaluated.Partial += len(r.rows) - before
	}
	m, err := r.d.Refine(ctx, &r.batch, r.rows)
	if r.last = m; err == nil && (!r.o.Filter.None() || r.o.Adjust != nil) {
		r.filtered.Of, r.last = m, &r.filtered
	}
	return err
}

// look points the view at a sequence.
func (r *blocks) look(s *blockSlot, n int) {
	v := &r.view
	v.Tokens, v.Masked, v.Open, v.Past, v.State = s.seq.Tokens, s.masked, s.open, s.past, s.state
	v.Step, v.Steps, v.Quota, v.Free = min(s.n, r.steps), r.steps, r.quota(s), r.size
	v.Rand, v.Noise = samplers.Rand(r.stream(s, n)), samplers.ForOrder
	r.visited = s
}

func (r *blocks) stream(s *blockSlot, n int) philox.Stream {
	return philox.Stream{Seed: r.o.Seed, Sequence: uint32(s.seq.Index), Step: uint32(n)}
}

// quota is the schedule's, of a whole block whatever of it was known from the start.
func (r *blocks) quota(s *blockSlot) int {
	if s.n >= r.steps {
		return len(s.masked)
	}
	open := func(n int) int { return samplers.Open(r.o.Schedule, float64(n), r.steps, r.size) }
	return min(open(s.n)-open(s.n-1), len(s.masked))
}

// check refuses an opening that breaks the rules, before anything is drawn.
func (r *blocks) check(s *blockSlot) error {
	o := &s.opening
	for j, p := range o.Positions {
		if !slices.Contains(s.masked, p) || slices.Contains(o.Positions[:j], p) {
			return fmt.Errorf("the sampler opens position %d, want masked ones of %d to %d, each once", p,
				s.from, s.to-1)
		}
	}
	for _, p := range o.Replace {
		if !slices.Contains(s.open, p) {
			return fmt.Errorf("the sampler replaces position %d, want one that this run opened in %d to %d",
				p, s.from, s.to-1)
		}
	}
	unknown := func(t int32) bool { return t < 0 || int(t) >= r.spec.Outcomes }
	if o.Tokens != nil && len(o.Tokens) != len(o.Positions) || len(o.Replacement) != len(o.Replace) ||
		slices.ContainsFunc(o.Tokens, unknown) || slices.ContainsFunc(o.Replacement, unknown) {
		return fmt.Errorf("the sampler's tokens, want one of 0 to %d for each position",
			r.spec.Outcomes-1)
	}
	if len(o.Positions) == 0 && len(s.masked) > 0 && s.n >= r.steps {
		return fmt.Errorf("the sampler opens nothing in the block's last step")
	}
	if len(o.Close) > 0 {
		return fmt.Errorf("the sampler closes positions, want one that does not: keys and values of " +
			"blocks stay")
	}
	return nil
}

// commit makes a computed step the state of the sequence.
func (r *blocks) commit(s *blockSlot) {
	q := s.seq
	q.Opened = append(q.Opened, s.pending...)
	for _, o := range s.pending {
		q.Tokens[o.Position], s.past[o.Position] = o.Token, o.LogP
	}
	for j, p := range s.opening.Replace {
		q.Tokens[p] = s.opening.Replacement[j]
	}
	wasFull := len(s.masked) == 0
	if slices.Contains(q.Tokens[s.from:s.to], r.spec.Mask) {
		return
	}
	if wasFull {
		s.after++
	}
	if r.post >= 0 && (!wasFull || len(s.opening.Replace) > 0 && s.after < r.post) {
		return // an editor looks once more
	}
	r.finish(s)
}

// finish goes on to the next block, or ends the sequence where a text has ended: the rest is then
// filled with the token that ended it.
func (r *blocks) finish(s *blockSlot) {
	for p := s.from; p < s.to; p++ {
		if t := s.seq.Tokens[p]; r.start[p] == r.spec.Mask && slices.Contains(r.spec.Ends, t) {
			for p := s.to; p < r.o.Length; p++ {
				if s.seq.Tokens[p] == r.spec.Mask {
					s.seq.Tokens[p] = t
				}
			}
			s.seq.Done = true
			return
		}
	}
	r.enter(s, s.to)
}

// checkBlocks refuses what cannot run block by block.
func (r Recipe) checkBlocks(d model.Denoiser) error {
	if r.Cache > 0 {
		return fmt.Errorf("cache is %d with reuse blocks, want 0", r.Cache)
	}
	if _, ok := samplers.As[samplers.Blocker](r.Sampler); ok {
		return fmt.Errorf("no blocks reuse with this sampler: it has blocks of its own")
	}
	if _, ok := samplers.As[samplers.Clock](r.Sampler); ok {
		return fmt.Errorf("no blocks reuse with this sampler: it has a clock of its own")
	}
	if d, err := blockwise(d, r.BlockSize); err != nil {
		return err
	} else if d.Spec().Block == 0 {
		return fmt.Errorf("no blocks reuse with this model: its positions see all others")
	}
	return nil
}
