// Package vit is MAGE's transformer (Li et al., "MAGE: masked generative encoder to unify
// representation learning and image synthesis", CVPR 2023) in generation mode: a ViT encoder
// and decoder over a grid of VQGAN codes.
//
// Position 0 of the transformer is a class token; positions of a Batch count from the first code.
// Nothing is dropped: masked codes enter as the mask token, and in their place the decoder sees the
// encoder's output at the class token.
package vit

import (
	"context"
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

// unused are tensors in MAGE's files that generation does not need; the VQGAN is read by package
// vqgan.
var unused = []string{"cls_token", "pos_embed", "mask_token", "decoder_pos_embed", "patch_embed.*",
	"decoder_pred.*",
	"token_emb.position_ids", "vqgan.*"}

func init() {
	model.Register(model.Format{
		Name:  "mage",
		Kinds: []string{"mage"},
		Match: func(src *model.Source) bool { return src.HasTensor("decoder_pos_embed_learned") },
		Load:  loadModel,
	})
}

// noClassOffset is the id at position 0 of a sequence without a class, minus the number of codes:
// with MAGE's 1024 codes that id is 1100.
const noClassOffset = 76

// block is a pre-norm transformer block of the encoder or the decoder.
type block struct {
	Norm1 nn.LayerNorm `weight:"norm1"`
	QKV   nn.Linear    `weight:"attn.qkv"`  // [3*width, width]
	Proj  nn.Linear    `weight:"attn.proj"` // [width, width]
	Norm2 nn.LayerNorm `weight:"norm2"`
	FC1   nn.Linear    `weight:"mlp.fc1"` // [4*width, width]
	FC2   nn.Linear    `weight:"mlp.fc2"` // [width, 4*width]
}

// newBlocks returns n blocks of this width without weights.
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

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	model.Network

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

	cfg      Config
	b        backend.Backend
	word     *tensor.Dense // [vocab, hidden]
	position *tensor.Dense // [1+codes, hidden]
	decPos   *tensor.Dense // [1+codes, decoder hidden]
	enc, dec attention.Layer
	work     workspace
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

// loadModel loads a file that unmask convert wrote. Its VQGAN is loaded by package vqgan.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src, src.Set)
	if err != nil {
		return nil, err
	}
	m := New(c)
	report, err := o.Bind(m, src.Set, weights.BindOptions{Ignore: unused}, m.packWeights)
	if err != nil {
		return nil, err
	}
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Classes:  c.ClassNames,
		Presets:  c.presets(),
		Info: model.Info{
			Sizes: map[string]int{
				"hidden":         c.Hidden,
				"heads":          c.Heads,
				"depth":          c.Depth,
				"decoder hidden": c.DecHidden,
				"decoder heads":  c.DecHeads,
				"decoder depth":  c.DecDepth,
				"grid":           c.Grid,
				"codes":          c.Codebook,
				"vocabulary":     c.Vocab,
				"mask":           c.Vocab - 1,
			},
			Parameters: model.Parameters(report.Bound, src.Set),
			Unused: slices.DeleteFunc(report.Unused,
				func(name string) bool { return strings.HasPrefix(name, "vqgan.") }),
		},
	}, nil
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	m.b = o.Backend
	m.enc.BF16 = o.Precision != backend.F32
	m.dec.BF16 = o.Precision != backend.F32
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.word = l.Table(&m.Word)
	m.position = l.Table(&m.Position)
	m.decPos = l.Table(&m.DecoderPosition)
	l.Load(&m.EmbedNorm, &m.Norm, &m.DecoderEmbed, &m.DecoderNorm, &m.FC, &m.HeadNorm)
	for _, blocks := range [][]block{m.Encoder, m.Decoder} {
		for i := range blocks {
			blk := &blocks[i]
			l.Load(&blk.Norm1, &blk.QKV, &blk.Proj, &blk.Norm2, &blk.FC1, &blk.FC2)
		}
	}
	bias := l.Floats(&m.HeadBias)
	c := &m.cfg
	m.Network = model.Network{
		// The state of a sequence is the decoder's input at its masked positions, which depends on the
		// class token. It is kept from the full pass, because a partial pass does not recompute that
		// token.
		Passes: model.Passes{
			Backend: m.b,
			Extra:   1,
			States:  []int{c.DecHidden},
			Layers: slices.Concat(
				slices.Repeat([]kvcache.Layer{{Heads: m.enc.Heads, HeadDim: m.enc.HeadDim}}, c.Depth),
				slices.Repeat([]kvcache.Layer{{Heads: m.dec.Heads, HeadDim: m.dec.HeadDim}}, c.DecDepth)),
		},
		ModelSpec: model.Spec{
			Shape:    []int{c.Grid, c.Grid},
			Outcomes: c.Codebook,
			Mask:     int32(c.Vocab - 1),
			Fixed:    true,
			Classes:  len(c.ClassNames),
		},
		Head: backend.Head{
			W:        l.Matrix(&m.Word, c.Codebook),
			Bias:     l.Vector(bias[:c.Codebook]),
			Outcomes: c.Codebook,
		}, // the head's weight is the codes' embedding
		Width: c.DecHidden,
		// the encoder's and the decoder's nn.Work, and keys and values of a layer of each
		RowSize: 14 * (c.Hidden + c.DecHidden),
		Pass:    m.runPass, Finish: m.finishRows,
	}
	return l.Err()
}

// runPass runs the network over the rows of p and returns the hidden states [rows, decoder hidden]
// of those that are read. p.ObserveHidden and p.Attend hand values to an observer, if there is one
// (model.Batch.Observer).
func (m *Model) runPass(ctx context.Context, p *model.Pass) (*tensor.Dense, *model.Pass, error) {
	w := &m.work
	b := m.b
	w.resize(b, m.cfg, p.Len())
	w.sortRows(m.cfg, p)
	if err := m.runEncoder(ctx, p); err != nil {
		return nil, nil, err
	}

	b.AddRows(w.dec.X, m.decPos, p.Pos) // [rows, decoder hidden]
	last := len(m.Decoder) - 1
	for i := range m.Decoder {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		layer := m.cfg.Depth + i
		p.ObserveHidden(layer, w.dec.X)
		p = m.runBlock(&m.Decoder[i], &m.dec, &w.dec, layer, p, p.RowsToRead(i == last))
	}
	p.ObserveHidden(m.cfg.Depth+len(m.Decoder), w.dec.X)
	return w.dec.X, p, nil
}

// runEncoder runs the encoder and leaves the decoder's input in work.dec.X. The decoder does not
// see the encoder's output at masked positions, so the last block computes only the others.
func (m *Model) runEncoder(ctx context.Context, p *model.Pass) error {
	w := &m.work
	b := m.b
	b.Gather(w.enc.X, m.word, w.ids)                // [rows, hidden]
	b.AddRows(w.enc.X, m.position, p.Pos)           // [rows, hidden]
	m.EmbedNorm.Apply(b, w.enc.X, w.enc.X, p.Len()) // [rows, hidden]

	last := len(m.Encoder) - 1
	open := p // after the last block, the rows that are not masked
	for i := range m.Encoder {
		if err := ctx.Err(); err != nil {
			return err
		}
		var keep []int32
		if i == last && len(w.maskedRows) > 0 {
			keep = w.openRows
		}
		p.ObserveHidden(i, w.enc.X)
		open = m.runBlock(&m.Encoder[i], &m.enc, &w.enc, i, p, keep)
	}

	// Open positions enter the decoder as the encoder's output.
	if n := open.Len(); n > 0 {
		m.Norm.Apply(b, w.enc.H, w.enc.X, n)                           // [open, hidden]
		m.DecoderEmbed.Apply(b, w.dec.H, w.enc.H, n, backend.Identity) // [open, decoder hidden]
		b.Scatter(w.dec.X, w.dec.H, w.openRows)                        // [rows, decoder hidden]
	}

	// Masked positions enter it as the output at the class token, which a partial pass takes from
	// the full one.
	classStates := p.State(0) // [sequences, decoder hidden]
	if p.Full {
		b.Gather(w.dec.Q, w.dec.X, w.classRows) // [sequences, decoder hidden]
		b.Scatter(classStates, w.dec.Q, w.places)
	}
	b.Gather(w.dec.H, classStates, w.maskedPlaces) // [masked, decoder hidden]
	b.Scatter(w.dec.X, w.dec.H, w.maskedRows)      // [rows, decoder hidden]
	return nil
}

// runBlock computes one pre-norm transformer block over the rows of w.X and returns the rows that
// are left: those in keep, or all if it is nil. layer is the block's number among all blocks.
func (m *Model) runBlock(blk *block, attn *attention.Layer, w *nn.Work, layer int, p *model.Pass,
	keep []int32) *model.Pass {
	b := m.b
	blk.Norm1.Apply(b, w.H, w.X, p.Len())                   // [rows, width]
	blk.QKV.Apply(b, w.QKV, w.H, p.Len(), backend.Identity) // [rows, 3*width]
	p = p.Attend(b, attn, w, layer, keep)                   // w.H [rows, width]
	if p.Len() == 0 {
		return p
	}
	blk.Proj.AddTo(b, w.X, w.H, p.Len()) // [rows, width]

	blk.Norm2.Apply(b, w.H, w.X, p.Len())                    // [rows, width]
	blk.FC1.Apply(b, w.Inner, w.H, p.Len(), backend.GELUErf) // [rows, 4*width]
	blk.FC2.AddTo(b, w.X, w.Inner, p.Len())                  // [rows, width]
	return p
}

// finishRows returns the head's input [n, hidden] for n rows of the decoder's output x [n, decoder
// hidden].
func (m *Model) finishRows(x *tensor.Dense, n int) *tensor.Dense {
	w := &m.work
	w.head = backend.Grow(m.b, w.head, n, m.cfg.Hidden)
	m.DecoderNorm.Apply(m.b, x, x, n)              // [n, decoder hidden]
	m.FC.Apply(m.b, w.head, x, n, backend.GELUErf) // [n, hidden]
	m.HeadNorm.Apply(m.b, w.head, w.head, n)       // [n, hidden]
	return w.head
}
