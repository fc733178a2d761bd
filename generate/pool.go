package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Request is one sequence that a Pool is asked for.
type Request struct {
	Recipe
	Seed   uint64
	Index  uint32 // the sequence of the seed
	Length int    // positions; 0 means the model's, or that of Known
	// [Length] what is known from the start, Spec.Mask elsewhere; nil: nothing
	Known     []int32
	Condition *model.Condition // nil: none
	Ends      []int32          // tokens that end the sequence, see Options

	// Edit, when not nil, is called after each step and may change Tokens, also back to Spec.Mask.
	// What it leaves masked after the last step stays so. Its error ends the sequence.
	Edit func(*Sequence) error

	// Adjust, when not nil, may change the logits (outcomes only) at a position before each draw,
	// perhaps from several goroutines. It comes after Filter.Adjust.
	Adjust func(position int, logits []float32)
}

// PoolOptions bound a pool. The zero value is sequences of any length, about 4096 positions of
// them, on a GPU what fits into its memory.
type PoolOptions struct {
	Size   int  // sequences of one step
	Most   int  // sequences in the pool, those that wait between their steps too; 0 means Size
	Length int  // positions of the longest; 0 means the model's
	Guided bool // requests may have guidance; kept keys and values then take twice the memory
}

// ErrFull is the error of Add while a pool is full.
var ErrFull = errors.New("the pool is full")

// Pool generates unlike sequences at once: each with its own recipe, length, condition and step.
// Every Step makes one step of each, in as few passes and calls of the output head as they allow. A
// sequence's tokens depend on its request alone: they are the bytes that Run gives it.
//
// One goroutine at a time may use a pool. Several pools may share a model that is a model.Turner.
type Pool struct {
	d        model.Denoiser
	networks map[int]*network // by size of blocks, 0 the model's own
	spec     model.Spec
	o        PoolOptions
	ctx      context.Context // of the current step
	members  []*member
	spare    []*member // whose memory is free
	places   []*member // [Size] whose keys and values are at a place; nil: nobody's
	out      []*Sequence
	chooses  bool // the device of the latest pass can choose
	view     samplers.View
	visited  *member // whose view it is
	busy     []*member
	group    []*member // of one pass
	same     []*member // of one call of the head
	pass     pass
	stage    int         // that is drawn
	ahead    model.Batch // of candidates
	cache    *kvcache.Cache
	filtered model.Filtered
	head     headWork
	choice   choice
}

// NewPool returns an empty pool.
func NewPool(d model.Denoiser, o PoolOptions) (_ *Pool, err error) {
	p := &Pool{d: d, networks: map[int]*network{}, spec: d.Spec()}
	p.o.Guided = o.Guided
	own, err := p.network(0)
	if err != nil {
		return nil, err
	}
	longest := p.spec.Length()
	if o.Length == 0 {
		o.Length = longest
	}
	switch {
	case o.Length < 0 || o.Length > longest:
		return nil, fmt.Errorf("generate: length is %d, want 1 to %d", o.Length, longest)
	case o.Size < 0:
		return nil, fmt.Errorf("generate: size is %d, want 1 or more", o.Size)
	case o.Size == 0:
		o.Size = roomFor(own.d, o.Length, own.refiner != nil)
	}
	if o.Most == 0 {
		o.Most = o.Size
	}
	if o.Most < o.Size {
		return nil, fmt.Errorf("generate: most is %d, want %d or more, the size", o.Most, o.Size)
	}
	p.o, p.places = o, make([]*member, o.Size)
	p.view = samplers.View{Mask: p.spec.Mask, Outcomes: p.spec.Outcomes, Visit: p.visit}
	p.filtered = model.Filtered{Outcomes: p.spec.Outcomes, Filters: p.filterOf, Adjust: p.adjust}
	p.head.seen = make([]int, o.Length)
	return p, nil
}

// guidance returns how much the condition of a sequence of the latest pass pulls.
func (p *Pool) guidance(sequence int, at model.Progress) (w float64, guided bool) {
	if scale := p.pass.owners[sequence].scale; scale != nil {
		return scale(at), true
	}
	return 0, false
}

// roomFor is how many sequences are computed at once where no number is asked for.
func roomFor(d model.Denoiser, length int, cached bool) int {
	n := max(1, batchRows/length)
	if s, ok := d.(model.Sized); ok {
		n = cmp.Or(s.Fit(length, cached), n)
	}
	return n
}

// Add lets a sequence take part from the next step on, until it is removed. The error is that of a
// request that cannot run, or ErrFull.
func (p *Pool) Add(r Request) (*Sequence, error) {
	o := Options{Length: r.Length, Tokens: r.Known}
	o.defaultLength(p.spec)
	if err := o.checkTokens(p.spec); err != nil {
		return nil, err
	}
	if o.Length > p.o.Length {
		return nil, fmt.Errorf("generate: length is %d, want 1 to %d in this pool", o.Length, p.o.Length)
	}
	recipe, err := r.Recipe.Fit(p.d, free(r.Known, p.spec.Mask, o.Length))
	if err != nil {
		return nil, err
	}
	if err := recipe.guides(p.spec, r.Known); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if err := checkEnds(r.Ends, p.spec); err != nil {
		return nil, err
	}
	t, err := p.task(recipe, r.Seed, o.Length, r.Known, r.Ends)
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if t.edit = r.Edit; r.Adjust != nil {
		t.adjust = func(_, position int, logits []float32) { r.Adjust(position, logits) }
	}
	return p.join(t, int(r.Index), r.Condition)
}

// join adds a sequence of a task.
func (p *Pool) join(t *task, index int, c *model.Condition) (_ *Sequence, err error) {
	defer backend.Recover(&err)
	if c == nil && t.scale != nil {
		c = t.given
	}
	if err := p.spec.CheckCondition(c); err != nil {
		return nil, fmt.Errorf("generate: sequence %d: %w", index, err)
	}
	if t.scale != nil && !p.o.Guided {
		return nil, fmt.Errorf("generate: guidance is %s, want 0 in this pool",
			param.Format(t.Guidance.Scale))
	}
	if len(p.members) >= p.o.Most {
		return nil, ErrFull
	}
	if t.cached() && p.cache == nil {
		p.cache = p.networks[0].refiner.NewCache(p.o.Size, p.o.Length)
	}
	var m *member
	if n := len(p.spare); n > 0 {
		m, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		m = new(member)
	}
	*m = member{
		task: t, condition: c, place: nowhere, left: len(t.free), past: grow(&m.past, len(t.start)),
		Sequence: Sequence{Index: index, Tokens: append(m.Tokens[:0], t.start...), Opened: m.Opened[:0],
			Closed: m.Closed[:0], Replaced: m.Replaced[:0],
			Steps: t.steps, member: m},
		now: now{masked: m.masked[:0], open: m.open[:0], ends: m.ends[:0], pending: m.pending[:0]},
	}
	m.cache.tokens = m.cache.tokens[:0]
	clear(m.past)
	if t.stateful != nil {
		m.state = t.stateful.NewState(len(t.start))
	}
	p.members = append(p.members, m)
	return &m.Sequence, nil
}

// Remove takes a sequence out of the pool, finished or not. It must not be used afterwards.
func (p *Pool) Remove(q *Sequence) {
	for i, m := range p.members {
		if m == q.member {
			p.members = append(p.members[:i], p.members[i+1:]...)
			p.leave(m)
			p.spare = append(p.spare, m)
			return
		}
	}
}

// Len returns how many sequences are in the pool.
func (p *Pool) Len() int { return len(p.members) }

// Step makes the next step of every sequence that is not done, or of those in only, and returns
// these; the slice is valid until the next call. The others wait, which changes none of their
// bytes. What goes wrong with one sequence is its Err and the others do not see it. The error of
// Step itself wraps ctx.Err() or is about only: no sequence has changed.
func (p *Pool) Step(ctx context.Context, only ...*Sequence) ([]*Sequence, error) {
	if err := p.pause(only); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if err := p.compute(ctx); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	for _, q := range p.commit() {
		if q.Err != nil || q.member.edit == nil {
			continue
		}
		err := q.member.edit(q)
		if err == nil {
			err = q.member.edited(p.spec)
		}
		if err != nil {
			q.member.fail(fmt.Errorf("generate: step %d of %d: sequence %d: edit: %w", q.N, q.Steps, q.Index,
				err))
		}
	}
	return p.out, nil
}

// commit makes the computed step the state of the sequences, and returns those that took part.
func (p *Pool) commit() []*Sequence {
	p.out = p.out[:0]
	for _, m := range p.members {
		if m.Finished = false; m.waits {
			continue
		}
		if m.Done {
			m.Opened, m.Closed, m.Replaced = m.Opened[:0], m.Closed[:0], m.Replaced[:0]
			continue
		}
		m.commit(p.spec.Mask)
		p.out = append(p.out, &m.Sequence)
	}
	return p.out
}

// compute works out the next step of every sequence, without changing any.
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
		if m.begin(p.spec.Mask); len(m.masked) == 0 && !m.remasks && !m.block.again {
			continue
		}
		// Positions that need no logits are chosen first: sequences that open none need no pass.
		if m.need == (samplers.Need{}) {
			if !p.rank(m) {
				p.choose(m)
				if m.fault != nil || len(m.opening.Positions) == 0 {
					continue
				}
			}
		}
		p.busy = append(p.busy, m)
	}
	p.seat()
	for len(p.busy) > 0 {
		p.group = p.like(p.group[:0])
		if err := p.computeGroup(p.group); err != nil {
			return err
		}
	}
	return nil
}

// like moves the first busy member, and all that can be in one pass with it, to group.
func (p *Pool) like(group []*member) []*member {
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

// together reports whether two members can be in one pass.
func (p *Pool) together(a, b *member) bool {
	return a.network == b.network && a.cached() == b.cached() &&
		(a.Reuse == NoReuse) == (b.Reuse == NoReuse) &&
		a.partial() == b.partial() &&
		(p.spec.Ragged || len(a.Tokens) == len(b.Tokens)) &&
		// looking ahead takes the marginals away
		a.ahead == b.ahead && (!a.ahead || a.need == b.need && a.filtered() == b.filtered())
}

// computeGroup makes the pass of a group and draws its tokens. Where a pass fails, it is made for
// each alone, so that one request cannot spoil the others'.
func (p *Pool) computeGroup(group []*member) error {
	turn := model.Turn(group[0].network.d)
	turn.Lock()
	defer turn.Unlock()
	return p.try(group, func(group []*member) error {
		if err := p.forward(group); err != nil {
			return err
		}
		return p.draw(p.decide(group))
	})
}

// try does something for members or, if that fails, for each alone, and makes what fails then a
// member's fault. An error is that of the step's context.
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

// blame makes an error the fault of a member.
func (p *Pool) blame(m *member, err error) {
	where := ""
	if row, ok := errors.AsType[*model.RowError](err); ok {
		where, err = fmt.Sprintf(", position %d", int(row.Row)%p.pass.of.Length), row.Err
	}
	m.fault = fmt.Errorf("generate: step %d of %d: sequence %d%s: %w", m.N+1, m.steps, m.Index, where,
		err)
}

// well returns the members without a fault.
func well(group []*member) []*member {
	n := 0
	for _, m := range group {
		if m.fault == nil {
			group[n] = m
			n++
		}
	}
	return group[:n]
}
