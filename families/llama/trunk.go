package llama

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/weights"
)

// Trunk is a Qwen3 without a head, inside the network of another package. It computes rows that
// its owner embeds, and the owner's heads read what AsHeadMarginals of its Marginals projects.
// The tokens of its batches mean nothing: only their number counts.
type Trunk struct {
	*Model `weight:""` // for weights.Bind
}

// NewTrunk returns the network without weights. config.json is the network's own, and its tensors
// begin with a prefix, such as llm.
func NewTrunk(src *model.Source, prefix string) (*Trunk, error) {
	f := openConfig(src)
	f.kind = &kind{name: "qwen3", trunkPrefix: prefix}
	var c Config
	if f.Err == nil {
		c = f.readQwen(src.Set)
		f.checkConsistent(c)
	}
	if f.Err != nil {
		return nil, f.Err
	}
	c.kind = f.kind
	c.Notes = f.listNotes()
	m := New(c)
	m.Head = weights.Param{}
	return &Trunk{m}, nil
}

// Load packs the bound weights. embed writes the input of a pass's rows to x [rows, hidden].
func (t *Trunk) Load(o model.Options, embed func(x *tensor.Dense, p *model.Pass)) error {
	m := t.Model
	m.embed = embed
	l := m.loadTrunk(o)
	m.setUpPasses(backend.Head{}, backend.Head{}, o.Precision)
	return l.Err()
}

// Hidden returns the width of a row.
func (t *Trunk) Hidden() int { return t.cfg.Hidden }

// Sizes returns the sizes that models are described by, and the notes about config.json.
func (t *Trunk) Sizes() (sizes map[string]int, notes []string) {
	return t.cfg.describeSizes(), t.cfg.Notes
}

// EmbedToken writes the embedding of a token to row [hidden].
func (t *Trunk) EmbedToken(row []float32, id int32) error {
	return t.Embedding.Weight.ReadFloat32s(row, int(id)*t.cfg.Hidden)
}

// VocabSize returns the number of tokens that EmbedToken takes.
func (t *Trunk) VocabSize() int { return t.cfg.Vocab }
