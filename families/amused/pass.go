package amused

import (
	"context"
	"slices"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass. Rows are cells.
type workspace struct {
	x, h, t *tensor.Dense // [cells, width], for the stages
	inner   *tensor.Dense // [cells, 4*width]
	around  *tensor.Dense // [cells+1, width]: inputs of a convolution; the last row is zero
	codes   *tensor.Dense // [codes, in]
	// [cells, 4*width]: wide with four codes per row, or the doubling's output
	fours        *tensor.Dense
	hx, hh, hq   *tensor.Dense // [cells, hidden], for the transformer
	qkv          *tensor.Dense // [cells, 3*hidden]
	up           *tensor.Dense // [cells, inner]
	scale, shift *tensor.Dense // [sequences, 4*width]
	share        *tensor.Dense // [sequences, 4*width]: the response norm's factors
	hidden       *tensor.Dense // [batch*codes, width]: the result of the latest passes
	last, headIn *tensor.Dense
	scratch      *kvcache.Cache

	rows    attention.Rows    // cells; segments by their place in the cache
	segs    []backend.Segment // the same by sequence in the group
	mods    []backend.Segment // the same by slot
	byText  []textGroup
	cells   []int32 // for each row its cell: sequence in the group*cells + cell
	states  []int32 // for each row its index in a cache's state: place*cells + cell
	seqs    []int   // the group's sequences, as indexes in the batch
	keys    []any
	texts   []*promptHeads // texts of the batch
	slots   []int32
	zero    int32 // index of the last row of around
	partial bool
	cache   *kvcache.Cache // the batch's; nil: none
	host    [3][]float32
}

// textGroup holds the segments of sequences with the same text.
type textGroup struct {
	text *promptHeads
	segs []backend.Segment
}

// resize makes room for groups of `sequences` sequences and `cells` cells.
func (m *Model) resize(sequences, cells int) {
	w := &m.w
	c := &m.cfg
	b := m.b
	grow := func(t **tensor.Dense, rows, width int) { *t = backend.Grow(b, *t, rows, width) }
	for _, t := range []**tensor.Dense{&w.x, &w.h, &w.t} {
		grow(t, cells, c.Width)
	}
	grow(&w.inner, cells, 4*c.Width)
	around := sequences*c.cellGrid()*c.cellGrid() + 1
	grow(&w.around, around, c.Width)
	w.zero = int32(w.around.Shape()[0] - 1)
	grow(&w.codes, cells*c.ratio()*c.ratio(), c.In)
	if c.Halved {
		grow(&w.fours, cells, 4*c.Width)
	}
	for _, t := range []**tensor.Dense{&w.hx, &w.hh, &w.hq} {
		grow(t, cells, c.Hidden)
	}
	grow(&w.qkv, cells, 3*c.Hidden)
	grow(&w.up, cells, c.Inner)
	for _, t := range []**tensor.Dense{&w.scale, &w.shift, &w.share} {
		grow(t, sequences, 4*c.Width)
	}
}

// resizeScratch makes room for keys and values if the batch does not keep them.
func (m *Model) resizeScratch(b *model.Batch, sequences int) {
	w := &m.w
	if b.Cache == nil && (w.scratch == nil || w.scratch.Batch < sequences) {
		cells := m.cfg.cellGrid() * m.cfg.cellGrid()
		w.scratch = kvcache.New(m.b, sequences, cells,
			[]kvcache.Layer{{Heads: m.self.Heads, HeadDim: m.self.HeadDim}})
	}
}

// beginGroup starts a new group.
func (w *workspace) beginGroup(b *model.Batch, partial bool) {
	w.rows.Segs = w.rows.Segs[:0]
	w.rows.Pos = w.rows.Pos[:0]
	w.segs = w.segs[:0]
	w.cells = w.cells[:0]
	w.states = w.states[:0]
	w.seqs = w.seqs[:0]
	w.partial = partial
	w.cache = b.Cache
}

// addCells adds cells of one of the batch's sequences to the group.
func (m *Model) addCells(b *model.Batch, sequence int, cells []int32) {
	w := &m.w
	all := int32(m.cfg.cellGrid() * m.cfg.cellGrid())
	group := len(w.seqs)
	place := group
	if b.Cache != nil {
		place = b.Place(sequence)
	}
	row := w.rows.Len()
	w.rows.Segs = append(w.rows.Segs, backend.Segment{Seq: place, Row: row, Rows: len(cells)})
	w.segs = append(w.segs, backend.Segment{Seq: group, Row: row, Rows: len(cells)})
	for _, cell := range cells {
		w.rows.Pos = append(w.rows.Pos, cell)
		w.cells = append(w.cells, int32(group)*all+cell)
		w.states = append(w.states, int32(place)*all+cell)
	}
	w.seqs = append(w.seqs, sequence)
}

// finishGroup completes the group: it finds its modulations and texts.
func (m *Model) finishGroup() {
	w := &m.w
	w.mods = w.mods[:0]
	w.byText = w.byText[:0]
	for i, s := range w.segs {
		sequence := w.seqs[i]
		w.mods = append(w.mods, backend.Segment{Seq: int(w.slots[sequence]), Row: s.Row, Rows: s.Rows})
		at := slices.IndexFunc(w.byText, func(g textGroup) bool { return g.text == w.texts[sequence] })
		if at < 0 {
			at = len(w.byText)
			w.byText = append(w.byText, textGroup{text: w.texts[sequence]})
		}
		w.byText[at].segs = append(w.byText[at].segs, backend.Segment{Row: s.Row, Rows: s.Rows})
	}
}

// runFull computes all cells of sequences first..first+n-1.
func (m *Model) runFull(ctx context.Context, b *model.Batch, first, n int) error {
	w := &m.w
	w.beginGroup(b, false)
	all := nn.RowRange(0, m.cfg.cellGrid()*m.cfg.cellGrid())
	for i := range n {
		m.addCells(b, first+i, all)
	}
	m.finishGroup()
	return m.runPass(ctx, b)
}

// runPartial computes the cells of rows of the batch.
func (m *Model) runPartial(ctx context.Context, b *model.Batch, rows []int32) error {
	w := &m.w
	c := &m.cfg
	w.beginGroup(b, true)
	ratio := int32(c.ratio())
	grid := int32(c.cellGrid())
	side := int32(c.Side)
	n := int32(b.Length)
	for len(rows) > 0 {
		sequence := rows[0] / n
		var cells []int32
		for len(rows) > 0 && rows[0]/n == sequence {
			p := rows[0] % n
			cells = append(cells, p/side/ratio*grid+p%side/ratio)
			rows = rows[1:]
		}
		slices.Sort(cells)
		m.addCells(b, int(sequence), slices.Compact(cells))
	}
	m.finishGroup()
	m.resize(len(w.seqs), w.rows.Len())
	return m.runPass(ctx, b)
}

// runPass runs the network over the group's cells and writes the result to w.hidden.
func (m *Model) runPass(ctx context.Context, b *model.Batch) error {
	w := &m.w
	n := m.w.rows.Len()
	m.embedCells(b)
	downHeads := func(t *promptHeads) []textHeads { return t.down }
	if err := m.runStage(ctx, &m.Down, 0, downHeads); err != nil {
		return err
	}
	m.ToNorm.Apply(m.b, w.h, w.x, n)
	m.To.Apply(m.b, w.hx, w.h, n, backend.Identity)
	for i := range m.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.runLayer(i)
	}
	m.FromNorm.Apply(m.b, w.hh, w.hx, n)
	m.From.Apply(m.b, w.x, w.hh, n, backend.Identity)
	upHeads := func(t *promptHeads) []textHeads { return t.up }
	if err := m.runStage(ctx, &m.Up, m.cfg.Res, upHeads); err != nil {
		return err
	}
	m.writeHidden(b)
	return nil
}

// codeRows returns the batch's rows for the group's cells: if the grid is halved, four for each
// cell, upper ones first.
func (m *Model) codeRows(b *model.Batch) (rows []int32) {
	w := &m.w
	c := &m.cfg
	ratio := c.ratio()
	grid := c.cellGrid()
	all := c.cellGrid() * c.cellGrid()
	for _, at := range w.cells {
		sequence := w.seqs[int(at)/all]
		cell := int(at) % all
		y := cell / grid * ratio
		x := cell % grid * ratio
		for dy := range ratio {
			for dx := range ratio {
				rows = append(rows, int32(sequence*b.Length+(y+dy)*c.Side+x+dx))
			}
		}
	}
	return rows
}

// embedCells sets w.x to the embedded codes of the group's cells.
func (m *Model) embedCells(b *model.Batch) {
	w := &m.w
	c := &m.cfg
	k := m.b
	rows := m.codeRows(b)
	for i, r := range rows {
		rows[i] = b.Tokens[r]
	}
	n := len(rows)
	k.Gather(w.codes, m.words, rows)
	m.EmbedNorm.Apply(k, w.codes, w.codes, n)
	if !c.Halved {
		m.embed.Apply(k, w.x, w.codes, n, backend.Identity)
		return
	}
	wide := reshapeRows(w.fours, c.Width) // four codes of a cell are one row of w.fours
	m.embed.Apply(k, wide, w.codes, n, backend.Identity)
	m.HalveNorm.Apply(k, wide, wide, n)
	k.Linear(w.x, w.fours, n/4, m.halve, backend.Epilogue{})
}

// writeHidden copies the group's results to the rows of their codes.
func (m *Model) writeHidden(b *model.Batch) {
	w := &m.w
	c := &m.cfg
	k := m.b
	n := m.w.rows.Len()
	rows := m.codeRows(b)
	if !c.Halved {
		k.Scatter(w.hidden, w.x, rows)
		return
	}
	m.DoubleNorm.Apply(k, w.h, w.x, n)
	k.Linear(w.fours, w.h, n, m.double, backend.Epilogue{})
	k.Scatter(w.hidden, reshapeRows(w.fours, c.Width), rows)
}

// reshapeRows returns the same memory as rows of another width.
func reshapeRows(t *tensor.Dense, width int) *tensor.Dense {
	v := t.ShallowClone()
	if err := v.Reshape(t.Shape().TotalSize()/width, width); err != nil {
		panic(err) // cannot happen: the number of values is the same
	}
	return v
}

// runLayer is one transformer layer over w.hx.
func (m *Model) runLayer(i int) {
	w := &m.w
	b := m.b
	k := &m.Layers[i]
	n := m.w.rows.Len()
	var keys, values *tensor.Dense
	if w.cache != nil {
		keys = w.cache.K[i]
		values = w.cache.V[i]
	} else {
		keys = w.scratch.K[0]
		values = w.scratch.V[0]
	}
	k.Norm1.Apply(b, w.hh, w.hx, n)
	b.Modulate(w.hh, k.Mod1.Part(0), k.Mod1.Part(1), w.mods)
	k.qkv.Apply(b, w.qkv, w.hh, n)
	m.self.Apply(b, w.hh, w.hq, keys, values, w.qkv, &w.rows, m.cfg.cellGrid()*m.cfg.cellGrid())
	k.Self.Out.AddTo(b, w.hx, w.hh, n)

	k.Norm2.Apply(b, w.hh, w.hx, n)
	b.Modulate(w.hh, k.Mod2.Part(0), k.Mod2.Part(1), w.mods)
	m.attendText(&k.Text, m.self, w.hx, w.hh, w.hq, w.hh,
		func(t *promptHeads) textHeads { return t.layers[i] })

	k.Norm3.Apply(b, w.hh, w.hx, n)
	b.Modulate(w.hh, k.Mod3.Part(0), k.Mod3.Part(1), w.mods)
	k.mlp.Inner(b, w.up, w.hh, n, backend.GELUErf)
	k.mlp.Down.AddTo(b, w.hx, w.up, n)
}

// runStage runs a convolutional stage over w.x. first is the number of blocks before it.
func (m *Model) runStage(ctx context.Context, s *stage, first int,
	of func(t *promptHeads) []textHeads) error {
	w := &m.w
	b := m.b
	n := m.w.rows.Len()
	for i := range s.Res {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &s.Res[i]
		t := &s.Text[i]
		m.convolveDepthwise(r, first+i)
		r.Norm.Apply(b, w.h, w.h, n)
		r.Up.Apply(b, w.inner, w.h, n, backend.GELUErf)
		m.applyResponseNorm(r, first+i)
		r.Down.AddTo(b, w.x, w.inner, n)
		b.Modulate(w.x, r.Mod.Part(0), r.Mod.Part(1), w.mods)
		t.Norm1.Apply(b, w.h, w.x, n)
		m.attendText(&t.Attn1, m.inner, w.x, w.h, w.t, w.h,
			func(t *promptHeads) textHeads { return of(t)[2*i] })
		t.Norm2.Apply(b, w.h, w.x, n)
		m.attendText(&t.Attn2, m.inner, w.x, w.h, w.t, w.h,
			func(t *promptHeads) textHeads { return of(t)[2*i+1] })
	}
	return nil
}
