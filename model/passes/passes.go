// Package passes cuts a batch, or some of its rows, into the groups that go through a network at
// once, for networks whose sequences have rows of their own beside their positions: a class
// token before them, a register after.
package passes

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
)

// Passes is one network's. The zero value has no rows beside the positions. One pass at a time.
type Passes struct {
	Backend       backend.Backend
	Layer         attention.Layer // of all layers
	Layers        int
	Before, After int // rows of a sequence before its first position and after its last
	More          int // keys and values of a sequence that no pass computes, after all rows

	scratch *kvcache.Cache // one layer, for passes that keep none
	rows    attention.Rows
	segs    []backend.Segment
	at      []int32
}

// Pass is one group's. Rows are in the order of activations.
type Pass struct {
	Batch   *model.Batch
	Partial bool
	Rows    *attention.Rows   // segments by the place of a sequence's keys and values
	Segs    []backend.Segment // the same rows by sequence of the batch
	At      []int32           // of each row, sequence*Span + row of the sequence
	Span    int               // rows of a sequence: Before + Length + After
}

// Len is the number of rows.
func (p *Pass) Len() int { return len(p.At) }

// Span returns the rows of a sequence of so many positions.
func (p *Passes) Span(length int) int { return p.Before + length + p.After }

// Inner returns the row in Pass.At's numbering of a batch's row.
func (p *Passes) Inner(row int32, length int) int32 {
	n := int32(length)
	return row/n*int32(p.Span(length)) + int32(p.Before) + row%n
}

// Position returns the position of a row of a sequence, and false for rows beside them.
func (p *Passes) Position(row, length int) (int, bool) {
	at := row - p.Before
	return at, at >= 0 && at < length
}

// NewCache returns a cache for the network's layers.
func (p *Passes) NewCache(batch, length int) *kvcache.Cache {
	layers := make([]kvcache.Layer, p.Layers)
	for i := range layers {
		layers[i] = kvcache.Layer{Heads: p.Layer.Heads, HeadDim: p.Layer.HeadDim}
	}
	return kvcache.New(p.Backend, batch, p.Span(length)+p.More, layers)
}

// Keys returns the tensors that take layer i's keys and values.
func (p *Passes) Keys(b *model.Batch, i int) (k, v *tensor.Dense) {
	if b.Cache != nil {
		return b.Cache.K[i], b.Cache.V[i]
	}
	return p.scratch.K[0], p.scratch.V[0]
}

// Full calls body for groups of whole sequences, prepare before it with the most rows of a group.
func (p *Passes) Full(ctx context.Context, b *model.Batch, prepare func(rows int), body func(*Pass) error) error {
	n := p.Span(b.Length)
	group := min(b.Size, max(1, backend.GroupRows(p.Backend)/n))
	prepare(group * n)
	if s := p.scratch; b.Cache == nil && (s == nil || s.Batch < group || s.Length != n+p.More) {
		p.scratch = kvcache.New(p.Backend, group, n+p.More, []kvcache.Layer{{Heads: p.Layer.Heads, HeadDim: p.Layer.HeadDim}})
	}
	for s := 0; s < b.Size; s += group {
		if err := ctx.Err(); err != nil {
			return err
		}
		size := min(group, b.Size-s)
		p.rows.Full(0, size, n)
		p.at, p.segs = p.at[:0], p.segs[:0]
		for i := range size {
			seg := &p.rows.Segs[i]
			p.segs = append(p.segs, backend.Segment{Seq: s + i, Row: seg.Row, Rows: n})
			if b.Cache != nil {
				seg.Seq = b.Place(s + i)
			}
			for r := range n {
				p.at = append(p.at, int32((s+i)*n+r))
			}
		}
		if err := body(&Pass{Batch: b, Rows: &p.rows, Segs: p.segs, At: p.at, Span: n}); err != nil {
			return err
		}
	}
	return nil
}

// Some calls body for groups of the given rows of the batch, ascending by sequence. Rows beside
// the positions keep what the full pass left in the cache.
func (p *Passes) Some(ctx context.Context, b *model.Batch, rows []int32, prepare func(rows int), body func(*Pass) error) error {
	if b.Cache == nil {
		return fmt.Errorf("a partial pass needs the cache of a full one")
	}
	n := p.Span(b.Length)
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		var part []int32
		part, rows = attention.Group(rows, b.Length, backend.GroupRows(p.Backend))
		p.at = p.at[:0]
		for _, row := range part {
			p.at = append(p.at, p.Inner(row, b.Length))
		}
		p.rows.Some(p.at, n)
		p.segs = append(p.segs[:0], p.rows.Segs...)
		for i := range p.rows.Segs {
			p.rows.Segs[i].Seq = b.Place(p.segs[i].Seq)
		}
		prepare(len(part))
		if err := body(&Pass{Batch: b, Partial: true, Rows: &p.rows, Segs: p.segs, At: p.at, Span: n}); err != nil {
			return err
		}
	}
	return nil
}
