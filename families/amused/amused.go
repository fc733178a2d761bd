// Package amused is aMUSEd (Patil et al., 2024, "aMUSEd: an open MUSE reproduction"; diffusers,
// models/unets/uvit_2d.py): a transformer over a grid of codes, with convolutional stages before
// and after it, conditioned on a prompt.
//
// There is no position embedding: positions show through the zero padding of the 3x3 convolutions.
// Checkpoints: amused/amused-256 and amused/amused-512, folders in the layout of diffusers.
package amused

import (
	"context"
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/adaln"
	"unmask/weights"
)

// Model is the transformer on a backend. It owns its working memory: one pass at a time, see
// model.Shared. It is no model.Network: a row of its passes is a cell, which may hold four
// positions.
type Model struct {
	model.Shared
	TextProj  nn.Linear     `weight:"encoder_proj"` // [hidden, text width]
	TextNorm  nn.RMSNorm    `weight:"encoder_proj_layer_norm"`
	Words     weights.Param `weight:"embed.embeddings.weight"` // [vocab, in]
	EmbedNorm nn.RMSNorm    `weight:"embed.layer_norm"`
	EmbedConv weights.Param `weight:"embed.conv.weight"` // [width, in, 1, 1]
	Cond1     nn.Linear     `weight:"cond_embed.linear_1"`
	Cond2     nn.Linear     `weight:"cond_embed.linear_2"`

	HalveNorm nn.RMSNorm    `weight:"down_block.downsample.norm"`
	HalveConv weights.Param `weight:"down_block.downsample.conv.weight"` // [width, width, 2, 2]
	Down      stage         `weight:"down_block"`
	ToNorm    nn.RMSNorm    `weight:"project_to_hidden_norm"`
	To        nn.Linear     `weight:"project_to_hidden"`
	Layers    []layer       `weight:"transformer_layers"`
	FromNorm  nn.RMSNorm    `weight:"project_from_hidden_norm"`
	From      nn.Linear     `weight:"project_from_hidden"`
	Up        stage         `weight:"up_block"`

	DoubleNorm nn.RMSNorm `weight:"up_block.upsample.norm"`
	// [width, width, 2, 2], transposed
	DoubleConv weights.Param `weight:"up_block.upsample.conv.weight"`

	HeadConv weights.Param `weight:"mlm_layer.conv1.weight"` // [in, width, 1, 1]
	HeadNorm nn.RMSNorm    `weight:"mlm_layer.layer_norm"`
	Head     weights.Param `weight:"mlm_layer.conv2.weight"` // [codes, in, 1, 1]

	cfg          Config
	b            backend.Backend
	words        *tensor.Dense  // [vocab, in]: Words on the device
	embed, head  nn.Linear      // EmbedConv and HeadConv
	halve        backend.Matrix // [width, 4*width]: four codes to a cell
	double       backend.Matrix // [4*width, width]: a cell to four codes
	cond1, cond2 nn.HostLinear

	// self is the attention of the transformer's layers over the cells, inner that of the stages over
	// the text.
	self, inner attention.Layer

	// table has the modulations of recent prompts.
	table adaln.Table

	w         workspace
	marginals model.HeadMarginals
	prompter  clip.Prompter
}

// New returns the network without weights.
func New(c Config) *Model {
	m := &Model{
		TextProj:  nn.NewLinearNoBias(c.TextWidth, c.Hidden),
		TextNorm:  nn.NewRMSNorm(c.Hidden, eps),
		Words:     weights.Param{Shape: []int{c.Vocab, c.In}},
		EmbedNorm: nn.NewRMSNorm(c.In, eps),
		EmbedConv: weights.Param{Shape: []int{c.Width, c.In, 1, 1}},
		Cond1:     nn.NewLinearNoBias(c.TextWidth+numbers*c.Frequencies, c.Hidden),
		Cond2:     nn.NewLinearNoBias(c.Hidden, c.Hidden),
		Down:      newStage(c),
		Up:        newStage(c),
		ToNorm:    nn.NewRMSNorm(c.Width, eps),
		To:        nn.NewLinearNoBias(c.Width, c.Hidden),
		FromNorm:  nn.NewRMSNorm(c.Hidden, eps),
		From:      nn.NewLinearNoBias(c.Hidden, c.Width),
		HeadConv:  weights.Param{Shape: []int{c.In, c.Width, 1, 1}},
		HeadNorm:  nn.NewRMSNorm(c.In, eps),
		Head:      weights.Param{Shape: []int{c.Codes, c.In, 1, 1}},
		cfg:       c,
		self:      attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads},
		inner:     attention.Layer{Heads: c.BlockHeads, HeadDim: c.Width / c.BlockHeads},
	}
	if c.Halved {
		square := weights.Param{Shape: []int{c.Width, c.Width, 2, 2}}
		m.HalveNorm = nn.NewRMSNorm(c.Width, eps)
		m.HalveConv = square
		m.DoubleNorm = nn.NewRMSNorm(c.Width, eps)
		m.DoubleConv = square
	}
	for range c.Depth {
		m.Layers = append(m.Layers, newLayer(c))
	}
	return m
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	b := o.Backend
	m.b = b
	m.self.BF16 = o.Precision != backend.F32
	m.inner.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: b, Precision: o.Precision}
	m.words = l.Table(&m.Words)
	m.embed = nn.ConvAsLinear(m.EmbedConv, weights.Param{})
	m.head = nn.ConvAsLinear(m.HeadConv, weights.Param{})
	l.Load(&m.TextProj, &m.TextNorm, &m.EmbedNorm, &m.embed, &m.ToNorm, &m.To, &m.FromNorm, &m.From,
		&m.head, &m.HeadNorm)
	m.cond1 = l.HostLinear(&m.Cond1)
	m.cond2 = l.HostLinear(&m.Cond2)
	if c.Halved {
		m.packHalving(l)
	}
	m.table = adaln.Table{Backend: b, Cond: c.Hidden}
	for _, s := range []*stage{&m.Down, &m.Up} {
		s.packWeights(l)
		for i := range s.Res {
			m.table.Layers = append(m.table.Layers, &s.Res[i].Mod)
		}
	}
	for i := range m.Layers {
		k := &m.Layers[i]
		k.packWeights(l)
		m.table.Layers = append(m.table.Layers, &k.Mod1, &k.Mod2, &k.Mod3)
	}
	m.marginals = model.HeadMarginals{
		Backend: b,
		Head:    backend.Head{W: l.Matrix(&m.Head, c.Codes), Outcomes: c.Codes},
		Length:  c.Side * c.Side,
		Project: m.projectRows,
	}
	return l.Err()
}

// packHalving packs the convolutions between codes and cells: the four codes of a cell form one
// row, the upper ones first.
func (m *Model) packHalving(l *nn.Loader) {
	n := m.cfg.Width
	l.Load(&m.HalveNorm, &m.DoubleNorm)
	w := l.Floats(&m.HalveConv) // [out, in, tap]
	m.halve = l.Backend.Pack(n, 4*n, l.Precision, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = w[(i*n+j%n)*4+j/n]
		}
	})
	v := l.Floats(&m.DoubleConv) // [in, out, tap]
	m.double = l.Backend.Pack(4*n, n, l.Precision, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = v[(j*n+i%n)*4+i/n]
		}
	})
}

// Spec implements model.Denoiser.
func (m *Model) Spec() model.Spec {
	c := &m.cfg
	return model.Spec{
		Shape:    []int{c.Side, c.Side},
		Outcomes: c.Codes,
		Mask:     int32(c.Vocab - 1),
		Fixed:    true,
		Prompt:   true,
	}
}

// Prompts implements model.Prompter.
func (m *Model) Prompts(ctx context.Context, texts []string) ([]*model.Prompt, error) {
	return m.prompter.Prompts(ctx, texts)
}

// NewCache implements model.Refiner. Beside keys and values of cells it keeps, for each
// convolution, its input, and the factors of its response norm: a partial pass takes those of
// other cells, and the norm's sums, from the full one.
func (m *Model) NewCache(batch, _ int) *kvcache.Cache {
	c := &m.cfg
	layers := make([]kvcache.Layer, c.Depth)
	for i := range layers {
		layers[i] = kvcache.Layer{Heads: m.self.Heads, HeadDim: m.self.HeadDim}
	}
	cells := c.cellGrid() * c.cellGrid()
	var states []int
	for range 2 * c.Res {
		states = append(states, cells*c.Width, 4*c.Width)
	}
	cache := kvcache.New(m.b, batch, cells, layers, states...)
	cache.Length = c.Side * c.Side
	return cache
}

// MaxSequences implements model.Sized.
func (m *Model) MaxSequences(length int, cached bool) int {
	c := &m.cfg
	cells := m.cfg.cellGrid() * m.cfg.cellGrid()
	sequence := 4 * length * c.Width
	if cached {
		sequence += 8*cells*c.Depth*c.Hidden + 8*c.Res*cells*c.Width
	}
	return model.MaxSequences(m.b, length, sequence, 4*(10*c.Hidden+2*c.Inner+8*c.Width))
}

// Forward implements model.Denoiser.
func (m *Model) Forward(ctx context.Context, b *model.Batch) (_ model.Marginals, err error) {
	defer backend.Recover(&err)
	if err := m.beginBatch(b); err != nil {
		return nil, err
	}
	cells := m.cfg.cellGrid() * m.cfg.cellGrid()
	group := min(b.Size, max(1, backend.GroupRows(m.b)/cells))
	m.resize(group, group*cells)
	m.resizeScratch(b, group)
	for s := 0; s < b.Size; s += group {
		if err := m.runFull(ctx, b, s, min(group, b.Size-s)); err != nil {
			return nil, err
		}
	}
	return &m.marginals, nil
}

// Refine implements model.Refiner: it recomputes the cells of rows.
func (m *Model) Refine(ctx context.Context, b *model.Batch, rows []int32) (_ model.Marginals,
	err error) {
	defer backend.Recover(&err)
	if err := m.beginBatch(b); err != nil {
		return nil, err
	}
	if b.Cache == nil {
		return nil, fmt.Errorf("there is no cache, want that of a full pass before a partial one")
	}
	for len(rows) > 0 {
		var part []int32
		part, rows = attention.SplitGroup(rows, b.Length, backend.GroupRows(m.b))
		if err := m.runPartial(ctx, b, part); err != nil {
			return nil, err
		}
	}
	return &m.marginals, nil
}

// beginBatch checks the batch and finds the modulations, keys and values of its prompts.
func (m *Model) beginBatch(b *model.Batch) error {
	if err := b.Check(m.Spec()); err != nil {
		return err
	}
	w := &m.w
	c := &m.cfg
	w.hidden = backend.Grow(m.b, w.hidden, b.Size*b.Length, c.Width)
	w.keys = w.keys[:0]
	w.texts = w.texts[:0]
	for i := range b.Size {
		p := b.Condition(i).Prompt
		if p.Width != c.TextWidth || p.Rows < 1 || p.Rows > maxTexts || len(p.Pooled) != c.TextWidth ||
			p.Numbers != nil && len(p.Numbers) != numbers {
			return fmt.Errorf("the prompt of sequence %d is %d x %d with %d pooled numbers and %d others, "+
				"want a width of %d, as many, and %d",
				i, p.Rows, p.Width, len(p.Pooled), len(p.Numbers), c.TextWidth, numbers)
		}

		// A prompt's keys and values are computed once and kept with it.
		heads := p.Derive(m, func() any { return m.encodePrompt(p) })
		w.keys = append(w.keys, p)
		w.texts = append(w.texts, heads.(*promptHeads))
	}
	w.slots = m.table.AssignSlots(w.slots, w.keys, m.condVector)
	return nil
}

// condVector returns the conditioning vector: an MLP of the pooled text and of the numbers as
// sinusoids with periods up to 10000, cosines first, in float32.
func (m *Model) condVector(prompt any) []float32 {
	c := &m.cfg
	p := prompt.(*model.Prompt)
	values := p.Numbers
	if values == nil { // as the authors' pipeline: the whole picture, and a good one
		side := float64(16 * c.Side) // pixels
		values = []float64{side, side, 0, 0, 6}
	}
	x := append([]float32(nil), p.Pooled...)
	half := c.Frequencies / 2
	for _, v := range values {
		e := make([]float32, c.Frequencies)
		for i := range half {
			freq := float32(math.Exp(float64(-float32(math.Log(10000)) * float32(i) / float32(half))))
			angle := float64(float32(v) * freq)
			e[i] = float32(math.Cos(angle))
			e[half+i] = float32(math.Sin(angle))
		}
		x = append(x, e...)
	}
	return m.cond2.Apply(nn.SiLU(m.cond1.Apply(x)))
}

// projectRows returns the head's input [rows, in] for rows of hidden.
func (m *Model) projectRows(rows []int32) *tensor.Dense {
	w := &m.w
	n := len(rows)
	w.last = backend.Grow(m.b, w.last, n, m.cfg.Width)
	w.headIn = backend.Grow(m.b, w.headIn, n, m.cfg.In)
	m.b.Gather(w.last, w.hidden, rows)                       // [rows, width]
	m.head.Apply(m.b, w.headIn, w.last, n, backend.Identity) // [rows, in]
	m.HeadNorm.Apply(m.b, w.headIn, w.headIn, n)             // [rows, in]
	return w.headIn
}
