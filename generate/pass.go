package generate

import (
	"slices"

	"unmask/model"
)

// pass is the latest pass over sequences of the pool.
type pass struct {
	batch     model.Batch
	of        *model.Batch // batch, or the candidates of a sampler that looks ahead
	owners    []*member    // members by index in the batch
	marginals model.Marginals
	chooser   model.Chooser  // marginals, if the device can choose; otherwise nil
	rows      []int32        // rows of a partial pass
	first     map[uint64]int // by the hash of its tokens, the first sequence with them

	lengths, places []int // memory for the batch's fields
	conditions      []*model.Condition
	kept, shadows   [][]int32
}

// forward computes the pass of a group: a full pass or, if keys and values of earlier steps are
// reused, a partial one.
func (p *Pool) forward(group []*member) error {
	b := &p.pass.batch
	p.distinct(group)
	p.fillBatch(b, p.pass.owners)
	network, partial := group[0].step.network, group[0].step.partial
	p.pass.rows = p.pass.rows[:0]
	for _, m := range group {
		m.step.fed, m.step.shadowAt = len(m.Tokens)+len(m.step.shadows), len(m.Tokens)
		if m.step.kept != nil {
			m.step.fed = len(m.step.kept)
		}
		base := m.step.row * b.Length
		p.reads(b, m)
		if l, ok := m.loop.(*specLoop); ok {
			l.overlay(b.Tokens[base : base+len(m.Tokens)])
			for _, at := range l.reads() {
				b.ReadRows = append(b.ReadRows, int32(base+at))
			}
		}
		if partial {
			before := len(p.pass.rows)
			p.pass.rows = m.loop.feed(p.pass.rows, base)
			m.step.fed = len(p.pass.rows) - before
		}
		if m.speech != nil {
			p.readsLanguage(b, m)
		}
	}
	if len(p.pass.owners) < len(group) { // rows are read twice, in the order of members
		slices.Sort(b.ReadRows)
		b.ReadRows = slices.Compact(b.ReadRows)
	}
	var marginals model.Marginals
	var err error
	if group[0].step.causal {
		marginals, err = p.feeder.Feed(p.ctx, b, p.pass.rows, group[0].step.how)
	} else if partial {
		marginals, err = network.refiner.Refine(p.ctx, b, p.pass.rows)
	} else {
		marginals, err = network.d.Forward(p.ctx, b)
	}
	if err != nil {
		return err
	}
	p.setMarginals(b, marginals)
	p.listen()
	for _, m := range group {
		m.loop.kept()
		if l, ok := m.loop.(*specLoop); ok && m.step.quiet {
			if err := l.drafted(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// distinct chooses which members own a sequence of the next pass, and sets each member's sequence
// in it. Members whose passes and marginals are equal, such as variants of one text before their
// first step, share one.
func (p *Pool) distinct(group []*member) {
	if p.pass.first == nil {
		p.pass.first = map[uint64]int{}
	}
	clear(p.pass.first)
	p.pass.owners = p.pass.owners[:0]
	for _, m := range group {
		m.step.row = len(p.pass.owners)
		if m.shares() {
			key := hash(m.Tokens)
			first, ok := p.pass.first[key]
			if ok && p.equal(p.pass.owners[first], m) {
				m.step.row = first
				continue
			}
			p.pass.first[key] = m.step.row
		}
		p.pass.owners = append(p.pass.owners, m)
	}
}

// shares reports whether a member's pass is that of its tokens alone.
func (m *member) shares() bool {
	return !m.caches() && !m.step.causal && m.step.kept == nil && m.step.shadows == nil &&
		m.speech == nil && m.scale == nil && m.Adjust == nil && m.Filter.Adjust == nil &&
		len(m.step.forbid) == 0 && m.step.penalty == 0
}

// equal reports whether two members that share have equal passes and marginals.
func (p *Pool) equal(a, b *member) bool {
	return slices.Equal(a.Tokens, b.Tokens) && a.Condition == b.Condition && p.time(a) == p.time(b) &&
		a.Filter.Equal(&b.Filter)
}

// hash returns the FNV-1a hash of tokens (Fowler, Noll and Vo).
func hash(tokens []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h
}

// fillBatch fills b with the group's sequences.
func (p *Pool) fillBatch(b *model.Batch, group []*member) {
	b.Size, b.Length, b.Cache, b.CacheReused = len(group), 0, nil, group[0].Reuse != NoReuse
	if group[0].caches() {
		b.Cache = p.cache
	}
	ragged, conditions, kept, shadows := false, false, false, false
	for _, m := range group {
		n := len(m.Tokens) + len(m.step.shadows)
		kept, shadows = kept || m.step.kept != nil, shadows || m.step.shadows != nil
		ragged = ragged || n != len(group[0].Tokens)+len(group[0].step.shadows)
		conditions = conditions || m.Condition != nil
		b.Length = max(b.Length, n)
	}
	b.Tokens, b.Time, b.ReadRows, b.Steps = b.Tokens[:0], b.Time[:0], b.ReadRows[:0], b.Steps[:0]
	b.Lengths, b.Conditions, b.Places = p.pass.lengths[:0], p.pass.conditions[:0], p.pass.places[:0]
	b.Kept, b.Shadows = p.pass.kept[:0], p.pass.shadows[:0]
	for _, m := range group {
		b.Tokens = append(b.Tokens, m.Tokens...)
		for len(b.Tokens)%b.Length != 0 {
			b.Tokens = append(b.Tokens, p.spec.Mask)
		}
		b.Time = append(b.Time, p.time(m))
		b.Steps = append(b.Steps, model.Progress{N: m.N + 1, Steps: m.steps})
		used := len(m.Tokens) + len(m.step.shadows)
		if m.step.causal || m.step.bounded {
			ragged, used = true, m.step.seen
		}
		b.Lengths = append(b.Lengths, used)
		b.Conditions = append(b.Conditions, m.Condition)
		b.Places = append(b.Places, m.place)
		b.Kept, b.Shadows = append(b.Kept, m.step.kept), append(b.Shadows, m.step.shadows)
	}
	p.pass.lengths, p.pass.conditions, p.pass.places = b.Lengths, b.Conditions, b.Places
	p.pass.kept, p.pass.shadows = b.Kept, b.Shadows
	if !kept {
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

// reads adds the rows that the step reads for a member: the positions that its sampler has already
// chosen, or all that it may open, close or replace.
func (p *Pool) reads(b *model.Batch, m *member) {
	base := m.step.row * b.Length
	for _, list := range [][]int{m.step.opening.Positions, m.step.masked, m.step.open} {
		for _, at := range list {
			b.ReadRows = append(b.ReadRows, int32(base+at))
		}
		if len(m.step.opening.Positions) > 0 && m.speech == nil {
			return
		}
	}
	for _, at := range m.step.open {
		if row, ok := m.shadowRow(base, at); ok {
			b.ReadRows = append(b.ReadRows, row)
		}
	}
}

// shadowRow returns the row of a position's shadow in the latest pass, false if it has none.
func (m *member) shadowRow(base, position int) (int32, bool) {
	i, ok := slices.BinarySearch(m.step.shadows, int32(position))
	return int32(base + m.step.shadowAt + i), ok
}

// rowOf returns the row of the latest pass that predicts a position.
func (m *member) rowOf(base, position int) int32 {
	if m.step.checked {
		row, _ := m.shadowRow(base, position)
		return row
	}
	return int32(base + position)
}

// time returns the sampler's time or, by default, the masked fraction.
func (p *Pool) time(m *member) float64 {
	if m.clock != nil {
		p.setView(m)
		return m.clock.Time(&p.view)
	}
	return float64(m.left) / float64(len(m.Tokens))
}

// setMarginals sets the marginals of the latest pass.
func (p *Pool) setMarginals(b *model.Batch, marginals model.Marginals) {
	p.pass.of, p.pass.marginals, p.filtered.Base = b, marginals, marginals
	if p.pass.chooser, _ = marginals.(model.Chooser); p.pass.chooser != nil &&
		!p.pass.chooser.CanChoose() {
		p.pass.chooser = nil
	}
}

// marginals returns the marginals of the latest pass with the member's filters.
func (p *Pool) marginals(m *member) model.Marginals {
	if m.speech == nil {
		return p.plain(m)
	}
	p.language.Filtered, p.language.Raw, p.language.Length = p.plain(m), p.pass.marginals,
		p.pass.of.Length
	return &p.language
}

// plain returns the marginals of the latest pass with the member's filters, without its language.
func (p *Pool) plain(m *member) model.Marginals {
	if m.filtered() {
		return &p.filtered
	}
	return p.pass.marginals
}

// owner returns the member of a row of the latest pass.
func (p *Pool) owner(row int32) *member { return p.pass.owners[int(row)/p.pass.of.Length] }

func (p *Pool) adjust(row int32, logits []float32) {
	m := p.owner(row)
	for _, t := range m.step.forbid {
		logits[t] -= 1e9
	}
	if m.step.penalty != 0 {
		for _, t := range m.EndTokens {
			logits[t] += float32(m.step.penalty)
		}
	}
	if m.Adjust != nil {
		at := int(row) % p.pass.of.Length
		if i := at - m.step.shadowAt; i >= 0 && i < len(m.step.shadows) {
			at = int(m.step.shadows[i])
		}
		m.Adjust(at, logits)
	}
}
