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
	Seed uint64

	// Index is the number of the sequence under the seed: other indexes draw other tokens.
	Index uint32

	// Length is the number of positions; 0 means the model's, or that of Known.
	Length int

	// MaxLength is the number of positions that an answer may grow to where HasEnd says that it has no
	// end, 0 for Length. HasEnd is called with the tokens of a sequence of which all are open; nil
	// means that it does not grow. A samplers.Resizer needs MaxLength alone.
	MaxLength int
	HasEnd    func(tokens []int32) bool

	// AdmitGrowth, when not nil, is called before the sequence grows by a number of positions, on
	// which the recipe takes so many steps at most (with Reuse Blocks, in each block). If it returns
	// false the sequence is done as it is.
	AdmitGrowth func(positions, steps int) bool

	// Known, [Length], are the tokens known from the start, Spec.Mask elsewhere; nil means none.
	Known []int32

	// Condition is the class or the prompt; nil means none.
	Condition *model.Condition

	// EndTokens are tokens that end a text. Once one of them is settled (see Sequence.Settled), the
	// sequence is done: positions that are still masked are filled with that token without a pass.
	// A samplers.Resizer goes on, because the text may become longer again.
	EndTokens []int32

	// Language, when not nil, is what a part of the sequence spells; see package constrain. Its end
	// tokens must be among EndTokens.
	Language *constrain.Language

	// Top is the number of tokens in each OpenedPosition.Top, 0 to MaxTop. Each opened position then
	// costs one more row of the output head. The tokens of the sequence do not depend on it.
	Top int

	// Edit, when not nil, is called after each step. It may change Tokens, also back to Spec.Mask, or
	// set another slice of the same length. Positions masked after the last step stay masked. An
	// error of Edit ends the sequence.
	Edit func(*Sequence) error

	// Adjust, when not nil, may change the logits (outcomes only) at a position before each draw.
	// It may be called concurrently. It runs after Filter.Adjust.
	Adjust func(position int, logits []float32)
}

// PoolOptions bound a pool. The zero value allows sequences of any length, and as many as have
// about 4096 positions together or, on a GPU, fit into its memory.
type PoolOptions struct {
	// Size is the number of sequences in one step, at most.
	Size int

	// Capacity is the number of sequences in the pool, at most, with those that wait between their
	// steps; 0 means Size.
	Capacity int

	// Length is the number of positions of the longest sequence; 0 means the model's.
	Length int

	// Guided allows requests with guidance. Cached keys and values then take twice the memory,
	// because guidance makes two passes.
	Guided bool

	// Store keeps keys and values of what finished sequences begin with, for later ones, also of
	// other pools of the same model; nil means none.
	Store *kvcache.Store

	// WholeBatches makes Each add requests only when all sequences before them are finished.
	WholeBatches bool
}

// ErrFull is returned by Add when the pool has as many sequences as its Capacity.
var ErrFull = errors.New("the pool is full")

// Pool generates many different sequences at once, each with its own recipe, length, condition and
// step. Step makes one step of each, in as few passes and calls of the output head as they allow. A
// sequence's tokens depend on its request alone: they equal, byte for byte, those of Run.
//
// One goroutine at a time may use a pool. Several pools may share a model that is a model.Locker.
type Pool struct {
	denoiser model.Denoiser
	spec     model.Spec
	options  PoolOptions

	// feeder is the denoiser, or nil if that is not a model.Feeder.
	feeder model.Feeder

	// networks are the model with other block sizes, by size; 0 is the model's own.
	networks map[int]*network

	members []*member

	// unusedMembers are removed members, whose memory later ones take.
	unusedMembers []*member

	// cache has the keys and values of members that reuse any. It is nil until the first of them.
	cache *kvcache.Cache

	// places, [Size], has the member whose keys and values are at each place of the cache, or nil.
	places []*member

	// ctx is the context of the current step. It is kept here because samplers call back into the
	// pool (see visitLogits and lookAhead) through functions that have no context.
	ctx context.Context

	// toCompute are the members of the current step that still need a pass.
	toCompute []*member

	// pass is the latest pass.
	pass pass

	// view is what samplers read, of the member `viewed`; setView fills it.
	view   samplers.View
	viewed *member

	// filtered and constrained are the wrappers of the latest pass's marginals, for members with
	// filters and for those with a language.
	filtered    model.Filtered
	constrained constrain.Marginals
	sums        constrain.SumCache

	// Memory that is used again in each step.
	stepped     []*Sequence // the result of Step
	groupBuffer []*member   // members of one pass
	callBuffer  []*member   // members of one call of the head
	candidates  model.Batch // of a sampler that looks ahead
	head        headWork
	choice      choice
}

// NewPool returns an empty pool. It returns an error for options out of range.
func NewPool(d model.Denoiser, o PoolOptions) (_ *Pool, err error) {
	p := &Pool{denoiser: d, networks: map[int]*network{}, spec: d.Spec()}
	p.feeder, _ = d.(model.Feeder)
	p.options.Guided = o.Guided // which networkFor reads
	base, err := p.networkFor(0)
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
		o.Size = defaultSize(base.denoiser, o.Length, base.cacheMaker != nil)
	}
	o.Capacity = cmp.Or(o.Capacity, o.Size)
	if o.Capacity < o.Size {
		return nil, fmt.Errorf("generate: capacity is %d, want %d or more, the size", o.Capacity, o.Size)
	}

	p.options = o
	p.places = make([]*member, o.Size)
	p.view = samplers.View{Mask: p.spec.Mask, Outcomes: p.spec.Outcomes, Visit: p.visitLogits}
	p.filtered = model.Filtered{
		Outcomes: p.spec.Outcomes,
		Adjust:   p.adjustLogits,
		Filters:  func(row int32) *model.Filter { return &p.ownerOf(row).Filter },
	}
	p.constrained = constrain.Marginals{
		Outcomes: p.spec.Outcomes,
		Sequence: func(index int) *constrain.Sequence { return p.pass.owners[index].grammarState },
	}
	p.head.seen = make([]int, p.maxPositions())
	return p, nil
}

// maxPositions returns the most positions of a sequence in a pass. It is more than the pool's
// length where loops draft beyond the end of a sequence or where sequences grow.
func (p *Pool) maxPositions() int {
	n := p.options.Length
	_, blockwise := p.denoiser.(model.Blockwise)
	if blockwise || p.spec.Block > 0 || p.spec.Causal != model.NotCausal {
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

// guidanceScale returns the guidance scale of a sequence of the latest pass, and false if it has
// none.
func (p *Pool) guidanceScale(sequence int, progress model.Progress) (w float64, guided bool) {
	if scale := p.pass.owners[sequence].guidance; scale != nil {
		return scale(progress), true
	}
	return 0, false
}

// defaultSize returns the default number of sequences that are computed at once.
func defaultSize(d model.Denoiser, length int, cached bool) int {
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
	if err := r.checkGrowth(spec.Length(), spec.Fixed); err != nil {
		return r, err
	}

	var err error
	r.Recipe, err = r.Recipe.Complete(d, spec.CountMasked(r.StartTokens(spec)))
	if err != nil {
		return r, err
	}
	if err := r.checkGuidance(spec, r.Known); err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	if err := r.checkResizing(spec); err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	if r.Top < 0 || r.Top > MaxTop {
		return r, &param.Error{Name: "top", Found: strconv.Itoa(r.Top),
			Want: fmt.Sprint("0 to ", MaxTop), Reason: param.OutOfRange}
	}
	if r.EndPenalty != 0 && len(r.EndTokens) == 0 {
		return r, r.refuseParam("end-penalty", "0 where no token ends the text", param.NoEffect)
	}
	return r, checkEndTokens(r.EndTokens, spec)
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
	r, err := r.Check(p.denoiser)
	if err != nil {
		return nil, err
	}
	return p.addChecked(r)
}

// addChecked is Add for a request that Check returned.
func (p *Pool) addChecked(r Request) (*Sequence, error) {
	if n := r.maxLength(); n > p.options.Length {
		return nil, fmt.Errorf("generate: length is %d, want 1 to %d in this pool", n,
			p.options.Length)
	}
	t, err := p.newTask(r)
	if err == nil {
		err = t.checkLanguage(p.spec)
	}
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	return p.addTask(t)
}

// addTask adds the sequence of a task.
func (p *Pool) addTask(t *task) (_ *Sequence, err error) {
	defer backend.Recover(&err)

	spec := p.spec
	spec.Shape = t.initial.shape // the condition's positions are those of this sequence
	if err := spec.CheckCondition(t.Condition); err != nil {
		return nil, fmt.Errorf("generate: sequence %d: %w", t.Index, err)
	}
	if t.guidance != nil && !p.options.Guided {
		return nil, fmt.Errorf("generate: guidance is %s, want 0 in this pool",
			param.Format(t.Guidance.Scale))
	}
	if len(p.members) >= p.options.Capacity {
		return nil, ErrFull
	}
	if t.usesCache() && p.cache == nil {
		p.cache = p.networks[0].cacheMaker.NewCache(p.options.Size, p.maxPositions())
	}

	// The literal takes memory of the member that had it before, and clears all else: nothing of an
	// earlier request may show in this one.
	m := p.takeUnusedMember()
	start := t.initial.startTokens
	*m = member{
		task:      t,
		layout:    t.initial,
		loop:      m.loop,
		place:     noPlace,
		needsStep: t.remasks,
		cached:    m.cached[:0],
		past:      resizeBuffer(&m.past, len(start)),
		step:      m.step.emptied(),
		Tokens:    append(m.Tokens[:0], start...),
		Sequence: Sequence{
			Index:    int(t.Index),
			Steps:    t.maxSteps,
			Opened:   m.Opened[:0],
			Closed:   m.Closed[:0],
			Replaced: m.Replaced[:0],
			Resized:  m.Resized[:0],
			member:   m,
		},
	}
	// The caller sees the positions that it asked for, not those that the loop keeps behind them, and
	// the capacity ends there too, so that what it appends does not reach them.
	m.Sequence.Tokens = m.Tokens[:t.Length:t.Length]
	m.maskedLeft = m.countMasked()
	clear(m.past)
	m.grammarState = m.newGrammarState(&p.sums)
	p.findPrefix(m)
	m.loop = t.newLoop(m)
	if t.stateful != nil {
		m.samplerState = t.stateful.NewState(max(len(start), t.MaxLength))
	}
	p.members = append(p.members, m)
	return &m.Sequence, nil
}

// takeUnusedMember returns a member whose memory can be used again, or a new one.
func (p *Pool) takeUnusedMember() *member {
	last := len(p.unusedMembers) - 1
	if last < 0 {
		return new(member)
	}
	m := p.unusedMembers[last]
	p.unusedMembers = p.unusedMembers[:last]
	return m
}

// Remove takes a sequence out of the pool, finished or not. q must not be used afterwards.
func (p *Pool) Remove(q *Sequence) {
	m := q.member
	i := slices.Index(p.members, m)
	if i < 0 {
		return
	}
	p.members = slices.Delete(p.members, i, i+1)
	if m.place != noPlace {
		p.places[m.place] = nil
		m.place = noPlace
	}
	if m.grammarState != nil {
		m.grammarState.Close()
		m.grammarState = nil
	}
	p.unusedMembers = append(p.unusedMembers, m)
}

// Len returns the number of sequences in the pool.
func (p *Pool) Len() int { return len(p.members) }

// Step makes the next step of every unfinished sequence, or only of those in only, and returns
// them; the slice is valid until the next call. Waiting does not change a sequence's bytes. A fault
// of one sequence is set as its Err and does not affect the others. An error of Step itself wraps
// ctx.Err() or refuses `only`; no sequence has changed then.
func (p *Pool) Step(ctx context.Context, only ...*Sequence) ([]*Sequence, error) {
	if err := p.pauseExcept(only); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	if err := p.computeStep(ctx); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	p.applyStep()
	return p.stepped, nil
}

// applyStep applies the computed step to the sequences and calls their Edit. Computing and applying
// are two halves so that a step which fails for all leaves every sequence as it was.
func (p *Pool) applyStep() {
	p.commitStep()
	for _, q := range p.stepped {
		if q.Err != nil || q.member.Edit == nil {
			continue
		}
		if err := q.member.applyEdit(p.spec); err != nil {
			q.member.fail(fmt.Errorf("generate: step %d of %d: sequence %d: edit: %w", q.N, q.Steps,
				q.Index, err))
		}
	}
}

// commitStep applies the computed step to the sequences and sets stepped to those that took part.
func (p *Pool) commitStep() {
	p.stepped = p.stepped[:0]
	for _, m := range p.members {
		m.Finished = false
		if m.isPaused {
			continue
		}
		if m.Done {
			m.clearChanges()
			continue
		}
		m.commitStep()
		if m.Done && m.mayGrow() && m.isGrowthAdmitted() {
			if err := p.growCanvas(m); err != nil {
				m.fail(err)
			}
		}
		if m.Finished {
			p.storePrefix(m)
		}
		p.stepped = append(p.stepped, &m.Sequence)
	}
}

// computeStep computes the next step of every sequence without changing any.
func (p *Pool) computeStep(ctx context.Context) (err error) {
	defer backend.Recover(&err)
	if err := ctx.Err(); err != nil {
		return err
	}
	p.ctx = ctx
	p.view.Reset()

	p.toCompute = p.toCompute[:0]
	for _, m := range p.members {
		if !m.Done && !m.isPaused && len(m.free) > 0 {
			p.beginStep(m)
		}
	}
	p.assignPlaces()
	for len(p.toCompute) > 0 {
		p.groupBuffer = p.takeCompatible(p.groupBuffer[:0])
		if err := p.computeGroup(p.groupBuffer); err != nil {
			return err
		}
	}
	for _, m := range p.members {
		drafts, ok := m.loop.(*draftLoop)
		if ok && !m.Done && !m.isPaused && len(m.step.masked) > 0 {
			drafts.collectDrafts()
		}
	}
	return nil
}

// beginStep begins a member's step, and adds the member, or its drafts, to toCompute if the step
// needs a pass.
func (p *Pool) beginStep(m *member) {
	m.beginStep()
	if len(m.step.masked) == 0 && !m.needsStep {
		return
	}
	if m.pipelined != nil {
		p.setView(m)
		reach := m.pipelined.Reach(&p.view)
		n, _ := slices.BinarySearch(m.step.masked, reach)
		m.step.masked = m.step.masked[:n] // those behind do not open in this step
	}
	if l, ok := m.loop.(*draftLoop); ok {
		p.toCompute = append(p.toCompute, l.prepareDrafts()...)
		return
	}

	// If positions can be chosen without logits, they are chosen before the pass: a sequence that
	// opens none needs no pass.
	switch {
	case m.step.skipsSampler:
		m.step.isDecided = true
	case m.step.need == (samplers.Need{}) && !p.prepareRanking(m):
		p.callSampler(m)
		if m.step.fault != nil || len(m.step.opening.Positions) == 0 {
			return
		}
	}
	p.toCompute = append(p.toCompute, m)
}

// takeCompatible moves the first member of toCompute, and all that fit into one pass with it, to
// group.
func (p *Pool) takeCompatible(group []*member) []*member {
	first := p.toCompute[0]
	remaining := p.toCompute[:0] // in the same memory: it never gets ahead of the loop's index
	for _, m := range p.toCompute {
		if p.fitOnePass(first, m) {
			group = append(group, m)
		} else {
			remaining = append(remaining, m)
		}
	}
	p.toCompute = remaining
	return group
}

// fitOnePass reports whether two members fit into one pass.
func (p *Pool) fitOnePass(a, b *member) bool {
	s, t := &a.step, &b.step
	if s.network != t.network || s.partial != t.partial || s.causal != t.causal ||
		s.feeding != t.feeding {
		return false
	}
	if a.usesCache() != b.usesCache() || (a.Reuse == NoReuse) != (b.Reuse == NoReuse) {
		return false
	}
	if !p.spec.Ragged && len(a.Tokens) != len(b.Tokens) {
		return false
	}
	if a.looksAhead != b.looksAhead {
		return false
	}
	// Looking ahead replaces the marginals of the pass. So there must be one call of the head for
	// all, before the first sampler looks ahead.
	return !a.looksAhead || s.need == t.need && a.Greedy == b.Greedy &&
		a.isFiltered() == b.isFiltered()
}

// computeGroup makes the pass of a group and draws its tokens.
//
// The network's lock is held until the tokens are drawn, not only for the pass: marginals are valid
// until the network's next pass, which may be another pool's.
func (p *Pool) computeGroup(group []*member) error {
	lock := model.LockOf(group[0].step.network.denoiser)
	lock.Lock()
	defer lock.Unlock()
	return p.tryGroup(group, p.passAndDraw)
}

// passAndDraw makes the pass of a group, lets samplers choose, and draws the tokens of their
// choices. Some samplers ask for a second pass before they choose.
func (p *Pool) passAndDraw(group []*member) error {
	if err := p.runPass(group); err != nil {
		return err
	}
	group = p.chooseOpenings(group)
	chosen, undecided := partition(group, func(m *member) bool { return m.step.opening.Second != nil })
	if err := p.drawTokens(chosen); err != nil || len(undecided) == 0 {
		return err
	}

	passes, runs := partition(undecided, func(m *member) bool {
		return m.step.opening.Second.Run != nil
	})
	if len(passes) > 0 {
		if err := p.tryGroup(passes, p.runSecondPass); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return p.tryGroup(runs, p.checkRun)
}

// tryGroup calls do for all members together or, if that fails, for each alone; an error then
// becomes that member's fault, so that one request cannot spoil the others of its pass. tryGroup
// itself returns an error only if the step's context is done.
func (p *Pool) tryGroup(group []*member, do func([]*member) error) error {
	err := do(group)
	if err == nil {
		return nil
	}
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if len(group) == 1 {
		p.setFault(group[0], err)
		return nil
	}
	for i := range group {
		if err := p.tryGroup(group[i:i+1], do); err != nil {
			return err
		}
	}
	return nil
}

// setFault sets an error as a member's fault, with the step, the sequence and, where it is known,
// the position.
func (p *Pool) setFault(m *member, err error) {
	where := ""
	if row, ok := errors.AsType[*model.RowError](err); ok {
		where = fmt.Sprintf(", position %d", int(row.Row)%p.pass.readBatch.Length)
		err = row.Err
	}
	m.step.fault = fmt.Errorf("generate: step %d of %d: sequence %d%s: %w", m.N+1, m.Steps,
		m.Index, where, err)
}

// withoutFaults returns the members without a fault, in the memory of group.
func withoutFaults(group []*member) []*member {
	n := 0
	for _, m := range group {
		if m.step.fault == nil {
			group[n] = m
			n++
		}
	}
	return group[:n]
}
