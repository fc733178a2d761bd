package generate

import (
	"slices"

	"unmask/model"
)

// pass is the latest pass over sequences of the pool, and the memory for the next.
type pass struct {
	// batch is what a network computes: runPass, runSecondPass and checkRun fill it. refineStage only
	// changes tokens in it.
	batch model.Batch

	// owners are the members by their index in the batch. What a wrapper of marginals (filters,
	// guidance, a language) asks of a sequence, it asks of its owner, so every function that makes a
	// pass sets owners before it.
	owners []*member

	// marginals are those of the pass, over readBatch: batch, or the candidates of a sampler that
	// looks ahead. chooser is the marginals if their device can choose, and otherwise nil.
	marginals model.Marginals
	readBatch *model.Batch
	chooser   model.Chooser

	// rows are the rows of a partial pass.
	rows []int32

	// firstByHash has, by the hash of its tokens, the first sequence of the pass with them.
	firstByHash map[uint64]int

	// Memory of the batch's fields.
	lengths    []int
	places     []int
	conditions []*model.Condition
	visible    [][]int32
	shadows    [][]int32
}

// runPass computes the pass of a group: a full pass or, if keys and values of earlier steps are
// reused, a partial one.
func (p *Pool) runPass(group []*member) error {
	b := &p.pass.batch
	p.shareSequences(group)
	p.fillBatch(b, p.pass.owners)
	p.pass.rows = p.pass.rows[:0]
	for _, m := range group {
		p.addMemberRows(b, m)
	}
	if len(p.pass.owners) < len(group) { // rows of shared sequences were added twice
		slices.Sort(b.ReadRows)
		b.ReadRows = slices.Compact(b.ReadRows)
	}

	marginals, err := p.callNetwork(b, &group[0].step.span)
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	p.observePass()
	if err := p.letTextsGrow(group); err != nil {
		return err
	}
	for _, m := range group {
		m.loop.recordPass()
		if l, ok := m.loop.(*specLoop); ok && m.step.skipsSampler {
			if err := l.fillDraft(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMemberRows adds the rows that the pass computes and reads for a member.
func (p *Pool) addMemberRows(b *model.Batch, m *member) {
	base := m.step.batchIndex * b.Length
	m.step.firstShadow = len(m.Tokens)
	m.step.computedRows = len(m.Tokens) + len(m.step.shadows)
	if m.step.visiblePositions != nil {
		m.step.computedRows = len(m.step.visiblePositions)
	}
	p.addReadRows(b, m)
	if l, ok := m.loop.(*specLoop); ok {
		l.insertDraft(b.Tokens[base : base+len(m.Tokens)])
		for _, position := range l.draftMasks() {
			b.ReadRows = append(b.ReadRows, int32(base+position))
		}
	}
	if m.step.partial {
		rowsBefore := len(p.pass.rows)
		p.pass.rows = m.loop.appendPartialRows(p.pass.rows, base)
		m.step.computedRows = len(p.pass.rows) - rowsBefore
	}
	if m.grammarState != nil {
		p.addGrammarRows(b, m)
	}
}

// callNetwork makes the pass that a span describes.
func (p *Pool) callNetwork(b *model.Batch, s *span) (model.Marginals, error) {
	switch {
	case s.causal: // only without guidance, which checkCausal sees to: feeder is not wrapped in it
		return p.feeder.Feed(p.ctx, b, p.pass.rows, s.feeding)
	case s.partial:
		return s.network.refiner.Refine(p.ctx, b, p.pass.rows)
	}
	return s.network.denoiser.Forward(p.ctx, b)
}

// shareSequences chooses which members own a sequence of the next pass, and sets each member's
// index in it. Members whose passes and marginals are equal, such as variants of one text before
// their first step, share one.
func (p *Pool) shareSequences(group []*member) {
	if p.pass.firstByHash == nil {
		p.pass.firstByHash = map[uint64]int{}
	}
	clear(p.pass.firstByHash)
	p.pass.owners = p.pass.owners[:0]
	for _, m := range group {
		m.step.batchIndex = len(p.pass.owners)
		if m.canShare() {
			key := hashTokens(m.Tokens)
			first, ok := p.pass.firstByHash[key]
			if ok && p.haveEqualPasses(p.pass.owners[first], m) {
				m.step.batchIndex = first
				continue
			}
			p.pass.firstByHash[key] = m.step.batchIndex
		}
		p.pass.owners = append(p.pass.owners, m)
	}
}

// canShare reports whether a member's pass is that of its tokens alone, so that members with equal
// tokens can have one: neither its cache, its places, its language nor what changes logits counts.
func (m *member) canShare() bool {
	s := &m.step
	if m.usesCache() || s.causal || s.visiblePositions != nil || s.shadows != nil {
		return false
	}
	if m.grammarState != nil || m.guidance != nil || m.Adjust != nil || m.Filter.Adjust != nil {
		return false
	}
	return len(s.forbidden) == 0 && s.endPenalty == 0
}

// haveEqualPasses reports whether two members that share have equal passes and marginals.
func (p *Pool) haveEqualPasses(a, b *member) bool {
	return slices.Equal(a.Tokens, b.Tokens) && a.Condition == b.Condition &&
		p.passTime(a) == p.passTime(b) && a.Filter.Equal(&b.Filter)
}

// hashTokens returns the FNV-1a hash of tokens (Fowler, Noll and Vo), a whole token at a time. Two
// sequences with one hash are compared token by token, so a collision costs at most a shared pass.
func hashTokens(tokens []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h
}

// fillBatch fills b with the sequences of owners, without rows to read. A field that no sequence
// needs is nil, because networks take shorter ways then.
func (p *Pool) fillBatch(b *model.Batch, owners []*member) {
	first := owners[0]
	b.Size = len(owners)
	b.Length = 0
	b.CacheReused = first.Reuse != NoReuse
	b.Cache = nil
	if first.usesCache() {
		b.Cache = p.cache
	}
	for _, m := range owners {
		b.Length = max(b.Length, m.batchLength())
	}

	b.Tokens = b.Tokens[:0]
	b.Time = b.Time[:0]
	b.ReadRows = b.ReadRows[:0]
	b.Steps = b.Steps[:0]
	b.LastOpened = b.LastOpened[:0]
	b.Lengths = p.pass.lengths[:0]
	b.Conditions = p.pass.conditions[:0]
	b.Places = p.pass.places[:0]
	b.Kept = p.pass.visible[:0]
	b.Shadows = p.pass.shadows[:0]
	var ragged, conditions, visible, shadows bool
	for _, m := range owners {
		b.Tokens = append(b.Tokens, m.Tokens...)
		for len(b.Tokens)%b.Length != 0 { // up to the longest of the batch; Lengths hides these
			b.Tokens = append(b.Tokens, p.spec.Mask)
		}
		used := m.batchLength()
		ragged = ragged || used != first.batchLength()
		if m.step.causal || m.step.cutsLength {
			ragged = true
			used = m.step.visible
		}
		condition := m.passCondition(&p.spec)
		conditions = conditions || condition != nil
		visible = visible || m.step.visiblePositions != nil
		shadows = shadows || m.step.shadows != nil
		b.Time = append(b.Time, p.passTime(m))
		b.Steps = append(b.Steps, model.Progress{N: m.canvasSteps() + 1, Steps: m.maxSteps})
		b.LastOpened = append(b.LastOpened, m.lastOpened())
		b.Lengths = append(b.Lengths, used)
		b.Conditions = append(b.Conditions, condition)
		b.Places = append(b.Places, m.place)
		b.Kept = append(b.Kept, m.step.visiblePositions)
		b.Shadows = append(b.Shadows, m.step.shadows)
	}

	p.pass.lengths = b.Lengths
	p.pass.conditions = b.Conditions
	p.pass.places = b.Places
	p.pass.visible = b.Kept
	p.pass.shadows = b.Shadows
	if !visible {
		b.Kept = nil
	}
	if !shadows {
		b.Shadows = nil
	}
	if !ragged {
		b.Lengths = nil
	}
	if !conditions {
		b.Conditions = nil
	}
	if b.Cache == nil {
		b.Places = nil
	}
}

// lastOpened returns the position that opened last in the step before, in the sampler's order; -1
// for none.
func (m *member) lastOpened() int32 {
	if len(m.Opened) == 0 {
		return -1
	}
	return int32(m.Opened[len(m.Opened)-1].Position)
}

// batchLength returns the number of positions of the member in a batch, shadows among them.
func (m *member) batchLength() int { return len(m.Tokens) + len(m.step.shadows) }

// addReadRows adds the rows that the step reads for a member: the positions that its sampler has
// already chosen, or all that it may open, close or replace. A language reads the masked ones in
// any case.
func (p *Pool) addReadRows(b *model.Batch, m *member) {
	base := m.step.batchIndex * b.Length
	b.ReadRows = appendRows(b.ReadRows, base, m.step.opening.Positions)
	chosen := len(m.step.opening.Positions) > 0
	if chosen && m.grammarState == nil {
		return
	}
	b.ReadRows = appendRows(b.ReadRows, base, m.step.masked)
	b.ReadRows = appendRows(b.ReadRows, base, m.step.open)
	for _, position := range m.step.open {
		if row, ok := m.shadowRow(base, position); ok {
			b.ReadRows = append(b.ReadRows, row)
		}
	}
}

// appendRows appends the rows of positions. Position p is row base+p.
func appendRows(rows []int32, base int, positions []int) []int32 {
	for _, p := range positions {
		rows = append(rows, int32(base+p))
	}
	return rows
}

// shadowRow returns the row of a position's shadow in the latest pass, false if it has none.
func (m *member) shadowRow(base, position int) (int32, bool) {
	i, ok := slices.BinarySearch(m.step.shadows, int32(position))
	return int32(base + m.step.firstShadow + i), ok
}

// rowOf returns the row of the latest pass that predicts a position.
func (m *member) rowOf(base, position int) int32 {
	if m.step.runChecked {
		row, _ := m.shadowRow(base, position)
		return row
	}
	return int32(base + position)
}

// passTime returns the sampler's time or, by default, the masked share.
func (p *Pool) passTime(m *member) float64 {
	if m.clock != nil {
		p.setView(m)
		return m.clock.Time(&p.view)
	}
	return float64(m.maskedLeft) / float64(len(m.Tokens))
}

// setMarginals sets the marginals of the latest pass, over b.
func (p *Pool) setMarginals(b *model.Batch, marginals model.Marginals) {
	p.pass.readBatch = b
	p.pass.marginals = marginals
	p.filtered.Base = marginals
	p.pass.chooser = nil
	if c, ok := marginals.(model.Chooser); ok && c.CanChoose() {
		p.pass.chooser = c
	}
}

// marginalsOf returns the marginals of the latest pass with the member's filters and language.
func (p *Pool) marginalsOf(m *member) model.Marginals {
	marginals := p.marginalsBeforeGrammar(m)
	if m.grammarState == nil {
		return marginals
	}
	p.constrained.Filtered = marginals
	p.constrained.Raw = p.pass.marginals
	p.constrained.Length = p.pass.readBatch.Length
	return &p.constrained
}

// marginalsBeforeGrammar returns the marginals of the latest pass with the member's filters,
// without its language.
func (p *Pool) marginalsBeforeGrammar(m *member) model.Marginals {
	if m.isFiltered() {
		return &p.filtered
	}
	return p.pass.marginals
}

// ownerOf returns the member of a row of the latest pass.
func (p *Pool) ownerOf(row int32) *member {
	return p.pass.owners[int(row)/p.pass.readBatch.Length]
}

// forbiddenLogit lowers the logits of forbidden tokens. It is finite, so that a row in which
// nothing else is possible still has a distribution.
const forbiddenLogit = 1e9

// adjustLogits changes the logits of a row as its member's step and request say.
func (p *Pool) adjustLogits(row int32, logits []float32) {
	m := p.ownerOf(row)
	for _, t := range m.step.forbidden {
		logits[t] -= forbiddenLogit
	}
	if m.step.endPenalty != 0 {
		for _, t := range m.EndTokens {
			logits[t] += float32(m.step.endPenalty)
		}
	}
	if m.Adjust == nil {
		return
	}
	// A shadow predicts a position of the text, and that one is what the request knows.
	position := int(row) % p.pass.readBatch.Length
	if i := position - m.step.firstShadow; i >= 0 && i < len(m.step.shadows) {
		position = int(m.step.shadows[i])
	}
	m.Adjust(position, logits)
}
