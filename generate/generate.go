package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"unmask/backend"
	"unmask/internal/philox"
	"unmask/kvcache"
	"unmask/model"
	"unmask/samplers"
)

// Run generates o.N sequences, batch after batch, and yields every step. Sequence i depends
// on the seed and on i alone.
//
// An error ends the run and comes with the last finished step of the batch, or nil. Where
// ctx was cancelled it wraps ctx.Err().
func Run(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		r, err := newRun(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		if _, ok := samplers.As[samplers.Lookahead](r.o.Sampler); ok {
			r.view.Ahead = func(c []samplers.Opening) ([]float64, []int, error) { return r.lookAhead(ctx, c) }
		}
		for first := 0; first < r.o.N; first += r.o.Batch {
			if !r.batch(ctx, r.o.First+first, min(r.o.Batch, r.o.N-first), yield) {
				return
			}
		}
	}
}

// run is one Run; all its memory is reused from step to step.
type run struct {
	o        Options
	d        model.Denoiser
	refiner  model.Refiner // nil without cache
	spec     model.Spec
	shape    []int
	start    []int32 // tokens before the first step
	free     []int   // positions masked at the start
	steps    int
	blocks   int
	adapts   bool // the sampler plans for itself
	remasks  bool
	clock    samplers.Clock
	stateful samplers.Stateful

	n     int // the step that is being computed
	step  Step
	slots []slot // of the batch's sequences
	busy  []*slot
	view  samplers.View

	pass     model.Batch
	owners   []*slot     // of the sequences of the latest pass
	ahead    model.Batch // of candidates
	cache    *kvcache.Cache
	filtered model.Filtered
	last     model.Marginals // of the latest pass, filtered
	chooser  model.Chooser   // of the latest pass, nil where the host chooses
	visited  *slot
	head     headWork
	choice   choice
}

// slot is a sequence's place in the batch.
type slot struct {
	seq        *Sequence
	left       int // free positions that are masked
	past       []float64
	masked     []int
	open       []int // where a sampler may close positions
	state      any   // the sampler's
	row        int   // where it stands in the pass
	at, openAt int   // where its masked, and open, rows begin in the head's work
	n, steps   int   // of its block
	from, to   int   // the block, in run.free
	size       int   // positions of the block
	opening    samplers.Opening
	ends       []int // of the stages in opening.Positions
	drawn      int   // stages whose tokens are there
	pending    []Opened
	work       Evaluated

	refreshed, refreshedFrom int // step and block of its last full pass, for reuse
}

func newRun(d model.Denoiser, o Options) (_ *run, err error) {
	defer backend.Recover(&err)
	if o, err = o.Check(d); err != nil {
		return nil, err
	}
	r := &run{o: o, d: d, spec: d.Spec(), shape: d.Spec().Shape}
	if o.Length != r.spec.Length() {
		r.shape = []int{o.Length}
	}
	r.start = slices.Clone(o.Tokens)
	if r.start == nil {
		r.start = slices.Repeat([]int32{r.spec.Mask}, o.Length)
	}
	for p, t := range r.start {
		if t == r.spec.Mask {
			r.free = append(r.free, p)
		}
	}
	if r.steps, r.blocks, err = o.Recipe().plan(len(r.free)); err != nil {
		return nil, err
	}
	_, r.adapts = samplers.As[samplers.Planner](o.Sampler)
	_, r.remasks = samplers.As[samplers.Remasker](o.Sampler)
	r.clock, _ = samplers.As[samplers.Clock](o.Sampler)
	r.stateful, _ = samplers.As[samplers.Stateful](o.Sampler)
	r.allocate()
	return r, nil
}

func (r *run) allocate() {
	size, length := r.o.Batch, r.o.Length
	r.step.Sequences = make([]Sequence, size)
	r.slots = make([]slot, size)
	r.busy = make([]*slot, 0, size)
	r.pass = model.Batch{Length: length, Tokens: make([]int32, 0, size*length), Time: make([]float64, 0, size)}
	for i := range r.slots {
		r.step.Sequences[i].Tokens = make([]int32, length)
		r.slots[i] = slot{past: make([]float64, length), masked: make([]int, 0, length), pending: make([]Opened, 0, length)}
	}
	if r.o.Cache > 0 || r.o.Reuse != NoReuse {
		r.refiner = r.d.(model.Refiner)
		r.cache = r.refiner.NewCache(size, length)
	}
	r.filtered = model.Filtered{Filter: &r.o.Filter, Outcomes: r.spec.Outcomes}
	if r.o.Adjust != nil {
		before := r.o.Filter.Adjust
		r.o.Filter.Adjust = func(row int32, logits []float32) {
			if before != nil {
				before(row, logits)
			}
			r.adjust(row, logits)
		}
	}
	r.view = samplers.View{Mask: r.spec.Mask, Outcomes: r.spec.Outcomes, Shape: r.shape, Visit: r.visit}
	r.head.seen = make([]int, length)
}

// adjust tells Options.Adjust which sequence and position a row is.
func (r *run) adjust(row int32, logits []float32) {
	length := r.o.Length
	r.o.Adjust(r.owners[int(row)/length].seq.Index, int(row)%length, logits)
}

// batch runs sequences first..first+count-1 to their end; false stops the run.
func (r *run) batch(ctx context.Context, first, count int, yield func(*Step, error) bool) bool {
	r.step = Step{Steps: r.steps, Sequences: r.step.Sequences[:count]}
	r.slots = r.slots[:count]
	r.pass.Tokens = r.pass.Tokens[:0]
	for i := range r.slots {
		s := &r.slots[i]
		s.seq, s.left, s.refreshed = &r.step.Sequences[i], len(r.free), 0
		*s.seq = Sequence{Index: first + i, Tokens: s.seq.Tokens, Opened: s.seq.Opened[:0], Closed: s.seq.Closed[:0], Done: len(r.free) == 0}
		copy(s.seq.Tokens, r.start)
		clear(s.past)
		if r.stateful != nil {
			s.state = r.stateful.NewState(r.o.Length)
		}
	}
	if len(r.free) == 0 {
		r.step.Done = true
		return yield(&r.step, nil)
	}
	var finished *Step
	for n := 1; !r.step.Done; n++ {
		began := time.Now()
		err := ctx.Err()
		if err == nil {
			err = r.do(ctx, n)
		}
		if err != nil {
			yield(finished, r.explain(err, n))
			return false
		}
		r.commit(n)
		r.step.Seconds = time.Since(began).Seconds()
		if err := r.edit(n); err != nil {
			yield(finished, err)
			return false
		}
		finished = &r.step
		if !yield(finished, nil) {
			return false
		}
	}
	return true
}

// explain says where an error happened, in terms of the run.
func (r *run) explain(err error, n int) error {
	if row, ok := errors.AsType[*model.RowError](err); ok && int(row.Row)/r.o.Length < len(r.owners) {
		at := int(row.Row)
		err = fmt.Errorf("sequence %d, position %d: %w", r.owners[at/r.o.Length].seq.Index, at%r.o.Length, row.Err)
	}
	return fmt.Errorf("generate: step %d of %d: %w", n, r.steps, err)
}

// do computes a step without touching what the last one left.
func (r *run) do(ctx context.Context, n int) error {
	r.n = n
	r.view.Reset()
	r.gather(n)
	if len(r.busy) == 0 {
		return nil
	}
	step, steps := n, r.steps
	if !r.adapts {
		step, steps = r.busy[0].n, r.busy[0].steps // the same for all
	}
	need := r.o.Sampler.Needs(step, steps)
	// Positions that need no logits are chosen first: sequences that open none need no pass.
	blind := need == samplers.Need{}
	ranking, onDevice := r.ranking(step, steps) // by the pass before
	if blind && !onDevice {
		if err := r.choose(need); err != nil {
			return err
		}
		r.busy = slices.DeleteFunc(r.busy, func(s *slot) bool { return len(s.opening.Positions) == 0 })
		if len(r.busy) == 0 {
			return nil
		}
	}
	if err := r.forward(ctx); err != nil {
		return err
	}
	if !blind {
		ranking, onDevice = r.ranking(step, steps)
	}
	switch {
	case onDevice:
		if err := r.chooseOnDevice(need, ranking); err != nil {
			return err
		}
	case !blind:
		if err := r.stats(need); err != nil {
			return err
		}
		if err := r.choose(need); err != nil {
			return err
		}
	}
	return r.draw(ctx, onDevice)
}

// gather finds the sequences that this step is for and their masked positions.
func (r *run) gather(n int) {
	r.busy = r.busy[:0]
	for i := range r.slots {
		s := &r.slots[i]
		s.pending, s.opening, s.work = s.pending[:0], samplers.Opening{}, Evaluated{}
		if s.seq.Done {
			continue
		}
		from, to := r.window(s, n)
		s.masked, s.open = s.masked[:0], s.open[:0]
		for _, p := range r.free[from:to] {
			if s.seq.Tokens[p] == r.spec.Mask {
				s.masked = append(s.masked, p)
			} else if r.remasks {
				s.open = append(s.open, p)
			}
		}
		if len(s.masked) > 0 || r.remasks {
			r.busy = append(r.busy, s)
		}
	}
}

// window is the part of r.free that may open now, and the sequence's step in it.
func (r *run) window(s *slot, n int) (from, to int) {
	free, b := len(r.free), 0
	if r.blocks > 1 && r.adapts { // the first block with anything masked
		for i, p := range r.free {
			if s.seq.Tokens[p] == r.spec.Mask {
				b = ((i+1)*r.blocks - 1) / free
				break
			}
		}
	} else if r.blocks > 1 {
		b = (n*r.blocks - 1) / r.steps
	}
	from, to = b*free/r.blocks, (b+1)*free/r.blocks
	s.n, s.steps, s.size, s.from, s.to = n, r.steps, to-from, from, to
	if !r.adapts {
		begin := b * r.steps / r.blocks
		s.n, s.steps = n-begin, (b+1)*r.steps/r.blocks-begin
	}
	return from, to
}

// forward makes a full pass over the busy sequences.
func (r *run) forward(ctx context.Context) error {
	if r.o.Reuse != NoReuse {
		return r.reuse(ctx)
	}
	r.pass.Size, r.pass.Tokens, r.pass.Time, r.pass.Cache = len(r.busy), r.pass.Tokens[:0], r.pass.Time[:0], r.cache
	r.owners = r.owners[:0]
	r.pass.Read = r.pass.Read[:0]
	for i, s := range r.busy {
		s.row = i
		r.owners = append(r.owners, s)
		r.reads(s)
		s.work.Full++
		r.pass.Tokens = append(r.pass.Tokens, s.seq.Tokens...)
		r.pass.Time = append(r.pass.Time, r.time(s))
	}
	m, err := r.d.Forward(ctx, &r.pass)
	if err != nil {
		return err
	}
	r.use(m)
	return nil
}

// reads adds the rows that a step reads of a sequence: those that a sampler chose already, or
// all that it may choose or close.
func (r *run) reads(s *slot) {
	base := s.row * r.o.Length
	for _, list := range [][]int{s.opening.Positions, s.masked, s.open} {
		for _, p := range list {
			r.pass.Read = append(r.pass.Read, int32(base+p))
		}
		if len(s.opening.Positions) > 0 {
			return
		}
	}
}

// time is the sampler's, or the fraction that is masked.
func (r *run) time(s *slot) float64 {
	if r.clock != nil && !s.seq.Done {
		r.look(s)
		return r.clock.Time(&r.view)
	}
	return float64(s.left) / float64(r.o.Length)
}

func (r *run) use(m model.Marginals) {
	if r.last = m; !r.o.Filter.None() {
		r.filtered.Of = m
		r.last = &r.filtered
	}
	if r.chooser, _ = r.last.(model.Chooser); r.chooser != nil && !r.chooser.Chooses() {
		r.chooser = nil
	}
}

// choose asks the sampler for each busy sequence.
func (r *run) choose(need samplers.Need) error {
	v := &r.view
	for _, s := range r.busy {
		r.look(s)
		r.head.show(v, need, s)
		o, err := r.o.Sampler.Choose(v)
		if err == nil {
			s.opening = o
			err = r.check(s)
		}
		if err != nil {
			return fmt.Errorf("sequence %d: %w", s.seq.Index, err)
		}
	}
	return nil
}

// look points the view at a sequence.
func (r *run) look(s *slot) {
	v := &r.view
	v.Tokens, v.Masked, v.Open, v.Past, v.State = s.seq.Tokens, s.masked, s.open, s.past, s.state
	v.Step, v.Steps, v.Quota, v.Free = s.n, s.steps, r.quota(s), s.size
	v.Rand, v.Noise = samplers.Rand(r.stream(s)), samplers.ForOrder
	r.visited = s
}

// quota is how many positions the schedule opens.
func (r *run) quota(s *slot) int {
	masked := len(s.masked)
	if s.n >= s.steps {
		return masked
	}
	open := samplers.Open(r.o.Schedule, float64(s.n), s.steps, s.size)
	least := min(1, masked)
	if _, ok := r.o.Schedule.(samplers.Idler); ok {
		least = 0
	}
	return max(least, min(open-(s.size-masked), masked))
}

func (r *run) stream(s *slot) philox.Stream {
	return philox.Stream{Seed: r.o.Seed, Sequence: uint32(s.seq.Index), Step: uint32(r.n)}
}

// check refuses an opening that breaks the rules, before anything is drawn.
func (r *run) check(s *slot) error {
	o := &s.opening
	r.head.stamp++
	for _, p := range s.masked {
		r.head.seen[p] = r.head.stamp
	}
	for j, p := range o.Positions {
		switch {
		case p < 0 || p >= r.o.Length:
			return fmt.Errorf("the sampler opens position %d, want 0 to %d", p, r.o.Length-1)
		case s.seq.Tokens[p] != r.spec.Mask:
			return fmt.Errorf("the sampler opens position %d, which is open", p)
		case r.head.seen[p] == -r.head.stamp:
			return fmt.Errorf("the sampler opens position %d twice", p)
		case r.head.seen[p] != r.head.stamp:
			return fmt.Errorf("the sampler opens position %d, which may not open at this step", p)
		case o.Tokens != nil && (len(o.Tokens) != len(o.Positions) || o.Tokens[j] < 0 || int(o.Tokens[j]) >= r.spec.Outcomes):
			return fmt.Errorf("the sampler's tokens, want one of 0 to %d for each position", r.spec.Outcomes-1)
		}
		r.head.seen[p] = -r.head.stamp
	}
	if o.Tokens != nil && r.o.Cache > 0 {
		return fmt.Errorf("no cache with this sampler: it draws tokens itself")
	}
	for _, p := range o.Close {
		if p < 0 || p >= r.o.Length || s.seq.Tokens[p] == r.spec.Mask || r.start[p] != r.spec.Mask {
			return fmt.Errorf("the sampler closes position %d, want one that this run opened", p)
		}
	}
	if left := len(s.masked) - len(o.Positions) + len(o.Close); s.n >= s.steps && left > 0 {
		return fmt.Errorf("the sampler leaves %d positions masked in its last step", left)
	}
	return nil
}

// commit makes a computed step the state of its sequences.
func (r *run) commit(n int) {
	r.step.N, r.step.Done = n, true
	for i := range r.slots {
		s := &r.slots[i]
		q := s.seq
		q.Opened = append(q.Opened[:0], s.pending...)
		q.Closed = append(q.Closed[:0], s.opening.Close...)
		for _, o := range s.pending {
			q.Tokens[o.Position] = o.Token
			s.past[o.Position] = o.LogP
		}
		for _, p := range s.opening.Close {
			q.Tokens[p] = r.spec.Mask
			s.past[p] = 0
		}
		s.left += len(q.Closed) - len(q.Opened)
		q.Evaluated.Full += s.work.Full
		q.Evaluated.Partial += s.work.Partial
		q.Evaluated.Head += s.work.Head
		r.finish(s, n)
	}
}

func (r *run) finish(s *slot, n int) {
	s.seq.Done = n >= r.steps || s.left == 0 && !r.remasks
	r.step.Done = r.step.Done && s.seq.Done
}

// edit lets the caller change the sequences.
func (r *run) edit(n int) error {
	if r.o.Edit == nil {
		return nil
	}
	if err := r.o.Edit(&r.step); err != nil {
		return fmt.Errorf("generate: step %d of %d: edit: %w", n, r.steps, err)
	}
	r.step.Done = true
	for i := range r.slots {
		s := &r.slots[i]
		if err := checkRange(s.seq.Tokens, r.spec); err != nil {
			return fmt.Errorf("%w, after the edit of sequence %d", err, s.seq.Index)
		}
		s.left = 0
		for _, p := range r.free {
			if s.seq.Tokens[p] == r.spec.Mask {
				s.left++
			}
		}
		r.finish(s, n)
	}
	return nil
}
