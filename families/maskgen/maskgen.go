// Package maskgen is MaskGen-VQ (Kim et al., 2025, "Democratizing text-to-image masked generative
// models with compact text-aware one-dimensional tokens"): a transformer over TA-TiTok's latent
// tokens and a prompt, in two streams that share one attention, as in Stable Diffusion 3's blocks.
//
// Tokens have no place in the image, so there is no inpainting. Checkpoints:
// turkeyju/generator_maskgen_vq_{l,xl}, with turkeyju/tokenizer_tatitok_bl128_vq and the text side
// of openai/clip-vit-large-patch14-336.
package maskgen

import (
	"context"
	"fmt"
	"math"
	"slices"

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

const eps = 1e-6

// block is one block: attention over text and image together, and an MLP for each stream.
type block struct {
	// shift, scale and gate of attention, then those of the MLP
	Mod adaln.Layer `weight:"norm1.linear"`
	// the same for the text; in the last block scale and shift only
	TextMod adaln.Layer `weight:"norm1_context.linear"`
	Query   nn.Linear   `weight:"attn.to_q"`
	Key     nn.Linear   `weight:"attn.to_k"`
	Value   nn.Linear   `weight:"attn.to_v"`
	Out     nn.Linear   `weight:"attn.to_out.0"`
	Up      nn.Linear   `weight:"ff.net.0.proj"`
	Down    nn.Linear   `weight:"ff.net.2"`

	TextQuery nn.Linear `weight:"attn.add_q_proj"`
	TextKey   nn.Linear `weight:"attn.add_k_proj"`
	TextValue nn.Linear `weight:"attn.add_v_proj"`
	// this and the following fields are missing in the last block
	TextOut  nn.Linear `weight:"attn.to_add_out"`
	TextUp   nn.Linear `weight:"ff_context.net.0.proj"`
	TextDown nn.Linear `weight:"ff_context.net.2"`

	qkv, textQKV   nn.JoinedLinear
	shift1, scale1 int // parts of TextMod
}

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network
	// [codes+1002, hidden]; under the head's name if they are tied
	Words    weights.Param `weight:"embeddings.weight"`
	Position weights.Param `weight:"pos_embed"`        // [1, tokens, hidden]
	TextProj nn.Linear     `weight:"text_embed_proj"`  // [hidden, text width]
	CondProj nn.Linear     `weight:"cond_pooled_proj"` // [hidden, pooled+sinusoids]
	Blocks   []block       `weight:"blocks"`
	FinalMod adaln.Layer   `weight:"norm.linear"` // scale, shift
	// [codes, hidden]; the first rows of Words if they are tied
	HeadW    weights.Param `weight:"lm_head.weight"`
	HeadBias weights.Param `weight:"lm_head.bias"` // [codes]
	cfg      Config
	b        backend.Backend
	layer    attention.Layer
	words    *tensor.Dense // [ids, hidden]
	position *tensor.Dense // [tokens, hidden]
	cond     nn.HostLinear
	table    adaln.Table
	w        workspace
	prompter clip.Prompter
}

// workspace is the memory of a pass.
type workspace struct {
	image, text nn.Work        // the two streams
	textRows    attention.Rows // the text's rows; none in a partial pass

	ids []int32 // rows of the text stream of one sequence
	pos []int32 // positions of the image's rows

	// imageIndexes and textIndexes are the rows of the image and of the text in a full pass, and read
	// the image's rows that are read, counted among the image's.
	imageIndexes, textIndexes, read []int32

	keys     []any // the batch's prompts
	slots    []int32
	mods     []backend.Segment // rows of the image, by slot
	textMods []backend.Segment // rows of the text, by slot
}

// New returns the network without weights.
func New(c Config) *Model {
	square := func() nn.Linear { return nn.NewLinear(c.Hidden, c.Hidden) }
	m := &Model{
		Position: weights.Param{Shape: []int{1, c.Tokens, c.Hidden}},
		TextProj: nn.NewLinear(c.TextWidth, c.Hidden),
		CondProj: nn.NewLinear(c.TextWidth+c.Sinusoids, c.Hidden),
		Blocks:   make([]block, c.Depth),
		FinalMod: adaln.New(c.Hidden, c.Hidden, 2),
		cfg:      c,
		layer:    attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads},
	}
	if c.TiedName != headName {
		m.Words = weights.Param{Shape: []int{c.IDs, c.Hidden}}
	}
	if c.TiedName == headName {
		m.HeadW = weights.Param{Shape: []int{c.IDs, c.Hidden}}
	} else if c.TiedName == "" {
		m.HeadW = weights.Param{Shape: []int{c.Codes, c.Hidden}}
		m.HeadBias = weights.Param{Shape: []int{c.Codes}}
	}
	for i := range m.Blocks {
		k := block{
			Mod:       adaln.New(c.Hidden, c.Hidden, adaln.Parts),
			TextMod:   adaln.New(c.Hidden, c.Hidden, adaln.Parts),
			Query:     square(),
			Key:       square(),
			Value:     square(),
			Out:       square(),
			Up:        nn.NewLinear(c.Hidden, c.Inner),
			Down:      nn.NewLinear(c.Inner, c.Hidden),
			TextQuery: square(),
			TextKey:   square(),
			TextValue: square(),
			shift1:    adaln.Shift1,
			scale1:    adaln.Scale1,
		}
		if i < c.Depth-1 {
			k.TextOut = square()
			k.TextUp = nn.NewLinear(c.Hidden, c.Inner)
			k.TextDown = nn.NewLinear(c.Inner, c.Hidden)
		} else {
			k.TextMod = adaln.New(c.Hidden, c.Hidden, 2)
			k.scale1 = 0
			k.shift1 = 1
		}
		m.Blocks[i] = k
	}
	return m
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	c := &m.cfg
	b := o.Backend
	m.b = b
	m.layer.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: b, Precision: o.Precision}
	words := &m.Words
	if c.TiedName == headName {
		words = &m.HeadW
	}
	head := backend.Head{Outcomes: c.Codes}
	if c.TiedName == "" {
		head.W = l.Matrix(&m.HeadW, c.Codes)
		head.Bias = l.Vector(l.Floats(&m.HeadBias))
	} else {
		head.W = l.Matrix(words, c.Codes)
	}
	m.words = l.Table(words)
	m.position = l.Table(&m.Position)
	m.cond = l.HostLinear(&m.CondProj)
	m.table = adaln.Table{Backend: b, Cond: c.Hidden, Layers: []*adaln.Layer{&m.FinalMod}}
	l.Load(&m.TextProj, &m.FinalMod)
	for i := range m.Blocks {
		k := &m.Blocks[i]
		l.Load(&k.Mod, &k.Out, &k.Up, &k.Down, &k.TextMod, &k.TextOut, &k.TextUp, &k.TextDown)
		m.table.Layers = append(m.table.Layers, &k.Mod, &k.TextMod)
		k.qkv.Load(l, &k.Query, &k.Key, &k.Value)
		k.textQKV.Load(l, &k.TextQuery, &k.TextKey, &k.TextValue)
	}
	m.Network = model.Network{
		Passes: model.Passes{Backend: b, Extra: c.TextRows, // the text's rows stand before the image's
			Layers: slices.Repeat([]kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}},
				c.Depth)},
		ModelSpec: model.Spec{
			Shape:    []int{c.Tokens},
			Outcomes: c.Codes,
			Mask:     int32(c.Codes),
			Fixed:    true,
			Prompt:   true,
		},
		Head: head, Width: c.Hidden, RowSize: 8*c.Hidden + c.Inner,
		Begin: m.beginBatch, Pass: m.runPass,
	}
	return l.Err()
}

// Prompts implements model.Prompter. Texts are filled up with id 0, as the authors' library does.
func (m *Model) Prompts(ctx context.Context, texts []string) ([]*model.Prompt, error) {
	return m.prompter.Prompts(ctx, texts)
}

// beginBatch finds the modulations of a batch's prompts.
func (m *Model) beginBatch(b *model.Batch) error {
	w := &m.w
	c := &m.cfg
	w.keys = w.keys[:0]
	for i := range b.Size {
		p := b.Condition(i).Prompt
		if p.Rows != c.TextRows || p.Width != c.TextWidth || len(p.Pooled) != c.TextWidth ||
			p.Numbers != nil && len(p.Numbers) != 1 {
			return fmt.Errorf("the prompt of sequence %d is %d x %d with %d pooled numbers and %d others, "+
				"want %d x %d, %d and the score alone",
				i, p.Rows, p.Width, len(p.Pooled), len(p.Numbers), c.TextRows, c.TextWidth, c.TextWidth)
		}
		w.keys = append(w.keys, p)
	}
	w.slots = m.table.AssignSlots(w.slots, w.keys, m.condVector)
	return nil
}

// condVector returns the conditioning vector: a projection of the pooled text and of 100 times the
// aesthetic score as sinusoids with periods up to 1000, sines first, in float32.
func (m *Model) condVector(prompt any) []float32 {
	c := &m.cfg
	p := prompt.(*model.Prompt)
	score := c.Score
	if p.Numbers != nil {
		score = p.Numbers[0]
	}
	x := append(append([]float32(nil), p.Pooled...), make([]float32, c.Sinusoids)...)
	half := c.Sinusoids / 2
	for i := range half {
		freq := float32(math.Exp(float64(-float32(math.Log(1000)) * float32(i) / float32(half))))
		angle := float64(float32(score*100) * freq)
		x[c.TextWidth+i] = float32(math.Sin(angle))
		x[c.TextWidth+half+i] = float32(math.Cos(angle))
	}
	return m.cond.Apply(x)
}

// textInput returns the prompt's input rows of the text stream, [text rows, hidden].
func (m *Model) textInput(p *model.Prompt) *tensor.Dense {
	return p.Derive(m, func() any {
		c := &m.cfg
		states := m.b.New(c.TextRows, c.TextWidth)
		rows := m.b.New(c.TextRows, c.Hidden)
		m.b.Write(states, 0, p.States)
		m.TextProj.Apply(m.b, rows, states, c.TextRows, backend.Identity)
		return rows
	}).(*tensor.Dense)
}

// runPass runs the network over a pass's rows and returns the head's input.
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.w
	b := m.b
	c := &m.cfg
	image, read := m.splitStreams(p)
	w.image.Prepare(b, image.Len(), c.Hidden, c.Inner)
	w.pos = w.pos[:0]
	for _, pos := range image.Pos {
		w.pos = append(w.pos, pos-int32(c.TextRows))
	}
	b.Gather(w.image.X, m.words, image.Tokens)
	b.AddRows(w.image.X, m.position, w.pos)
	w.mods = adaln.SlotSegments(w.mods, image.Sequences, w.slots)
	for i := range m.Blocks {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if i < len(m.Blocks)-1 {
			m.runBlock(i, p, image, nil)
		} else if image = m.runBlock(i, p, image, read); image.Len() == 0 {
			return w.image.X, image, nil
		}
	}
	x := w.image.X
	b.LayerNorm(x, x, image.Len(), backend.Norm{Eps: eps})
	b.Modulate(x, m.FinalMod.Part(0), m.FinalMod.Part(1), w.mods)
	return x, image, nil
}

// splitStreams separates the rows of a full pass, in which each sequence's text comes first, and
// fills the text stream. read are the image's rows that are read, nil for all.
func (m *Model) splitStreams(p *model.Pass) (image *model.Pass, read []int32) {
	w := &m.w
	rows := m.cfg.TextRows
	w.textRows.Reset()
	if !p.Full {
		return p, p.ReadRows
	}
	w.imageIndexes = w.imageIndexes[:0]
	w.textIndexes = w.textIndexes[:0]
	w.read = append(w.read[:0], 0)[:0] // never nil, which would read all rows
	reads := p.ReadRows
	for i, token := range p.Tokens {
		if token < 0 {
			w.textIndexes = append(w.textIndexes, int32(i))
			continue
		}
		if len(reads) > 0 && reads[0] == int32(i) {
			w.read = append(w.read, int32(len(w.imageIndexes)))
			reads = reads[1:]
		}
		w.imageIndexes = append(w.imageIndexes, int32(i))
	}
	w.textRows.Pick(&p.Rows, w.textIndexes)
	w.text.Prepare(m.b, len(w.textIndexes), m.cfg.Hidden, m.cfg.Inner)
	w.textMods = w.textMods[:0]
	for i, s := range p.Sequences {
		w.ids = w.ids[:0]
		for r := range rows {
			w.ids = append(w.ids, int32(i*rows+r))
		}
		m.b.Scatter(w.text.X, m.textInput(p.Condition(i).Prompt), w.ids)
		w.textMods = append(w.textMods,
			backend.Segment{Seq: int(w.slots[s.Seq]), Row: i * rows, Rows: rows})
	}
	if p.ReadRows != nil {
		read = w.read
	}
	return p.Pick(w.imageIndexes), read
}

// runBlock computes one block over the image's rows and, in a full pass, over the text's. It
// returns the image's rows that are left: those in read, unless it is nil.
func (m *Model) runBlock(i int, p, image *model.Pass, read []int32) *model.Pass {
	w := &m.w
	b := m.b
	k := &m.Blocks[i]
	keys, values := p.KV(i) // [sequences, heads, text and image, headDim]

	// queries, keys and values of both streams
	x := &w.image
	b.LayerNorm(x.H, x.X, image.Len(), backend.Norm{Eps: eps}) // [image rows, hidden]
	b.Modulate(x.H, k.Mod.Part(adaln.Scale1), k.Mod.Part(adaln.Shift1), w.mods)
	k.qkv.Apply(b, x.QKV, x.H, image.Len()) // [image rows, 3*hidden]
	m.layer.SplitQKV(b, x.Q, keys, values, x.QKV, &image.Rows, p.Keys)

	t := &w.text
	textRows := w.textRows.Len()
	if textRows > 0 {
		b.LayerNorm(t.H, t.X, textRows, backend.Norm{Eps: eps}) // [text rows, hidden]
		b.Modulate(t.H, k.TextMod.Part(k.scale1), k.TextMod.Part(k.shift1), w.textMods)
		k.textQKV.Apply(b, t.QKV, t.H, textRows) // [text rows, 3*hidden]
		m.layer.SplitQKV(b, t.Q, keys, values, t.QKV, &w.textRows, p.Keys)
	}

	// attention and MLP of both streams
	if read != nil {
		image = image.Pick(read)
		x.KeepRows(b, read)
		w.mods = adaln.SlotSegments(w.mods, image.Sequences, w.slots)
	}
	if image.Len() > 0 {
		m.layer.Attend(b, x.H, x.Q, keys, values, &image.Rows, p.Keys) // [image rows, hidden]
		m.finishStream(x, &k.Mod, &k.Out, &k.Up, &k.Down, image.Len(), w.mods)
	}
	if textRows > 0 && k.TextOut.Weight.Shape != nil { // nobody reads the last block's text
		m.layer.Attend(b, t.H, t.Q, keys, values, &w.textRows, p.Keys) // [text rows, hidden]
		m.finishStream(t, &k.TextMod, &k.TextOut, &k.TextUp, &k.TextDown, textRows, w.textMods)
	}
	return image
}

// finishStream adds a stream's attention, which is in x.H [n, hidden], and its MLP to x.X.
func (m *Model) finishStream(x *nn.Work, mod *adaln.Layer, out, up, down *nn.Linear, n int,
	mods []backend.Segment) {
	b := m.b
	out.Apply(b, x.Q, x.H, n, backend.Identity) // [n, hidden]
	b.GateAdd(x.X, x.Q, mod.Part(adaln.Gate1), mods)

	b.LayerNorm(x.H, x.X, n, backend.Norm{Eps: eps}) // [n, hidden]
	b.Modulate(x.H, mod.Part(adaln.Scale2), mod.Part(adaln.Shift2), mods)
	up.Apply(b, x.Inner, x.H, n, backend.GELUTanh)   // [n, inner]
	down.Apply(b, x.Q, x.Inner, n, backend.Identity) // [n, hidden]
	b.GateAdd(x.X, x.Q, mod.Part(adaln.Gate2), mods)
}
