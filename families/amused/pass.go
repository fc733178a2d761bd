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

	// fours is [cells, 4*width]: four codes in a row, before they become a cell and after.
	fours *tensor.Dense

	hx, hh, hq   *tensor.Dense // [cells, hidden], for the transformer
	qkv          *tensor.Dense // [cells, 3*hidden]
	up           *tensor.Dense // [cells, inner]
	scale, shift *tensor.Dense // [sequences, 4*width]
	share        *tensor.Dense // [sequences, 4*width]: the response norm's factors
	hidden       *tensor.Dense // [batch*codes, width]: the result of the latest passes
	last         *tensor.Dense // [rows of one call to the head, width]
	headIn       *tensor.Dense // [rows of one call to the head, in]

	// scratch has keys and values of one layer, for batches without a cache.
	scratch *kvcache.Cache

	// rows are the pass's cells, with segments by their place in the cache; segs are the same by
	// sequence in the group, mods by slot of the modulation, byText by text.
	rows   attention.Rows
	segs   []backend.Segment
	mods   []backend.Segment
	byText []textGroup

	cells  []int32 // for each row its cell: sequence in the group * cells + cell
	states []int32 // for each row its index in a cache's state: place * cells + cell
	seqs   []int   // the group's sequences, as indexes in the batch
	zero   int32   // index of the last row of around

	// partial says that the pass does not compute all cells.
	partial bool

	// cache is the batch's, and nil if it has none.
	cache *kvcache.Cache

	// keys are the batch's prompts, slots those of their modulations, texts their keys and values.
	keys  []any
	slots []int32
	texts []*promptHeads

	host [3][]float32 // [4*width] each, for computeShares
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

	// One row more, of zeros, stands for all neighbours outside the grid.
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

		text := w.texts[sequence]
		group := slices.IndexFunc(w.byText, func(g textGroup) bool { return g.text == text })
		if group < 0 {
			group = len(w.byText)
			w.byText = append(w.byText, textGroup{text: text})
		}
		w.byText[group].segs = append(w.byText[group].segs,
			backend.Segment{Row: s.Row, Rows: s.Rows})
	}
}

// runFull computes all cells of sequences first..first+n-1.
func (m *Model) runFull(ctx context.Context, b *model.Batch, first, n int) error {
	w := &m.w
	w.beginGroup(b, false)
	rows := nn.RowRange(0, m.cfg.cellGrid()*m.cfg.cellGrid())
	for i := range n {
		m.addCells(b, first+i, rows)
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
		// A cell covers ratio x ratio positions. It is computed once for all of them that are asked for.
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

// runPass runs the network over the group's cells and writes the result to work.hidden.
func (m *Model) runPass(ctx context.Context, b *model.Batch) error {
	w := &m.w
	d := m.b
	n := w.rows.Len()
	m.embedCells(b) // w.x [cells, width]
	downHeads := func(t *promptHeads) []textHeads { return t.down }
	if err := m.runStage(ctx, &m.Down, 0, downHeads); err != nil {
		return err
	}

	m.ToNorm.Apply(d, w.h, w.x, n)                // [cells, width]
	m.To.Apply(d, w.hx, w.h, n, backend.Identity) // [cells, hidden]
	for i := range m.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.runLayer(i)
	}
	m.FromNorm.Apply(d, w.hh, w.hx, n)              // [cells, hidden]
	m.From.Apply(d, w.x, w.hh, n, backend.Identity) // [cells, width]

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
	cells := c.cellGrid() * c.cellGrid()
	for _, groupCell := range w.cells {
		sequence := w.seqs[int(groupCell)/cells]
		cell := int(groupCell) % cells
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

// embedCells sets work.x [cells, width] to the embedded codes of the group's cells.
func (m *Model) embedCells(b *model.Batch) {
	w := &m.w
	c := &m.cfg
	d := m.b
	ids := m.codeRows(b)
	for i, row := range ids {
		ids[i] = b.Tokens[row]
	}
	n := len(ids)
	d.Gather(w.codes, m.words, ids)           // [codes, in]
	m.EmbedNorm.Apply(d, w.codes, w.codes, n) // [codes, in]
	if !c.Halved {
		m.embed.Apply(d, w.x, w.codes, n, backend.Identity) // [cells, width]: a code is a cell
		return
	}
	codes := reshapeRows(w.fours, c.Width)                   // four rows are one row of w.fours
	m.embed.Apply(d, codes, w.codes, n, backend.Identity)    // [codes, width]
	m.HalveNorm.Apply(d, codes, codes, n)                    // [codes, width]
	d.Linear(w.x, w.fours, n/4, m.halve, backend.Epilogue{}) // [cells, width]
}

// writeHidden copies the group's results to the rows of their codes in work.hidden.
func (m *Model) writeHidden(b *model.Batch) {
	w := &m.w
	c := &m.cfg
	d := m.b
	n := w.rows.Len()
	rows := m.codeRows(b)
	if !c.Halved {
		d.Scatter(w.hidden, w.x, rows)
		return
	}
	m.DoubleNorm.Apply(d, w.h, w.x, n)                      // [cells, width]
	d.Linear(w.fours, w.h, n, m.double, backend.Epilogue{}) // [cells, 4*width]
	d.Scatter(w.hidden, reshapeRows(w.fours, c.Width), rows)
}

// reshapeRows returns the same memory as rows of another width.
func reshapeRows(t *tensor.Dense, width int) *tensor.Dense {
	v := t.ShallowClone()
	if err := v.Reshape(t.Shape().TotalSize()/width, width); err != nil {
		panic(err) // cannot happen: the number of values is the same
	}
	return v
}

// runLayer computes one transformer layer over work.hx [cells, hidden].
func (m *Model) runLayer(i int) {
	w := &m.w
	b := m.b
	k := &m.Layers[i]
	n := w.rows.Len()
	var keys, values *tensor.Dense // [places, heads, cells, headDim]
	if w.cache != nil {
		keys = w.cache.K[i]
		values = w.cache.V[i]
	} else {
		keys = w.scratch.K[0]
		values = w.scratch.V[0]
	}

	// attention over the cells
	k.Norm1.Apply(b, w.hh, w.hx, n) // [cells, hidden]
	b.Modulate(w.hh, k.Mod1.Part(0), k.Mod1.Part(1), w.mods)
	k.qkv.Apply(b, w.qkv, w.hh, n) // [cells, 3*hidden]
	m.self.Apply(b, w.hh, w.hq, keys, values, w.qkv, &w.rows, m.cfg.cellGrid()*m.cfg.cellGrid())
	k.Self.Out.AddTo(b, w.hx, w.hh, n) // [cells, hidden]

	// attention over the text
	k.Norm2.Apply(b, w.hh, w.hx, n) // [cells, hidden]
	b.Modulate(w.hh, k.Mod2.Part(0), k.Mod2.Part(1), w.mods)
	layerHeads := func(t *promptHeads) textHeads { return t.layers[i] }
	m.attendText(&k.Text, m.self, w.hx, w.hh, w.hq, w.hh, layerHeads) // w.hx [cells, hidden]

	// MLP
	k.Norm3.Apply(b, w.hh, w.hx, n) // [cells, hidden]
	b.Modulate(w.hh, k.Mod3.Part(0), k.Mod3.Part(1), w.mods)
	k.mlp.Inner(b, w.up, w.hh, n, backend.GELUErf) // [cells, inner]
	k.mlp.Down.AddTo(b, w.hx, w.up, n)             // [cells, hidden]
}

// runStage runs a convolutional stage over work.x [cells, width]. firstBlock is the number of
// blocks in the stage before it, and heads selects the stage's keys and values of a prompt, two for
// each level.
func (m *Model) runStage(ctx context.Context, s *stage, firstBlock int,
	heads func(t *promptHeads) []textHeads) error {
	w := &m.w
	b := m.b
	n := w.rows.Len()
	for i := range s.Res {
		if err := ctx.Err(); err != nil {
			return err
		}
		res := &s.Res[i]
		text := &s.Text[i]

		m.convolveDepthwise(res, firstBlock+i)            // w.h [cells, width]
		res.Norm.Apply(b, w.h, w.h, n)                    // [cells, width]
		res.Up.Apply(b, w.inner, w.h, n, backend.GELUErf) // [cells, 4*width]
		m.applyResponseNorm(res, firstBlock+i)            // w.inner [cells, 4*width]
		res.Down.AddTo(b, w.x, w.inner, n)                // [cells, width]
		b.Modulate(w.x, res.Mod.Part(0), res.Mod.Part(1), w.mods)

		first := func(t *promptHeads) textHeads { return heads(t)[2*i] }
		text.Norm1.Apply(b, w.h, w.x, n) // [cells, width]
		m.attendText(&text.Attn1, m.inner, w.x, w.h, w.t, w.h, first)

		second := func(t *promptHeads) textHeads { return heads(t)[2*i+1] }
		text.Norm2.Apply(b, w.h, w.x, n) // [cells, width]
		m.attendText(&text.Attn2, m.inner, w.x, w.h, w.t, w.h, second)
	}
	return nil
}
