// Package vit is MAGE's transformer (Li et al., "MAGE: masked generative encoder to unify
// representation learning and image synthesis", CVPR 2023) in generation mode: a ViT encoder
// and decoder over a grid of VQGAN codes.
//
// Position 0 of the transformer is a fake class token; positions of a Batch count from the
// first code. Nothing is dropped: masked codes enter as the mask token, and the decoder
// sees the class position's output in their place.
package vit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// unused are tensors of MAGE's files that generation does not need; the VQGAN is package
// vqgan's.
var unused = []string{"cls_token", "pos_embed", "mask_token", "decoder_pos_embed", "patch_embed.*", "decoder_pred.*",
	"token_emb.position_ids", "vqgan.*"}

func init() {
	model.Register(model.Format{
		Name:  "mage",
		Match: func(src *model.Source) bool { return src.Has("decoder_pos_embed_learned") },
		Load:  load,
	})
}

// classToken is the id of position 0 after the codes: 1100 of 1024 codes.
const classToken = 76

type block struct {
	Norm1 nn.LayerNorm `weight:"norm1"`
	QKV   nn.Linear    `weight:"attn.qkv"`
	Proj  nn.Linear    `weight:"attn.proj"`
	Norm2 nn.LayerNorm `weight:"norm2"`
	FC1   nn.Linear    `weight:"mlp.fc1"`
	FC2   nn.Linear    `weight:"mlp.fc2"`
}

func newBlocks(n, width int) []block {
	blocks := make([]block, n)
	for i := range blocks {
		blocks[i] = block{
			Norm1: nn.NewLayerNorm(width, eps),
			QKV:   nn.NewLinear(width, 3*width),
			Proj:  nn.NewLinear(width, width),
			Norm2: nn.NewLayerNorm(width, eps),
			FC1:   nn.NewLinear(width, 4*width),
			FC2:   nn.NewLinear(4*width, width),
		}
	}
	return blocks
}

// Model is the network on a backend. It owns its working memory: one pass at a time.
type Model struct {
	Word      weights.Param `weight:"token_emb.word_embeddings.weight"`     // [vocab, hidden]
	Position  weights.Param `weight:"token_emb.position_embeddings.weight"` // [1+codes, hidden]
	EmbedNorm nn.LayerNorm  `weight:"token_emb.LayerNorm"`
	Encoder   []block       `weight:"blocks"`
	Norm      nn.LayerNorm  `weight:"norm"`

	DecoderEmbed    nn.Linear     `weight:"decoder_embed"`
	DecoderPosition weights.Param `weight:"decoder_pos_embed_learned"` // [1, 1+codes, decoder hidden]
	Decoder         []block       `weight:"decoder_blocks"`
	DecoderNorm     nn.LayerNorm  `weight:"decoder_norm"`

	FC       nn.Linear     `weight:"mlm_layer.fc"`
	HeadNorm nn.LayerNorm  `weight:"mlm_layer.ln"`
	HeadBias weights.Param `weight:"mlm_layer.bias"` // [1, 1, vocab]

	cfg                    Config
	b                      backend.Backend
	word, position, decPos *tensor.Dense
	enc, dec               attention.Layer

	work      workspace
	marginals model.HeadMarginals
}

const eps = 1e-6

// New returns the network without weights.
func New(c Config) *Model {
	n := c.Grid*c.Grid + 1
	return &Model{
		Word:            weights.Param{Shape: []int{c.Vocab, c.Hidden}},
		Position:        weights.Param{Shape: []int{n, c.Hidden}},
		EmbedNorm:       nn.NewLayerNorm(c.Hidden, eps),
		Encoder:         newBlocks(c.Depth, c.Hidden),
		Norm:            nn.NewLayerNorm(c.Hidden, eps),
		DecoderEmbed:    nn.NewLinear(c.Hidden, c.DecHidden),
		DecoderPosition: weights.Param{Shape: []int{1, n, c.DecHidden}},
		Decoder:         newBlocks(c.DecDepth, c.DecHidden),
		DecoderNorm:     nn.NewLayerNorm(c.DecHidden, eps),
		FC:              nn.NewLinear(c.DecHidden, c.Hidden),
		HeadNorm:        nn.NewLayerNorm(c.Hidden, 1e-5),
		HeadBias:        weights.Param{Shape: []int{1, 1, c.Vocab}},
		cfg:             c,
		enc:             attention.Layer{Heads: c.Heads, HeadDim: c.Hidden / c.Heads},
		dec:             attention.Layer{Heads: c.DecHeads, HeadDim: c.DecHidden / c.DecHeads},
	}
}

func load(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src, src.Set)
	if err != nil {
		return nil, err
	}
	m := New(c)
	var report weights.Report
	if err := weights.Bind(m, src.Set, weights.BindOptions{Ignore: unused, Report: &report}); err != nil {
		return nil, err
	}
	if err := m.load(o); err != nil {
		return nil, err
	}
	return &model.Loaded{Denoiser: m, Kind: model.KindImage, Info: model.Info{
		Architecture: "mage",
		Sizes: map[string]int{"hidden": c.Hidden, "heads": c.Heads, "depth": c.Depth, "decoder hidden": c.DecHidden,
			"decoder heads": c.DecHeads, "decoder depth": c.DecDepth, "grid": c.Grid, "codes": c.Codebook,
			"vocabulary": c.Vocab, "mask": c.Vocab - 1},
		Parameters: model.Parameters(report.Bound, src.Set),
		Unused:     slices.DeleteFunc(report.Unused, func(name string) bool { return strings.HasPrefix(name, "vqgan.") }),
	}}, nil
}

func (m *Model) load(o model.Options) error {
	m.b = o.Backend
	m.enc.BF16, m.dec.BF16 = o.Precision != backend.F32, o.Precision != backend.F32
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.word, m.position, m.decPos = l.Table(&m.Word), l.Table(&m.Position), l.Table(&m.DecoderPosition)
	for _, n := range []*nn.LayerNorm{&m.EmbedNorm, &m.Norm, &m.DecoderNorm, &m.HeadNorm} {
		n.Load(l)
	}
	m.DecoderEmbed.Load(l)
	m.FC.Load(l)
	for _, blocks := range [][]block{m.Encoder, m.Decoder} {
		for i := range blocks {
			k := &blocks[i]
			k.Norm1.Load(l)
			k.QKV.Load(l)
			k.Proj.Load(l)
			k.Norm2.Load(l)
			k.FC1.Load(l)
			k.FC2.Load(l)
		}
	}
	bias := l.Floats(&m.HeadBias)
	m.marginals = model.HeadMarginals{
		Backend: o.Backend,
		Head: backend.Head{W: l.Matrix(&m.Word, m.cfg.Codebook), Bias: l.Vector(bias[:m.cfg.Codebook]),
			Outcomes: m.cfg.Codebook}, // the head is tied to the embedding of the codes
		Length:  m.cfg.Grid * m.cfg.Grid,
		Project: m.project,
	}
	return l.Err()
}

// Spec implements model.Denoiser.
func (m *Model) Spec() model.Spec {
	return model.Spec{Shape: []int{m.cfg.Grid, m.cfg.Grid}, Outcomes: m.cfg.Codebook, Mask: int32(m.cfg.Vocab - 1), Fixed: true}
}

// NewCache implements model.Refiner. Beside keys and values it keeps what the decoder sees at
// masked positions, the full pass's: a partial pass does not recompute the class position.
func (m *Model) NewCache(batch, length int) *kvcache.Cache {
	var layers []kvcache.Layer
	for range m.cfg.Depth {
		layers = append(layers, kvcache.Layer{Heads: m.enc.Heads, HeadDim: m.enc.HeadDim})
	}
	for range m.cfg.DecDepth {
		layers = append(layers, kvcache.Layer{Heads: m.dec.Heads, HeadDim: m.dec.HeadDim})
	}
	c := kvcache.New(m.b, batch, length+1, layers)
	c.Aux = m.b.New(batch, m.cfg.DecHidden)
	return c
}

// Fit implements model.Sized.
func (m *Model) Fit(length int, cached bool) int {
	c, n := &m.cfg, length+1
	sequence := 4 * n * c.DecHidden
	if cached {
		sequence += 8 * n * (c.Depth*c.Hidden + c.DecDepth*c.DecHidden)
	}
	return model.Fit(m.b, n, sequence, 4*14*(c.Hidden+c.DecHidden)) // two of nn.Work, and keys and values of two layers
}

// Forward implements model.Denoiser.
func (m *Model) Forward(ctx context.Context, b *model.Batch) (_ model.Marginals, err error) {
	defer backend.Recover(&err)
	if err := b.Check(m.Spec()); err != nil {
		return nil, err
	}
	w, n := &m.work, b.Length+1
	group := min(b.Size, max(1, backend.GroupRows(m.b)/n))
	w.prepare(m.b, m.cfg, group*n, b.Size*n)
	if b.Cache == nil {
		w.prepareScratch(m, group)
	}
	for s := 0; s < b.Size; s += group {
		size := min(group, b.Size-s)
		first := s
		if b.Cache == nil {
			first = 0
		}
		w.rows.Full(first, size, n)
		w.at = w.at[:0]
		for i := range size * n {
			w.at = append(w.at, int32(s*n+i))
		}
		if err := m.pass(ctx, b, false); err != nil {
			return nil, err
		}
	}
	return &m.marginals, nil
}

// Refine implements model.Refiner.
func (m *Model) Refine(ctx context.Context, b *model.Batch, rows []int32) (_ model.Marginals, err error) {
	defer backend.Recover(&err)
	if err := b.Check(m.Spec()); err != nil {
		return nil, err
	}
	if b.Cache == nil {
		return nil, fmt.Errorf("a partial pass needs the cache of a full one")
	}
	w, n := &m.work, b.Length+1
	for len(rows) > 0 {
		var part []int32
		part, rows = attention.Group(rows, b.Length, backend.GroupRows(m.b))
		w.at = w.at[:0]
		for _, row := range part {
			w.at = append(w.at, m.inner(row))
		}
		w.prepare(m.b, m.cfg, len(part), b.Size*n)
		w.rows.Some(w.at, n)
		if err := m.pass(ctx, b, true); err != nil {
			return nil, err
		}
	}
	return &m.marginals, nil
}

// inner is a batch's row in the transformer's numbering, with the class token.
func (m *Model) inner(row int32) int32 {
	length := int32(m.cfg.Grid * m.cfg.Grid)
	return row/length*(length+1) + row%length + 1
}

// pass runs the network over the rows w.at and leaves their hidden states there.
func (m *Model) pass(ctx context.Context, b *model.Batch, partial bool) error {
	w, k, n := &m.work, m.b, len(m.work.at)
	keys := b.Length + 1
	w.collect(m.cfg, b, partial)

	k.Gather(w.enc.X, m.word, w.ids)
	k.AddRows(w.enc.X, m.position, w.rows.Pos)
	m.EmbedNorm.Apply(k, w.enc.X, w.enc.X, n)
	for i := range m.Encoder {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.block(&m.Encoder[i], &m.enc, &w.enc, i, b, n, keys)
	}
	m.Norm.Apply(k, w.enc.H, w.enc.X, n)
	m.DecoderEmbed.Apply(k, w.dec.X, w.enc.H, n, backend.Identity)

	pad := w.pad(b)
	if !partial {
		k.Gather(w.dec.H, w.dec.X, w.classRows)
		k.Scatter(pad, w.dec.H, w.seqs)
	}
	k.Gather(w.dec.H, pad, w.maskedSeqs)
	k.Scatter(w.dec.X, w.dec.H, w.maskedRows)
	k.AddRows(w.dec.X, m.decPos, w.rows.Pos)
	for i := range m.Decoder {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.block(&m.Decoder[i], &m.dec, &w.dec, m.cfg.Depth+i, b, n, keys)
	}
	k.Scatter(w.hidden, w.dec.X, w.at)
	return nil
}

// block is one pre-norm transformer block over n rows of w.X.
func (m *Model) block(blk *block, layer *attention.Layer, w *nn.Work, i int, b *model.Batch, n, keys int) {
	k, v := m.work.keys(m.cfg, b, i)
	blk.Norm1.Apply(m.b, w.H, w.X, n)
	blk.QKV.Apply(m.b, w.QKV, w.H, n, backend.Identity)
	layer.Apply(m.b, w.H, w.Q, k, v, w.QKV, &m.work.rows, keys)
	blk.Proj.Add(m.b, w.X, w.H, n)

	blk.Norm2.Apply(m.b, w.H, w.X, n)
	blk.FC1.Apply(m.b, w.Inner, w.H, n, backend.GELUErf)
	blk.FC2.Add(m.b, w.X, w.Inner, n)
}

// project is the head's input for the rows asked for.
func (m *Model) project(rows []int32) *tensor.Dense {
	w, n := &m.work, len(rows)
	w.ids = w.ids[:0]
	for _, row := range rows {
		w.ids = append(w.ids, m.inner(row))
	}
	w.last = nn.Grow(m.b, w.last, n, m.cfg.DecHidden)
	w.head = nn.Grow(m.b, w.head, n, m.cfg.Hidden)
	m.b.Gather(w.last, w.hidden, w.ids)
	m.DecoderNorm.Apply(m.b, w.last, w.last, n)
	m.FC.Apply(m.b, w.head, w.last, n, backend.GELUErf)
	m.HeadNorm.Apply(m.b, w.head, w.head, n)
	return w.head
}
