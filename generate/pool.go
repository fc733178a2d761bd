package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"unmask/backend"
	"unmask/constrain"
	"unmask/kvcache"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Request describes one sequence for a Pool.
type Request struct {
	Recipe
	Seed   uint64
	Index  uint32 // index of the sequence under the seed
	Length int    // positions; 0 means the model's, or that of Known
	// [Length] tokens known from the start, Spec.Mask elsewhere; nil: none
	Known     []int32
	Condition *model.Condition // nil: none

	// EndTokens are tokens that end a text. Once everything before one of them is open the sequence is
	// done: positions that are still masked are filled with that token without a pass. Samplers
	// that mask or replace open tokens take all their steps.
	EndTokens []int32

	// Language, when not nil, is what a part of the sequence spells; see package constrain. Its end
	// tokens must be Ends.
	Language *constrain.Language

	// Top is the number of tokens in each Opened.Top, 0 to MaxTop. Each opened position then costs
	// one more row of the output head. The tokens of the sequence do not depend on it.
	Top int

	// Edit, when not nil, is called after each step and may change Tokens, also back to Spec.Mask, or
	// set as many others. Positions masked after the last step stay masked. An error of Edit ends the
	// sequence.
	Edit func(*Sequence) error

	// Adjust, when not nil, may change the logits (outcomes only) at a position before each draw.
	// It may be called concurrently. It runs after Filter.Adjust.
	Adjust func(position int, logits []float32)
}

// PoolOptions bound a pool. The zero value allows sequences of any length, and as many as have
// about 4096 positions together or, on a GPU, fit into its memory.
type PoolOptions struct {
	Size int // the most sequences in one step
	// the most sequences in the pool, with those that wait between their steps; 0 means Size
	Capacity int
	Length   int  // positions of the longest sequence; 0 means the model's
	Guided   bool // requests may have guidance; cached keys and values then take twice the memory
	// Store keeps keys and values of what finished sequences begin with, for later ones, also of
	// other pools of the same model; nil: none
	Store *kvcache.Store
	// WholeBatches makes Each add requests only when all sequences before them are finished.
	WholeBatches bool
}

// ErrFull is returned by Add when the pool is full.
var ErrFull = errors.New("the pool is full")

// Pool generates many different sequences at once, each with its own recipe, length, condition and
// step. Step makes one step of each, in as few passes and calls of the output head as they allow. A
// sequence's tokens depend on its request alone: they equal, byte for byte, those of Run.
//
// One goroutine at a time may use a pool. Several pools may share a model that is a model.Locker.
type Pool struct {
	d        model.Denoiser
	networks map[int]*network // by block size, 0 the model's own
	spec     model.Spec
	o        PoolOptions
	ctx      context.Context // of the current step
	members  []*member
	spare    []*member // removed members, whose memory is reused
	places   []*member // [Size] the member whose keys and values are at each place; nil: none
	out      []*Sequence
	feeder   model.Feeder // d, or nil if it is none
	view     samplers.View
	visited  *member // the member that the view shows
	busy     []*member
	group    []*member // members of one pass
	same     []*member // members of one call of the head
	pass     pass
	stage    int         // the stage being drawn
	ahead    model.Batch // candidates of a sampler that looks ahead
	cache    *kvcache.Cache
	filtered model.Filtered
	language constrain.Marginals
	sums     constrain.SumCache
	head     headWork
	choice   choice
}

// NewPool returns an empty pool.
func NewPool(d model.Denoiser, o PoolOptions) (_ *Pool, err error) {
	p := &Pool{d: d, networks: map[int]*network{}, spec: d.Spec()}
	p.feeder, _ = d.(model.Feeder)
	p.o.Guided = o.Guided
	own, err := p.network(0)
	if err != nil {
		return nil, err
	}
	longest := p.spec.Length()
	o.Length = cmp.Or(o.Length, longest)
	switch {
	case o.Length < 0 || o.Length > longest:
		return nil, fmt.Errorf("generate: length is %d, want 1 to %d", o.Length, longest)
	case o.Size < 0:
		return nil, fmt.Errorf("generate: size is %d, want 1 or more", o.Size)
	case o.Size == 0:
		o.Size = roomFor(own.d, o.Length, own.keeper != nil)
	}
	o.Capacity = cmp.Or(o.Capacity, o.Size)
	if o.Capacity < o.Size {
		return nil, fmt.Errorf("generate: most is %d, want %d or more, the size", o.Capacity, o.Size)
	}
	p.o, p.places = o, make([]*member, o.Size)
	p.view = samplers.View{Mask: p.spec.Mask, Outcomes: p.spec.Outcomes, Visit: p.visit}
	p.filtered = model.Filtered{Outcomes: p.spec.Outcomes, Adjust: p.adjust,
		Filters: func(row int32) *model.Filter { return &p.owner(row).Filter }}
	p.language = constrain.Marginals{Outcomes: p.spec.Outcomes,
		Sequence: func(index int) *constrain.Sequence { return p.pass.owners[index].speech }}
	p.head.seen = make([]int, p.room())
	return p, nil
}

// room returns the most positions of a sequence in a pass: loops may work beyond its end.
func (p *Pool) room() int {
	n := p.o.Length
	if _, blockwise := p.d.(model.Blockwise); blockwise || p.spec.Block > 0 ||
		p.spec.Causal != model.NotCausal {
		n += samplers.MaxDraft
	}
	n = min(n, p.spec.Length())
	if p.networks[0].checksRuns() {
		n += samplers.MaxDraft
	}
	if p.spec.Growth != nil {
		n = p.spec.Length()
	}
	return n
}

// guidance returns the guidance scale of a sequence of the latest pass.
func (p *Pool) guidance(sequence int, at model.Progress) (w float64, guided bool) {
	if scale := p.pass.owners[sequence].scale; scale != nil {
		return scale(at), true
	}
	return 0, false
}

// roomFor returns the default number of sequences computed at once.
func roomFor(d model.Denoiser, length int, cached bool) int {
	n := max(1, batchRows/length)
	if s, ok := d.(model.Sized); ok {
		n = cmp.Or(s.MaxSequences(length, cached), n)
	}
	return n
}

// Check fills in defaults and returns a one-line error for a request that no pool takes.
func (r Request) Check(d model.Denoiser) (Request, error) {
	spec := d.Spec()
	if r.Length == 0 {
		r.Length = spec.Length()
		if r.Known != nil {
			r.Length = len(r.Known)
		}
	}
	if err := r.checkTokens(spec); err != nil {
		return r, err
	}
	var err error
	if r.Recipe, err = r.Recipe.Complete(d, spec.CountMasked(r.StartTokens(spec))); err != nil {
		return r, err
	}
	if err := cmp.Or(r.guides(spec, r.Known), r.resizes(spec)); err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	return r, cmp.Or(
		param.RefuseUnless(r.Top >= 0 && r.Top <= MaxTop, "top", strconv.Itoa(r.Top),
			fmt.Sprint("0 to ", MaxTop), param.OutOfRange),
		r.unless(r.EndPenalty == 0 || len(r.EndTokens) > 0, "end-penalty",
			"0 where no token ends the text", param.NoEffect),
		checkEnds(r.EndTokens, spec))
}

// StartTokens returns the tokens [Length] before the first step.
func (r *Request) StartTokens(spec model.Spec) []int32 {
	if r.Known != nil {
		return r.Known
	}
	return spec.BlankTokens(r.Length)
}

// Add adds a sequence, which takes part from the next step on until it is removed. It returns an
// error if the request cannot run, or ErrFull.
func (p *Pool) Add(r Request) (*Sequence, error) {
	r, err := r.Check(p.d)
	if err != nil {
		return nil, err
	}
	if r.Length > p.o.Length {
		return nil, fmt.Errorf("generate: length is %d, want 1 to %d in this pool", r.Length, p.o.Length)
	}
	t, err := p.newTask(r)
	if err == nil {
		err = t.checkLanguage(p.spec)
	}
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	return p.join(t)
}

// join adds the sequence of a task.
func (p *Pool) join(t *task) (_ *Sequence, err error) {
	defer backend.Recover(&err)
	spec := p.spec
	spec.Shape = t.initial.shape // Given are positions of this sequence
	if err := spec.CheckCondition(t.Condition); err != nil {
		return nil, fmt.Errorf("generate: sequence %d: %w", t.Index, err)
	}
	if t.scale != nil && !p.o.Guided {
		return nil, fmt.Errorf("generate: guidance is %s, want 0 in this pool",
			param.Format(t.Guidance.Scale))
	}
	if len(p.members) >= p.o.Capacity {
		return nil, ErrFull
	}
	if t.caches() && p.cache == nil {
		p.cache = p.networks[0].keeper.NewCache(p.o.Size, p.room())
	}
	var m *member
	if n := len(p.spare); n > 0 {
		m, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		m = new(member)
	}
	l := t.initial
	*m = member{
		task: t, layout: l, place: nowhere,
		past: grow(&m.past, len(l.start)), again: t.remasks,
		cached: m.cached[:0], loop: m.loop, step: m.step.empty(),
		Tokens: append(m.Tokens[:0], l.start...),
		Sequence: Sequence{Index: int(t.Index), Opened: m.Opened[:0],
			Closed: m.Closed[:0], Replaced: m.Replaced[:0], Resized: m.Resized[:0],
			Steps: t.steps, member: m},
	}
	m.Sequence.Tokens = m.Tokens[:t.Length:t.Length]
	m.left = m.masked()
	clear(m.past)
	m.speech = m.newSpeech(&p.sums)
	p.recall(m)
	m.loop = t.newLoop(m)
	if t.stateful != nil {
		m.state = t.stateful.NewState(len(l.start))
	}
	p.members = append(p.members, m)
	return &m.Sequence, nil
}

// Remove takes a sequence out of the pool, finished or not. q must not be used afterwards.
func (p *Pool) Remove(q *Sequence) {
	m := q.member
	i := slices.Index(p.members, m)
	if i < 0 {
		return
	}
	p.members = slices.Delete(p.members, i, i+1)
	if m.place != nowhere {
		p.places[m.place], m.place = nil, nowhere
	}
	if m.speech != nil {
		m.speech.Close()
		m.speech = nil
	}
	p.spare = append(p.spare, m)
}

// Len returns the number of sequences in the pool.
func (p *Pool) Len() int { return len(p.members) }

// Step makes the next step of every unfinished sequence, or only of those in only, and returns
// them; the slice is valid until the next call. Waiting does not change a sequence's bytes. A fault
// of one sequence is set as its Err and does not affect the others. An error of Step itself wraps
// ctx.Err() or refuses `only`; no sequence has changed then.
func (p *Pool) Step(ctx context.Context, only ...*Sequence) ([]*Sequence, error) {
	if err := p.pause(only); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if err := p.compute(ctx); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	p.apply()
	return p.out, nil
}

// apply applies the computed step to the sequences and calls their Edit.
func (p *Pool) apply() {
	for _, q := range p.commit() {
		if q.Err != nil || q.member.Edit == nil {
			continue
		}
		if err := q.member.edit(p.spec); err != nil {
			q.member.fail(fmt.Errorf("generate: step %d of %d: sequence %d: edit: %w", q.N, q.Steps, q.Index,
				err))
		}
	}
}

// commit applies the computed step to the sequences and returns those that took part.
func (p *Pool) commit() []*Sequence {
	p.out = p.out[:0]
	for _, m := range p.members {
		if m.Finished = false; m.waits {
			continue
		}
		if m.Done {
			m.Opened, m.Closed, m.Replaced = m.Opened[:0], m.Closed[:0], m.Replaced[:0]
			m.Resized = m.Resized[:0]
			continue
		}
		if m.commit(); m.Finished {
			p.remember(m)
		}
		p.out = append(p.out, &m.Sequence)
	}
	return p.out
}

// compute computes the next step of every sequence without changing any.
func (p *Pool) compute(ctx context.Context) (err error) {
	defer backend.Recover(&err)
	if err := ctx.Err(); err != nil {
		return err
	}
	p.ctx = ctx
	p.view.Reset()
	p.busy = p.busy[:0]
	for _, m := range p.members {
		if m.Done || m.waits || len(m.free) == 0 {
			continue
		}
		if m.begin(); len(m.step.masked) == 0 && !m.again {
			continue
		}
		if m.pipelined != nil {
			p.setView(m)
			n, _ := slices.BinarySearch(m.step.masked, m.pipelined.Reach(&p.view))
			m.step.masked = m.step.masked[:n] // those behind do not open in the step
		}
		if d, ok := m.loop.(*draftLoop); ok {
			p.busy = append(p.busy, d.children()...)
			continue
		}
		// If the positions can be chosen without logits they are chosen first: a sequence that
		// opens none needs no pass.
		if m.step.quiet {
			m.step.decided = true
		} else if m.step.need == (samplers.Need{}) {
			if !p.rank(m) {
				p.choose(m)
				if m.step.fault != nil || len(m.step.opening.Positions) == 0 {
					continue
				}
			}
		}
		p.busy = append(p.busy, m)
	}
	p.seat()
	for len(p.busy) > 0 {
		p.group = p.takeCompatible(p.group[:0])
		if err := p.computeGroup(p.group); err != nil {
			return err
		}
	}
	for _, m := range p.members {
		if d, ok := m.loop.(*draftLoop); ok && !m.Done && !m.waits && len(m.step.masked) > 0 {
			d.collect()
		}
	}
	return nil
}

// takeCompatible moves the first busy member, and all members that fit into one pass with it, to
// group.
func (p *Pool) takeCompatible(group []*member) []*member {
	first, rest := p.busy[0], p.busy[:0]
	for _, m := range p.busy {
		if p.together(first, m) {
			group = append(group, m)
		} else {
			rest = append(rest, m)
		}
	}
	p.busy = rest
	return group
}

// together reports whether two members fit into one pass.
func (p *Pool) together(a, b *member) bool {
	return a.step.network == b.step.network && a.caches() == b.caches() &&
		(a.Reuse == NoReuse) == (b.Reuse == NoReuse) &&
		a.step.partial == b.step.partial &&
		a.step.causal == b.step.causal && a.step.how == b.step.how &&
		(p.spec.Ragged || len(a.Tokens) == len(b.Tokens)) &&
		// looking ahead replaces the marginals
		a.ahead == b.ahead && (!a.ahead || a.step.need == b.step.need && a.Greedy == b.Greedy &&
		a.filtered() == b.filtered())
}

// computeGroup makes the pass of a group and draws its tokens. If the pass fails it is repeated for
// each member alone, so that one request cannot spoil the others.
func (p *Pool) computeGroup(group []*member) error {
	lock := model.LockOf(group[0].step.network.d)
	lock.Lock()
	defer lock.Unlock()
	return p.try(group, func(group []*member) error {
		if err := p.forward(group); err != nil {
			return err
		}
		first, second := separate(p.decide(group), func(m *member) bool {
			return m.step.opening.Second != nil
		})
		if err := p.draw(first); err != nil || len(second) == 0 {
			return err
		}
		again, runs := separate(second, func(m *member) bool { return m.step.opening.Second.Run != nil })
		if len(again) > 0 {
			if err := p.try(again, p.passAgain); err != nil {
				return err
			}
		}
		if len(runs) == 0 {
			return nil
		}
		return p.try(runs, p.checkRun)
	})
}

// try calls do for all members or, if that fails, for each alone; an error then becomes that
// member's fault. try itself returns an error only if the step's context is done.
func (p *Pool) try(group []*member, do func([]*member) error) error {
	err := do(group)
	if err == nil {
		return nil
	}
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if len(group) == 1 {
		p.blame(group[0], err)
		return nil
	}
	for i := range group {
		if err := p.try(group[i:i+1], do); err != nil {
			return err
		}
	}
	return nil
}

// blame sets an error as a member's fault.
func (p *Pool) blame(m *member, err error) {
	where := ""
	if row, ok := errors.AsType[*model.RowError](err); ok {
		where, err = fmt.Sprintf(", position %d", int(row.Row)%p.pass.of.Length), row.Err
	}
	m.step.fault = fmt.Errorf("generate: step %d of %d: sequence %d%s: %w", m.N+1, m.steps,
		m.Index, where, err)
}

// healthy returns the members without a fault.
func healthy(group []*member) []*member {
	n := 0
	for _, m := range group {
		if m.step.fault == nil {
			group[n] = m
			n++
		}
	}
	return group[:n]
}
