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
// device. A transformer calls Full or Some, then computes each result of Next until it is nil:
//
//	m.passes.Some(b, rows) // or Full(b)
//	for p := m.passes.Next(); p != nil; p = m.passes.Next() { ... }
//
// Its fields are set once. It allocates nothing after the largest batch.
type Passes struct {
	Backend backend.Backend
	Layers  []kvcache.Layer // of all blocks
	// widths of further tensors kept for each sequence, see kvcache.Cache.States
	States []int
	// rows before each sequence's first position, for a class or a text
	Extra  int
	Causal bool // rows attend only to positions up to their own
	Local  bool // some layer's attention has a window, see backend.Heads
	// with Causal, rows attend to the end of their own block; positions of a block, 0 means 1
	Block int
	// with Causal, rows are computed in the order of MasksLast; their keys and values have places in
	// the cache by this order, so that Pos counts places. Mask is the masked token.
	MasksLast bool
	Mask      int32

	batch   *Batch
	rows    []int32 // rows of Some that are not yet in a pass
	next    int     // next sequence of Full
	full    bool
	read    []bool // [Size*Length] rows in Batch.Read; empty: all
	pass    Pass
	scratch *kvcache.Cache // one layer of each shape, for passes whose keys and values are not kept
	shapes  []int          // index in scratch of each layer's shape
	order   []int32        // rows of one sequence, known tokens first
}

// Pass is one group of rows, in the order of all activations. It is valid until the next call of
// Next.
type Pass struct {
	// a segment's Seq is the index of its keys and values; extra rows count as positions
	attention.Rows

	// the same segments, but Seq is the index of the sequence in the batch
	Sequences []backend.Segment
	// [rows] where results go: sequence*(Extra+Length) + Extra + position
	ResultRows []int32
	Tokens     []int32 // [rows], -1 at extra rows
	ReadRows   []int32 // ascending indexes of the rows whose results are read; nil: all
	// the most keys of a sequence; a row may see fewer, see attention.Rows
	Keys int
	Full bool // the pass has all rows of its sequences

	of     *Passes
	keep   []int32 // memory of Read
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
		floats += 2 * (p.Extra + length) * l.Heads * l.HeadDim
	}
	for _, width := range p.States {
		floats += width
	}
	return 4 * floats
}

// Full begins the passes over all positions in use.
func (p *Passes) Full(b *Batch) error {
	p.full, p.next, p.rows = true, 0, nil
	return p.begin(b)
}

// Partial begins the passes over rows, which are grouped by ascending sequence, in any order within
// one.
func (p *Passes) Partial(b *Batch, rows []int32) error {
	p.full, p.rows = false, rows
	if b.Cache == nil {
		return fmt.Errorf("there is no cache, want that of a full pass before a partial one")
	}
	return p.begin(b)
}

func (p *Passes) begin(b *Batch) error {
	p.batch = b
	if c := b.Cache; c != nil && (c.Length < p.Extra+b.Length || len(c.K) != len(p.Layers)) {
		return fmt.Errorf("the cache has %d layers of %d rows, want %d of %d", len(c.K), c.Length,
			len(p.Layers), p.Extra+b.Length)
	}
	if p.read = p.read[:0]; b.ReadRows == nil {
		return nil
	}
	n := b.Size * b.Length
	p.read = slices.Grow(p.read, n)[:n]
	clear(p.read)
	for _, row := range b.ReadRows {
		p.read[row] = true
	}
	return nil
}

// Next returns the next pass, or nil after the last.
func (p *Passes) Next() *Pass {
	q := &p.pass
	q.of, q.Full, q.Rows.Causal, q.Keys = p, p.full, p.Causal || p.Local, 0
	q.Reset()
	q.Sequences, q.ResultRows, q.Tokens = q.Sequences[:0], q.ResultRows[:0], q.Tokens[:0]
	q.keep = append(q.keep[:0], 0)[:0] // an empty list, which is not nil
	if p.full {
		p.wholes(q)
	} else {
		p.parts(q)
	}
	if q.Len() == 0 {
		return nil
	}
	q.retell()
	if q.ReadRows = nil; p.batch.ReadRows != nil && len(q.keep) < q.Len() {
		q.ReadRows = q.keep
	}
	return q
}

// wholes adds all positions of the next sequences to q.
func (p *Passes) wholes(q *Pass) {
	b, most, first := p.batch, backend.GroupRows(p.Backend), p.next
	for ; p.next < b.Size; p.next++ {
		used := b.UsedLength(p.next)
		if q.Len() > 0 && (q.Len()+p.Extra+used > most || p.apart(q, used)) {
			break
		}
		place := p.next - first
		if b.Cache != nil {
			place = b.Place(p.next)
		}
		if p.MasksLast {
			p.order = p.order[:0]
			for pos := range used {
				p.order = append(p.order, int32(p.next*b.Length+pos))
			}
			p.ordered(q, p.next, place, p.order)
			q.Keys = max(q.Keys, used)
			continue
		}
		for pos := -p.Extra; pos < used; pos++ {
			q.add(b, p.next, place, pos)
		}
		q.lend(b, p.next)
		q.Keys = max(q.Keys, p.Extra+used)
	}
	if b.Cache == nil && q.Len() > 0 {
		p.scratches(p.next-first, b.Length)
	}
}

// parts adds the rows of the next sequences to q. The rows of one sequence stay together, because
// they see each other's new keys and values.
func (p *Passes) parts(q *Pass) {
	b, most := p.batch, backend.GroupRows(p.Backend)
	last := -1
	for len(p.rows) > 0 {
		seq := int(p.rows[0]) / b.Length
		if seq != last && q.Len() > 0 && (q.Len() >= most || p.apart(q, b.UsedLength(seq))) {
			return
		}
		last = seq
		q.Keys = max(q.Keys, p.Extra+b.UsedLength(seq))
		if p.MasksLast {
			n := 1
			for n < len(p.rows) && int(p.rows[n])/b.Length == seq {
				n++
			}
			p.ordered(q, seq, b.Place(seq), p.rows[:n])
			p.rows = p.rows[n:]
			continue
		}
		q.add(b, seq, b.Place(seq), int(p.rows[0])%b.Length)
		if p.rows = p.rows[1:]; len(p.rows) == 0 || int(p.rows[0])/b.Length != seq {
			q.lend(b, seq)
		}
	}
}

// apart reports whether a sequence with `used` positions must be in another pass: all sequences of
// a pass that an observer sees have one length.
func (p *Passes) apart(q *Pass, used int) bool {
	return p.batch.Observer != nil && p.Extra+used != q.Keys
}

// ordered adds rows of one sequence, ascending and without gaps: known tokens first, then masks.
func (p *Passes) ordered(q *Pass, sequence, place int, rows []int32) {
	b, slot := p.batch, int(rows[0])%p.batch.Length
	for _, masked := range []bool{false, true} {
		for _, row := range rows {
			if (b.Tokens[row] == p.Mask) == masked {
				q.put(b, sequence, place, int(row)%b.Length, slot)
				slot++
			}
		}
	}
}

// Position returns the position of row i in its sequence, -1 for the last extra row. It differs
// from Pos where Turns are given.
func (q *Pass) Position(i int) int {
	if len(q.RotaryPos) > 0 {
		return int(q.RotaryPos[i])
	}
	width := q.of.batch.Length + q.of.Extra
	return int(q.ResultRows[i])%width - q.of.Extra
}

// add adds the row of a position that the network sees.
func (q *Pass) add(b *Batch, sequence, place, pos int) {
	slot := pos
	if pos >= 0 {
		slot = b.slot(sequence, pos)
	}
	if slot >= 0 || pos < 0 {
		q.put(b, sequence, place, pos, slot)
	}
}

// put adds the row of a position; slot is its place among the keys and values, without extra rows.
func (q *Pass) put(b *Batch, sequence, place, pos, slot int) {
	extra := q.of.Extra
	index := int32(q.Len())
	turn := pos
	if j := pos - b.keys(sequence); j >= 0 && b.shadows(sequence) != nil {
		turn = int(b.shadows(sequence)[j])
		own, _ := slices.BinarySearch(q.ResultRows, int32(sequence*b.Length+turn))
		s := attention.Shadow{Slot: turn, OwnRow: own, LentRow: len(q.ResultRows), LentPos: turn,
			Keys: turn + 1}
		q.AddShadow(place, int32(pos), s)
	} else {
		q.Add(place, int32(slot+extra))
	}
	if p := q.of; len(q.Seen) < len(q.Segs) && (b.Kept != nil || b.Shadows != nil ||
		b.Lengths != nil && (!p.Causal || p.Block > 1)) {
		q.Seen = append(q.Seen, extra+b.keys(sequence))
	}
	if b.Kept != nil || b.Shadows != nil || q.of.MasksLast {
		q.RotaryPos = append(q.RotaryPos, int32(turn))
	}
	q.ResultRows = append(q.ResultRows, int32(sequence*(b.Length+extra)+pos+extra))
	if pos < 0 {
		q.Tokens = append(q.Tokens, -1)
		return
	}
	row := sequence*b.Length + pos
	q.Tokens = append(q.Tokens, b.Tokens[row])
	if len(q.of.read) > 0 && q.of.read[row] {
		q.keep = append(q.keep, index)
	}
}

// lend lets the shadows of a sequence that see each other lend the key of the last one.
func (q *Pass) lend(b *Batch, sequence int) {
	n := len(b.shadows(sequence))
	if n == 0 || q.of.Causal {
		return
	}
	list := q.Rows.Shadows()
	for i := len(list) - n; i < len(list); i++ {
		s := &list[i]
		s.LentRow, s.LentPos = len(q.ResultRows)-1, int(b.shadows(sequence)[n-1])
		s.Keys = b.UsedLength(sequence) - 1
	}
}

// retell sets Sequences from Segs.
func (q *Pass) retell() {
	q.Sequences = q.Sequences[:0]
	width := q.of.batch.Length + q.of.Extra
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
	k.of, k.Keys, k.Full, k.ReadRows = q.of, q.Keys, false, nil
	k.Rows.Pick(&q.Rows, rows)
	k.ResultRows, k.Tokens = k.ResultRows[:0], k.Tokens[:0]
	for _, i := range rows {
		k.ResultRows, k.Tokens = append(k.ResultRows, q.ResultRows[i]), append(k.Tokens, q.Tokens[i])
	}
	k.retell()
	return k
}

// Condition returns the condition of a segment's sequence, nil for none.
func (q *Pass) Condition(segment int) *Condition {
	return q.of.batch.Condition(q.Sequences[segment].Seq)
}

// KV returns the tensors [places, heads, length, headDim] for a layer's keys and values.
func (q *Pass) KV(layer int) (k, v *tensor.Dense) {
	p := q.of
	if c := p.batch.Cache; c != nil {
		return c.K[layer], c.V[layer]
	}
	at := p.shapes[layer]
	return p.scratch.K[at], p.scratch.V[at]
}

// State returns tensor i of what is kept for each sequence, [places, width]; its row is a segment's
// Seq.
func (q *Pass) State(i int) *tensor.Dense {
	if c := q.of.batch.Cache; c != nil {
		return c.States[i]
	}
	return q.of.scratch.States[i]
}

// scratches makes room for the keys and values of passes without a cache.
func (p *Passes) scratches(batch, length int) {
	if s := p.scratch; s != nil && s.Batch >= batch && s.Length >= p.Extra+length {
		return
	}
	var distinct []kvcache.Layer
	p.shapes = p.shapes[:0]
	for _, l := range p.Layers {
		at := slices.Index(distinct, l)
		if at < 0 {
			at = len(distinct)
			distinct = append(distinct, l)
		}
		p.shapes = append(p.shapes, at)
	}
	p.scratch = kvcache.New(p.Backend, batch, p.Extra+length, distinct, p.States...)
}
