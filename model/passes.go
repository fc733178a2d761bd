package model

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
)

// Passes cuts a batch into passes, groups of rows that go through a network together: whole
// sequences of any lengths, about backend.GroupRows rows, enough for arithmetic alone to limit the
// device. A transformer calls Full or Partial, then computes each result of Next until it is nil:
//
//	m.passes.Partial(b, rows) // or Full(b)
//	for p := m.passes.Next(); p != nil; p = m.passes.Next() { ... }
//
// Its exported fields are set once. It allocates nothing after the largest batch.
type Passes struct {
	Backend backend.Backend

	// Layers are the shapes of the keys and values of all blocks.
	Layers []kvcache.Layer

	// States are the widths of further tensors that are kept for each sequence, see
	// kvcache.Cache.States.
	States []int

	// Extra is the number of rows before each sequence's first position, for a class or a text.
	Extra int

	// Causal means that rows attend only to positions up to their own or, with Block, to the end of
	// their own block of so many positions; 0 means 1.
	Causal bool
	Block  int

	// Local means that some layer's attention has a window, see backend.Heads.
	Local bool

	// MasksLast, with Causal, means that rows are computed in the order of the Causal kind of that
	// name: those of known tokens, then those of Mask. Their keys and values have places in the cache
	// by this order, so that Rows.Pos counts places and Rows.RotaryPos has the positions.
	MasksLast bool
	Mask      int32

	// The batch that Full or Partial has begun.

	batch *Batch
	full  bool

	// nextSequence is the next sequence of Full, and rows are those of Partial that are not yet in a
	// pass.
	nextSequence int
	rows         []int32

	// isRead, [Size*Length], says which rows are in Batch.ReadRows; empty means all.
	isRead []bool

	// pass is the result of Next.
	pass Pass

	// scratch has the keys and values of passes that keep none: one layer of each shape, because no
	// block reads those of another. scratchLayer has, for each layer, the index of its shape.
	scratch      *kvcache.Cache
	scratchLayer []int

	// order is the memory for the rows of one sequence with MasksLast.
	order []int32
}

// Pass is one group of rows, in the order of all activations. It is valid until the next call of
// Next.
type Pass struct {
	// Rows are the positions. A segment's Seq is the index of its keys and values, and extra rows
	// count as positions.
	attention.Rows

	// Sequences are the same segments, but their Seq is the index of the sequence in the batch.
	Sequences []backend.Segment

	// ResultRows, [rows], are the rows of the batch's results to which those of the pass go:
	// sequence*(Extra+Length) + Extra + position.
	ResultRows []int32

	// Tokens, [rows], are -1 at extra rows.
	Tokens []int32

	// ReadRows are the ascending indexes of the rows whose results are read; nil means all.
	ReadRows []int32

	// Keys is the most keys of a sequence; a row may see fewer, see attention.Rows.
	Keys int

	// Full means that the pass has all rows of its sequences.
	Full bool

	passes *Passes

	// readBuffer is the memory of ReadRows. It has the rows that are read even if these are all.
	readBuffer []int32

	// picked is the result of Pick.
	picked *Pass
}

// NewCache returns a cache for Batch.Cache, for sequences of at most `length` positions.
func (p *Passes) NewCache(batch, length int) *kvcache.Cache {
	return kvcache.New(p.Backend, batch, p.Extra+length, p.Layers, p.States...)
}

// Bytes returns the bytes that one sequence takes in NewCache.
func (p *Passes) Bytes(length int) int {
	floats := 0
	for _, l := range p.Layers {
		floats += (p.Extra + length) * l.Heads * (l.HeadDim + l.ValueWidth()) // keys and values
	}
	for _, width := range p.States {
		floats += width
	}
	return 4 * floats
}

// Full begins the passes over all positions in use. It returns an error if the batch's cache is not
// of this network.
func (p *Passes) Full(b *Batch) error {
	p.full = true
	p.nextSequence = 0
	p.rows = nil
	return p.beginBatch(b)
}

// Partial begins the passes over rows, which are grouped by ascending sequence, in any order within
// one. It returns an error if there is no cache, or one of another network.
func (p *Passes) Partial(b *Batch, rows []int32) error {
	p.full = false
	p.rows = rows
	if b.Cache == nil {
		return fmt.Errorf("there is no cache, want that of a full pass before a partial one")
	}
	return p.beginBatch(b)
}

// beginBatch checks the batch's cache, and sets which rows are read.
func (p *Passes) beginBatch(b *Batch) error {
	p.batch = b
	if c := b.Cache; c != nil && (c.Length < p.Extra+b.Length || len(c.K) != len(p.Layers)) {
		return fmt.Errorf("the cache has %d layers of %d rows, want %d of %d", len(c.K), c.Length,
			len(p.Layers), p.Extra+b.Length)
	}
	p.isRead = p.isRead[:0]
	if b.ReadRows == nil {
		return nil
	}
	n := b.Size * b.Length
	p.isRead = slices.Grow(p.isRead, n)[:n]
	clear(p.isRead)
	for _, row := range b.ReadRows {
		p.isRead[row] = true
	}
	return nil
}

// Next returns the next pass, or nil after the last.
func (p *Passes) Next() *Pass {
	q := &p.pass
	q.passes = p
	q.Full = p.full
	q.Keys = 0
	q.Rows.Causal = p.Causal || p.Local
	q.Reset()
	q.ResultRows = q.ResultRows[:0]
	q.Tokens = q.Tokens[:0]
	q.readBuffer = append(q.readBuffer[:0], 0)[:0] // an empty list, which is not nil
	if p.full {
		p.addSequences(q)
	} else {
		p.addRows(q)
	}
	if q.Len() == 0 {
		return nil
	}

	q.setSequences()
	q.ReadRows = nil
	if p.batch.ReadRows != nil && len(q.readBuffer) < q.Len() {
		q.ReadRows = q.readBuffer
	}
	return q
}

// addSequences adds all positions of the next sequences to q.
func (p *Passes) addSequences(q *Pass) {
	b := p.batch
	targetRows := backend.GroupRows(p.Backend)
	first := p.nextSequence
	for ; p.nextSequence < b.Size; p.nextSequence++ {
		sequence := p.nextSequence
		used := b.UsedLength(sequence)
		if q.Len() > 0 && (q.Len()+p.Extra+used > targetRows || p.needsOwnPass(q, used)) {
			break
		}
		place := sequence - first // in scratch
		if b.Cache != nil {
			place = b.Place(sequence)
		}
		q.Keys = max(q.Keys, p.Extra+used)
		if p.MasksLast {
			p.order = p.order[:0]
			for pos := range used {
				p.order = append(p.order, int32(sequence*b.Length+pos))
			}
			p.addMasksLast(q, sequence, place, p.order)
			continue
		}
		for pos := -p.Extra; pos < used; pos++ {
			q.addPosition(b, sequence, place, pos)
		}
		q.lendLastKey(b, sequence)
	}
	if b.Cache == nil && q.Len() > 0 {
		p.growScratch(p.nextSequence-first, b.Length)
	}
}

// addRows adds the rows of the next sequences to q. The rows of one sequence stay together, because
// they see each other's new keys and values.
func (p *Passes) addRows(q *Pass) {
	b := p.batch
	targetRows := backend.GroupRows(p.Backend)
	for len(p.rows) > 0 {
		sequence := int(p.rows[0]) / b.Length
		used := b.UsedLength(sequence)
		if q.Len() > 0 && (q.Len() >= targetRows || p.needsOwnPass(q, used)) {
			return
		}
		n := 1
		for n < len(p.rows) && int(p.rows[n])/b.Length == sequence {
			n++
		}
		rows := p.rows[:n]
		p.rows = p.rows[n:]
		place := b.Place(sequence)
		q.Keys = max(q.Keys, p.Extra+used)
		if p.MasksLast {
			p.addMasksLast(q, sequence, place, rows)
			continue
		}
		for _, row := range rows {
			q.addPosition(b, sequence, place, int(row)%b.Length)
		}
		q.lendLastKey(b, sequence)
	}
}

// needsOwnPass reports whether a sequence with `used` positions must be in another pass: all
// sequences of a pass that an observer sees have one length.
func (p *Passes) needsOwnPass(q *Pass, used int) bool {
	return p.batch.Observer != nil && p.Extra+used != q.Keys
}

// addMasksLast adds rows of one sequence, ascending and without gaps: those of known tokens first,
// then those of masks.
func (p *Passes) addMasksLast(q *Pass, sequence, place int, rows []int32) {
	b := p.batch
	slot := int(rows[0]) % b.Length // those before the rows are taken by rows of earlier passes
	for _, masked := range []bool{false, true} {
		for _, row := range rows {
			if (b.Tokens[row] == p.Mask) == masked {
				q.addRow(b, sequence, place, int(row)%b.Length, slot)
				slot++
			}
		}
	}
}

// Position returns the position of row i in its sequence, -1 for the last extra row. It differs
// from Pos where RotaryPos are given.
func (q *Pass) Position(i int) int {
	if len(q.RotaryPos) > 0 {
		return int(q.RotaryPos[i])
	}
	width := q.passes.batch.Length + q.passes.Extra
	return int(q.ResultRows[i])%width - q.passes.Extra
}

// addPosition adds the row of a position that the network sees; others it leaves out.
func (q *Pass) addPosition(b *Batch, sequence, place, pos int) {
	slot := pos
	if pos >= 0 {
		slot = b.slot(sequence, pos)
		if slot < 0 {
			return
		}
	}
	q.addRow(b, sequence, place, pos, slot)
}

// addRow adds the row of a position; slot is its place among the keys and values, without extra
// rows.
func (q *Pass) addRow(b *Batch, sequence, place, pos, slot int) {
	p := q.passes
	index := int32(q.Len())
	rotaryPos := pos
	shadows := b.shadows(sequence)
	if j := pos - b.keys(sequence); j >= 0 && shadows != nil {
		rotaryPos = int(shadows[j])
		ownRow, _ := slices.BinarySearch(q.ResultRows, int32(sequence*b.Length+rotaryPos))
		q.AddShadow(place, int32(pos), attention.Shadow{
			Slot:    rotaryPos,
			OwnRow:  ownRow,
			LentRow: len(q.ResultRows), // its own, unless lendLastKey changes that
			LentPos: rotaryPos,
			Keys:    rotaryPos + 1,
		})
	} else {
		q.Add(place, int32(slot+p.Extra))
	}

	// Seen has an element for each segment, and the row may have begun one.
	if len(q.Seen) < len(q.Segs) && p.keysDiffer(b) {
		q.Seen = append(q.Seen, p.Extra+b.keys(sequence))
	}
	if b.Kept != nil || b.Shadows != nil || p.MasksLast {
		q.RotaryPos = append(q.RotaryPos, int32(rotaryPos))
	}
	q.ResultRows = append(q.ResultRows, int32(sequence*(b.Length+p.Extra)+pos+p.Extra))
	if pos < 0 {
		q.Tokens = append(q.Tokens, -1)
		return
	}
	row := sequence*b.Length + pos
	q.Tokens = append(q.Tokens, b.Tokens[row])
	if len(p.isRead) > 0 && p.isRead[row] {
		q.readBuffer = append(q.readBuffer, index)
	}
}

// keysDiffer reports whether rows of different sequences see different numbers of keys. A causal
// row sees those up to its own whatever the sequence's length, unless it sees to the end of a
// block.
func (p *Passes) keysDiffer(b *Batch) bool {
	return b.Kept != nil || b.Shadows != nil || b.Lengths != nil && (!p.Causal || p.Block > 1)
}

// lendLastKey makes the shadows of a sequence see each other. While a shadow's row is computed, the
// key of the last shadow lies at the place of the position's own key, which the shadow must not
// see, and all keys before the last are seen.
func (q *Pass) lendLastKey(b *Batch, sequence int) {
	shadows := b.shadows(sequence)
	n := len(shadows)
	if n == 0 || q.passes.Causal {
		return
	}
	added := q.Rows.Shadows()
	for i := len(added) - n; i < len(added); i++ {
		s := &added[i]
		s.LentRow = len(q.ResultRows) - 1
		s.LentPos = int(shadows[n-1])
		s.Keys = b.UsedLength(sequence) - 1
	}
}

// setSequences sets Sequences from Segs.
func (q *Pass) setSequences() {
	q.Sequences = q.Sequences[:0]
	width := q.passes.batch.Length + q.passes.Extra
	for _, s := range q.Segs {
		s.Seq = int(q.ResultRows[s.Row]) / width
		q.Sequences = append(q.Sequences, s)
	}
}

// Pick returns the pass with only the given rows of q, ascending indexes. It is valid until q's
// next Pick.
func (q *Pass) Pick(rows []int32) *Pass {
	if q.picked == nil {
		q.picked = new(Pass)
	}
	k := q.picked
	k.passes = q.passes
	k.Keys = q.Keys
	k.Full = false
	k.ReadRows = nil
	k.Rows.Pick(&q.Rows, rows)
	k.ResultRows = k.ResultRows[:0]
	k.Tokens = k.Tokens[:0]
	for _, i := range rows {
		k.ResultRows = append(k.ResultRows, q.ResultRows[i])
		k.Tokens = append(k.Tokens, q.Tokens[i])
	}
	k.setSequences()
	return k
}

// Condition returns the condition of a segment's sequence, nil for none.
func (q *Pass) Condition(segment int) *Condition {
	return q.passes.batch.Condition(q.Sequences[segment].Seq)
}

// LastOpened returns the position of a sequence of the batch that opened last, -1 for none.
func (q *Pass) LastOpened(sequence int) int { return q.passes.batch.lastOpened(sequence) }

// KV returns the tensors [places, heads, length, headDim] for a layer's keys and values.
func (q *Pass) KV(layer int) (k, v *tensor.Dense) {
	p := q.passes
	if c := p.batch.Cache; c != nil {
		return c.K[layer], c.V[layer]
	}
	i := p.scratchLayer[layer]
	return p.scratch.K[i], p.scratch.V[i]
}

// State returns tensor i of the states of sequences, [places, width]; its row is a segment's
// Seq.
func (q *Pass) State(i int) *tensor.Dense {
	p := q.passes
	if c := p.batch.Cache; c != nil {
		return c.States[i]
	}
	return p.scratch.States[i]
}

// growScratch makes room for the keys and values of a pass without a cache.
func (p *Passes) growScratch(batch, length int) {
	if s := p.scratch; s != nil && s.Batch >= batch && s.Length >= p.Extra+length {
		return
	}
	var distinct []kvcache.Layer
	p.scratchLayer = p.scratchLayer[:0]
	for _, l := range p.Layers {
		i := slices.Index(distinct, l)
		if i < 0 {
			i = len(distinct)
			distinct = append(distinct, l)
		}
		p.scratchLayer = append(p.scratchLayer, i)
	}
	p.scratch = kvcache.New(p.Backend, batch, p.Extra+length, distinct, p.States...)
}
