// Package pgm is Partition Generative Modeling (Deschenaux, Tran and Gulcehre 2025, "Partition
// generative modeling: masked modeling without masks"): a masked diffusion model in whose network
// no mask enters. An encoder sees the known tokens alone; a decoder is asked for positions, which
// see the encoder's rows and not each other. Text, and images by class.
//
// Checkpoints: jdeschena/pgm, through `unmask convert`. The encoder's blocks are those of package
// dit. This file has the network, config.go reads config.json.
package pgm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/dit"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/adaln"
	"unmask/weights"
)

// eps is that of all norms.
const eps = 1e-5

// Rows of an image that stand before its cells: one of the two registers, at position 1, and the
// begin token at position 2. Cells follow, so that cell i is at position i + firstCell. (In
// training the other register, at position 0, is of the other half.)
const (
	registers     = 2
	imageExtra    = 2
	firstCell     = registers + 1
	registerIndex = -2 // as Pass.Position counts the rows before the cells
)

// swap makes the decoder's first rows. A query knows nothing but its position.
type swap struct {
	Base     weights.Param `weight:"base_embedding"` // [1, hidden]
	Norm     nn.LayerNorm  `weight:"pre_query_norm"`
	Query    nn.Linear     `weight:"query_processor"`     // [hidden, hidden]
	KeyValue nn.Linear     `weight:"hidden_to_key_value"` // [2*hidden, hidden]
	Out      nn.Linear     `weight:"output_linear"`       // [hidden, hidden]
}

// decoderBlock is attention to the encoder's rows, and an MLP. The norm of keys is not modulated.
type decoderBlock struct {
	QueryNorm    nn.LayerNorm `weight:"q_norm1"`
	KeyNorm      nn.LayerNorm `weight:"kv_norm1"`
	Query        nn.Linear    `weight:"attn_q"`  // [hidden, hidden]
	KeyValue     nn.Linear    `weight:"attn_kv"` // [2*hidden, hidden]
	dit.Branches `weight:""`
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared. It is no model.Refiner: every row of the encoder changes when a token comes, so no
// key or value stays.
type Model struct {
	Embedding weights.Param  `weight:"vocab_embed.embedding"`            // [vocab, hidden]
	Sigma     *dit.Timestep  `weight:"sigma_map.mlp"`                    // of text
	Classes   weights.Param  `weight:"cls_embed.embedding_table.weight"` // [classes+1, hidden], of images; last: none
	Registers weights.Param  `weight:"reg_tokens.weight"`                // [2, hidden], of images
	Encoder   []dit.Block    `weight:"encoder.blocks"`
	Swap      swap           `weight:"decoder.group_swap"`
	Decoder   []decoderBlock `weight:"decoder.layers"`
	Output    dit.Output     `weight:"output_layer"`

	cfg     Config
	b       backend.Backend
	network model.Network
	layer   attention.Layer // of the encoder
	cross   attention.Cross // of the decoder
	table   *tensor.Dense   // [vocab, hidden]: Embedding on the device

	// register is the one that enters, [1, hidden].
	register *tensor.Dense

	// queries, [positions, hidden], are the swap's queries before their rotation, which depend on
	// nothing.
	queries *tensor.Dense

	// The following are of images, whose modulations depend on the class.

	classes []float32 // [classes+1, hidden]
	mods    adaln.Table
	keys    []any   // the batch's classes
	slots   []int32 // of the batch's sequences

	pass passRows
}

// passRows are the rows of a pass, and its memory.
type passRows struct {
	// known are the encoder's rows, with places from 0 in each sequence, and asked the decoder's.
	known attention.Rows
	asked attention.Rows

	// encoder and decoder have the two streams.
	encoder nn.Work
	decoder nn.Work

	// ids are the known rows' tokens, and registerRows those of them that are registers.
	ids          []int32
	registerRows []int32

	// positions are the asked rows' positions, as rows of queries.
	positions []int32

	// knownSlots and askedSlots are the rows by the slot of their sequence's class; nil for text.
	knownSlots []backend.Segment
	askedSlots []backend.Segment
}

// New returns the network without weights.
func New(c Config) *Model {
	cond := c.Cond
	m := &Model{
		Embedding: weights.Param{Shape: []int{c.Vocab, c.Hidden}},
		Encoder:   make([]dit.Block, c.Encoder),
		Swap: swap{
			Base:     weights.Param{Shape: []int{1, c.Hidden}},
			Norm:     nn.NewLayerNorm(c.Hidden, eps),
			Query:    nn.NewLinear(c.Hidden, c.Hidden),
			KeyValue: nn.NewLinear(c.Hidden, 2*c.Hidden),
			Out:      nn.NewLinear(c.Hidden, c.Hidden),
		},
		Decoder: make([]decoderBlock, c.Decoder),
		cfg:     c,
	}
	if c.Classes > 0 {
		cond = c.Hidden
		m.Classes = weights.Param{Shape: []int{c.Classes + 1, c.Hidden}}
		m.Registers = weights.Param{Shape: []int{registers, c.Hidden}}
	} else {
		sigma := dit.NewTimestep(cond)
		m.Sigma = &sigma
	}
	m.Output = dit.NewOutput(c.Hidden, c.Vocab, cond)
	for i := range m.Encoder {
		m.Encoder[i] = dit.NewBlock(c.Hidden, c.MLP, cond)
	}
	for i := range m.Decoder {
		m.Decoder[i] = decoderBlock{
			QueryNorm: nn.NewLayerNormNoBias(c.Hidden, eps),
			KeyNorm:   nn.NewLayerNormNoBias(c.Hidden, eps),
			Query:     nn.NewLinearNoBias(c.Hidden, c.Hidden),
			KeyValue:  nn.NewLinearNoBias(c.Hidden, 2*c.Hidden),
			Branches:  dit.NewBranches(c.Hidden, c.MLP, cond),
		}
	}
	return m
}

// packWeights packs the bound weights. A text's condition is constant, because its network was
// trained without the noise level: it is folded into norms and projections, as in package dit.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.table = l.Table(&m.Embedding)
	m.mods = adaln.Table{Backend: m.b, Cond: c.Hidden, Plain: true}
	var constant []float32
	if c.Classes > 0 {
		m.classes = l.Floats(&m.Classes)
		m.register = m.b.New(1, c.Hidden)
		m.b.Write(m.register, 0, l.Floats(&m.Registers)[c.Hidden:])
	} else {
		m.Sigma.Load(l)
		constant = nn.SiLU(m.Sigma.Embed(0))
	}

	for i := range m.Encoder {
		m.Encoder[i].Load(l, &m.mods, constant)
	}
	l.Load(&m.Swap.Norm, &m.Swap.Query, &m.Swap.KeyValue, &m.Swap.Out)
	for i := range m.Decoder {
		k := &m.Decoder[i]
		k.Branches.Load(l, &m.mods, constant, &k.QueryNorm)
		l.Load(&k.KeyNorm, &k.Query, &k.KeyValue)
	}
	m.Output.Load(l, &m.mods, constant)

	dim := c.Hidden / c.Heads
	positions := c.positions()
	m.layer = attention.Layer{
		Heads:   c.Heads,
		HeadDim: dim,
		BF16:    o.Precision != backend.F32,
		Rotary:  nn.NewRotary(m.b, nn.Frequencies(10000, dim/2), 1, positions),
	}
	m.cross = attention.Cross{Layer: m.layer}
	m.queries = m.makeQueries(l.Floats(&m.Swap.Base), positions)
	m.setNetwork(l)
	return l.Err()
}

// makeQueries returns the swap's queries of all positions, [positions, hidden]: the learnt vector
// and waves of the position, through a norm and a projection.
func (m *Model) makeQueries(base []float32, positions int) *tensor.Dense {
	width := m.cfg.Hidden
	half := width / 2
	values := make([]float32, positions*width)
	for position := range positions {
		row := values[position*width:][:width]
		for i := range half {
			angle := float64(position) / math.Pow(10000, 2*float64(i)/float64(width))
			row[i] = base[i] + float32(math.Cos(angle))
			row[half+i] = base[half+i] + float32(math.Sin(angle))
		}
	}
	x := m.b.New(positions, width)
	queries := m.b.New(positions, width)
	m.b.Write(x, 0, values)
	m.Swap.Norm.Apply(m.b, x, x, positions)
	m.Swap.Query.Apply(m.b, queries, x, positions, backend.Identity)
	return queries
}

// setNetwork sets what cuts batches into passes and runs the head.
func (m *Model) setNetwork(l *nn.Loader) {
	c := &m.cfg
	outcomes := c.Vocab - 1 // MDLM's SUBS: a position never becomes the mask, the last token
	spec := model.Spec{
		Shape:      []int{c.Length},
		Outcomes:   outcomes,
		Mask:       int32(c.Vocab - 1),
		Ragged:     true,
		BeforeText: []int32{int32(c.Vocab - 2)},
	}
	extra := 0
	if c.Classes > 0 {
		extra = imageExtra
		outcomes = c.Vocab - 2 // neither the mask nor the begin token, the last two rows
		spec = model.Spec{
			Shape:    []int{c.Side, c.Side},
			Outcomes: outcomes,
			Mask:     int32(c.Vocab - 2),
			Fixed:    true,
			Classes:  c.Classes,
		}
	}
	m.network = model.Network{
		Passes: model.Passes{
			Backend: m.b,
			Extra:   extra,
			// Keys and values are used within one block, and none is kept.
			Layers: []kvcache.Layer{{Heads: c.Heads, HeadDim: m.layer.HeadDim}},
		},
		ModelSpec: spec,
		Head:      m.Output.Head(l, outcomes),
		Width:     c.Hidden,
		// nn.Work has 6*hidden + mlp floats, and attention of the decoder 8*hidden and 2*hidden of keys
		// and values.
		RowSize: 16*c.Hidden + c.MLP,
		Begin:   m.beginBatch,
		Pass:    m.runPass,
	}
}

// Spec implements model.Denoiser.
func (m *Model) Spec() model.Spec { return m.network.Spec() }

// Forward implements model.Denoiser.
func (m *Model) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	return m.network.Forward(ctx, b)
}

// Locker implements model.Locker.
func (m *Model) Locker() sync.Locker { return m.network.Locker() }

// MaxSequences implements model.Sized.
func (m *Model) MaxSequences(length int, _ bool) int {
	return m.network.MaxSequences(length, false)
}

// beginBatch checks that something is known of each text, and computes the modulations of a batch's
// classes, which enter as they are.
func (m *Model) beginBatch(b *model.Batch) error {
	c := &m.cfg
	if c.Classes == 0 {
		for i := range b.Size {
			tokens := b.Tokens[i*b.Length:][:b.UsedLength(i)]
			if !slices.ContainsFunc(tokens, func(t int32) bool { return t != int32(c.Vocab-1) }) {
				return fmt.Errorf("sequence %d has masks alone, want a known token, such as %d at the "+
					"beginning: nothing else enters the network", i, c.Vocab-2)
			}
		}
		return nil
	}
	m.keys = m.keys[:0]
	for i := range b.Size {
		class := c.Classes
		if k := b.Condition(i); k != nil && k.Class != model.NoClass {
			class = int(k.Class)
		}
		m.keys = append(m.keys, class)
	}
	m.slots = m.mods.AssignSlots(m.slots, m.keys, func(class any) []float32 {
		return m.classes[class.(int)*c.Hidden:][:c.Hidden]
	})
	return nil
}

// runPass encodes the known rows of p and asks for those that are read. It returns the hidden
// states of these, [rows, hidden].
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	left := p
	if p.ReadRows != nil {
		left = p.Pick(p.ReadRows)
	}
	r := &m.pass
	if left.Len() == 0 {
		return nil, left, nil
	}
	m.setRows(p, left)
	r.encoder.Prepare(m.b, r.known.Len(), m.cfg.Hidden, m.cfg.MLP)
	r.decoder.Prepare(m.b, r.asked.Len(), m.cfg.Hidden, m.cfg.MLP)
	k, v := p.KV(0) // [sequences, heads, positions, headDim]

	if err := m.encode(ctx, k, v); err != nil {
		return nil, nil, err
	}
	if err := m.ask(ctx, k, v); err != nil {
		return nil, nil, err
	}
	m.Output.Apply(m.b, r.decoder.X, left.Len(), r.askedSlots)
	return r.decoder.X, left, nil
}

// setRows finds the known rows of the sequences of which some row is read, and the asked ones.
func (m *Model) setRows(p, left *model.Pass) {
	r := &m.pass
	r.known.Reset()
	r.asked.Reset()
	r.ids = r.ids[:0]
	r.registerRows = r.registerRows[:0]
	r.positions = r.positions[:0]
	shift := int32(m.cfg.firstPosition())
	for i, s := range left.Sequences {
		place := left.Segs[i].Seq
		for row := s.Row; row < s.Row+s.Rows; row++ {
			position := int32(left.Position(row)) + shift
			r.asked.Add(place, int32(row-s.Row))
			r.asked.RotaryPos = append(r.asked.RotaryPos, position)
			r.positions = append(r.positions, position)
		}
	}
	nextRead := 0
	for i, s := range p.Sequences {
		if nextRead == len(left.Sequences) || left.Sequences[nextRead].Seq != s.Seq {
			continue
		}
		nextRead++
		place := p.Segs[i].Seq
		n := 0
		hidden := m.hiddenPosition(p, s)
		for row := s.Row; row < s.Row+s.Rows; row++ {
			position := p.Position(row)
			id := m.idAt(position, p.Tokens[row])
			if id == m.network.ModelSpec.Mask || position == hidden {
				continue
			}
			if position == registerIndex {
				r.registerRows = append(r.registerRows, int32(r.known.Len()))
			}
			r.known.Add(place, int32(n))
			r.known.RotaryPos = append(r.known.RotaryPos, int32(position)+shift)
			r.ids = append(r.ids, id)
			n++
		}
		r.known.Seen = append(r.known.Seen, n)
		r.asked.Seen = append(r.asked.Seen, n)
	}
	if m.cfg.Classes > 0 {
		r.askedSlots = adaln.SlotSegments(r.askedSlots, left.Sequences, m.slots)
		r.knownSlots = r.knownSlots[:0]
		for i, s := range left.Sequences {
			known := r.known.Segs[i]
			known.Seq = int(m.slots[s.Seq])
			r.knownSlots = append(r.knownSlots, known)
		}
	}
}

// noPosition is before all rows of a sequence.
const noPosition = math.MinInt

// hiddenPosition returns the position of the row that the authors' program hides, -1 for the begin
// token; noPosition for none. It counts the known tokens without the register, so that nobody sees
// the last one: the one that opened last, or before anything opened the last that is given.
func (m *Model) hiddenPosition(p *model.Pass, s backend.Segment) int {
	if !m.cfg.HideLast {
		return noPosition
	}
	last := -1
	for row := s.Row; row < s.Row+s.Rows; row++ {
		token := p.Tokens[row]
		if token < 0 || token == m.network.ModelSpec.Mask {
			continue
		}
		last = p.Position(row)
		if last == p.LastOpened(s.Seq) {
			break
		}
	}
	return last
}

// idAt returns the row of the embedding of a token at a position. A register has none of its own
// and gets that of the begin token, until its vector replaces it.
func (m *Model) idAt(position int, token int32) int32 {
	if position < 0 {
		return int32(m.cfg.Vocab - 1)
	}
	return token
}

// encode runs the encoder over the known rows, which see each other: pass.encoder.X, [rows,
// hidden].
func (m *Model) encode(ctx context.Context, k, v *tensor.Dense) error {
	r := &m.pass
	w := &r.encoder
	n := r.known.Len()
	m.b.Gather(w.X, m.table, r.ids) // [rows, hidden]
	if len(r.registerRows) > 0 {
		m.b.Gather(w.H, m.register, make([]int32, len(r.registerRows)))
		m.b.Scatter(w.X, w.H, r.registerRows)
	}
	most := slices.Max(r.known.Seen)
	for i := range m.Encoder {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := &m.Encoder[i]
		block.ApplyQKV(m.b, w, n, r.knownSlots)
		m.layer.Apply(m.b, w.H, w.Q, k, v, w.QKV, &r.known, most)
		block.AddAttention(m.b, w, n, r.knownSlots)
		block.AddMLP(m.b, w, n, r.knownSlots)
	}
	return nil
}

// ask runs the decoder over the asked rows, which see the encoder's: pass.decoder.X, [rows,
// hidden].
func (m *Model) ask(ctx context.Context, k, v *tensor.Dense) error {
	r := &m.pass
	out := r.encoder.X
	w := &r.decoder
	known := r.known.Len()
	n := r.asked.Len()

	m.b.Gather(w.Q, m.queries, r.positions) // [rows, hidden]
	kv := m.cross.KeysAndValues(m.b, known)
	m.Swap.KeyValue.Apply(m.b, kv, out, known, backend.Identity) // [known, 2*hidden]
	m.cross.Attend(m.b, w.H, w.Q, k, v, &r.asked, &r.known)
	m.Swap.Out.Apply(m.b, w.X, w.H, n, backend.Identity) // [rows, hidden]

	for i := range m.Decoder {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := &m.Decoder[i]
		block.KeyNorm.Apply(m.b, r.encoder.H, out, known)
		block.KeyValue.Apply(m.b, kv, r.encoder.H, known, backend.Identity)
		block.QueryNorm.Apply(m.b, w.H, w.X, n)
		block.Mod.Modulate(m.b, w.H, adaln.Scale1, adaln.Shift1, r.askedSlots)
		block.Query.Apply(m.b, w.Q, w.H, n, backend.Identity)
		m.cross.Attend(m.b, w.H, w.Q, k, v, &r.asked, &r.known)
		block.AddAttention(m.b, w, n, r.askedSlots)
		block.AddMLP(m.b, w, n, r.askedSlots)
	}
	return nil
}
