// Package omnivoice is OmniVoice (Zhu et al. 2026, arXiv 2604.00688), which speaks a text in 646
// languages: a Qwen3 without a causal mask that fills in the codes of Higgs Audio v2, eight
// codebooks for each frame of 40 ms.
//
// Samplers see a sequence of 8 T positions, frame by frame: position 8 f + c is the code of
// codebook c. The network folds a frame's eight positions into a row. What is said, in which voice,
// is the condition: rows before the frames, which Prompt makes.
//
// This file has the network, prompt.go its prompts. How a text becomes such prompts is in text.go,
// length.go, parts.go and words.go, voices as files in voice.go.
package omnivoice

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/families/llama"
	"unmask/kvcache"
	"unmask/media/codecs/higgs"
	"unmask/model"
	"unmask/nn"
	"unmask/tokenizers"
	"unmask/weights"
)

// Bounds of a sequence.
const (
	MaxFrames = 1500 // 60 seconds
	maxPrompt = 2048 // rows
)

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	Trunk      *llama.Trunk  `weight:"llm"`
	Embeddings weights.Param `weight:"audio_embeddings.weight"` // [books*(codes+1), hidden]
	Heads      weights.Param `weight:"audio_heads.weight"`      // [books*(codes+1), hidden]

	codebooks, codes int
	spec             model.Spec
	table            []float32 // of Embeddings
	heads            []backend.Head
	tokenizer        tokenizers.Tokenizer
	controlIDs       [controls]int32
	codec            func() (*higgs.Codec, error)

	// of the latest pass
	batch          *model.Batch
	folded         model.Batch
	cache          kvcache.Cache
	rows           []int32
	input          []float32
	frameMarginals *model.HeadMarginals
	marginals      model.HeadMarginals
}

// loadModel loads the network.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	m, notes, err := newModel(src)
	if err != nil {
		return nil, err
	}
	var report weights.Report
	err = weights.Bind(m, src.Set, weights.BindOptions{Ignore: []string{"codebook_layer_offsets"},
		Report: &report})
	if err != nil {
		return nil, err
	}
	wait := src.StartTokenizer("")
	if err := m.packWeights(o); err != nil {
		return nil, err
	}
	t, from, err := wait()
	if err != nil {
		return nil, err
	}
	if err := m.setTokenizer(t); err != nil {
		return nil, err
	}
	m.codec = sync.OnceValues(func() (*higgs.Codec, error) {
		return higgs.Open(src, codecFolder, m.codebooks, m.codes, o)
	})
	sizes, more := m.Trunk.Sizes()
	return &model.Loaded{Denoiser: m, Kind: model.KindSpeech, Recipe: Recipe,
		Presets: map[string]string{"fast": fastRecipe}, Info: model.Info{
			Sizes: m.describeSizes(sizes), Parameters: model.Parameters(report.Bound, src.Set),
			Unused: report.Unused, Notes: append(notes, more...), Tokenizer: from}}, nil
}

// packWeights packs the bound weights.
func (m *Model) packWeights(o model.Options) error {
	if err := m.Trunk.Load(o, m.embedRows); err != nil {
		return err
	}
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.table = l.Floats(&m.Embeddings)
	width := m.Trunk.Hidden()
	columns := m.codes + 1
	for c := range m.codebooks {
		w := o.Backend.Pack(columns, width, o.Precision, func(i int, dst []float32) {
			l.Check(m.Heads.ReadFloat32s(dst, (c*columns+i)*width))
		})
		m.heads = append(m.heads, backend.Head{W: w, Outcomes: m.codes}) // the mask is no outcome
	}
	l.Release(&m.Embeddings)
	l.Release(&m.Heads)
	m.marginals = model.HeadMarginals{Backend: o.Backend, Heads: m.heads, Project: m.projectPositions}
	return l.Err()
}

// Codebooks returns the number of codebooks: a frame has as many positions.
func (m *Model) Codebooks() int { return m.codebooks }

// Codec loads the sound codec on first use.
func (m *Model) Codec() (*higgs.Codec, error) { return m.codec() }

// Spec implements model.Denoiser.
func (m *Model) Spec() model.Spec { return m.spec }

// Locker implements model.Locker.
func (m *Model) Locker() sync.Locker { return m.Trunk.Locker() }

// MaxSequences implements model.Sized.
func (m *Model) MaxSequences(length int, cached bool) int {
	const text = 64 // rows of a usual prompt
	return m.Trunk.MaxSequences(text+length/m.codebooks, cached)
}

// NewCache implements model.Refiner. A row is a frame or a row of the prompt.
func (m *Model) NewCache(batch, length int) *kvcache.Cache {
	c := m.Trunk.NewCache(batch, maxPrompt+length/m.codebooks)
	c.Length = max(c.Length, length) // in positions, as callers count
	return c
}

// Forward implements model.Denoiser.
func (m *Model) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	if err := m.foldBatch(b); err != nil {
		return nil, err
	}
	got, err := m.Trunk.Forward(ctx, &m.folded)
	return m.unfoldMarginals(got, err)
}

// Refine implements model.Refiner: it recomputes the frames of the given positions.
func (m *Model) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals, error) {
	if err := m.foldBatch(b); err != nil {
		return nil, err
	}
	m.rows = m.frameRows(m.rows[:0], rows)
	slices.Sort(m.rows)
	m.rows = slices.Compact(m.rows)
	got, err := m.Trunk.ComputeRows(ctx, &m.folded, m.rows)
	return m.unfoldMarginals(got, err)
}

// foldBatch sets m.folded to the rows of a batch.
func (m *Model) foldBatch(b *model.Batch) error {
	if err := b.Check(m.spec); err != nil {
		return err
	}
	f := &m.folded
	*f = model.Batch{Size: b.Size, Lengths: f.Lengths[:0], Tokens: f.Tokens[:0],
		ReadRows: f.ReadRows[:0],
		Places:   b.Places, CacheReused: b.CacheReused}
	for i := range b.Size {
		p := b.Condition(i).Prompt
		if n := b.UsedLength(i); n%m.codebooks != 0 || b.Length%m.codebooks != 0 {
			return fmt.Errorf("length of sequence %d is %d, want a multiple of the %d codebooks", i, n,
				m.codebooks)
		}
		if p.Rows > maxPrompt || p.Rows > 0 && p.Width != m.Trunk.Hidden() {
			return fmt.Errorf("the prompt of sequence %d is %d x %d, want at most %d rows of %d", i,
				p.Rows, p.Width, maxPrompt, m.Trunk.Hidden())
		}
		n := p.Rows + b.UsedLength(i)/m.codebooks
		f.Lengths = append(f.Lengths, n)
		f.Length = max(f.Length, n)
	}
	f.Tokens = slices.Grow(f.Tokens, f.Size*f.Length)[:f.Size*f.Length]
	clear(f.Tokens) // embed reads those of b
	m.batch = b
	if b.ReadRows == nil {
		f.ReadRows = nil
	} else {
		f.ReadRows = slices.Compact(m.frameRows(f.ReadRows, b.ReadRows))
	}
	if c := b.Cache; c != nil {
		m.cache = kvcache.Cache{Batch: c.Batch, Length: c.K[0].Shape()[2], K: c.K, V: c.V}
		f.Cache = &m.cache
	}
	return nil
}

// frameRows appends the rows of positions.
func (m *Model) frameRows(to, positions []int32) []int32 {
	length := int32(m.batch.Length)
	for _, at := range positions {
		sequence := at / length
		row := m.batch.Condition(int(sequence)).Prompt.Rows + int(at%length)/m.codebooks
		to = append(to, sequence*int32(m.folded.Length)+int32(row))
	}
	return to
}

// embedRows writes the rows of a pass: those of prompts, and sums of the embeddings of a frame's
// codes.
func (m *Model) embedRows(x *tensor.Dense, p *model.Pass) {
	b := m.batch
	hidden := m.Trunk.Hidden()
	m.input = slices.Grow(m.input[:0], p.Len()*hidden)[:p.Len()*hidden]
	for i, at := range p.ResultRows {
		row := m.input[i*hidden:][:hidden]
		sequence := int(at) / m.folded.Length
		place := int(at) % m.folded.Length
		prompt := b.Condition(sequence).Prompt
		if place < prompt.Rows {
			copy(row, prompt.States[place*hidden:])
			continue
		}
		codes := b.Tokens[sequence*b.Length+(place-prompt.Rows)*m.codebooks:][:m.codebooks]
		m.embedFrame(row, codes)
	}
	m.marginals.Backend.Write(x, 0, m.input)
}

// embedFrame writes the embedding of a frame to row [hidden].
func (m *Model) embedFrame(row []float32, codes []int32) {
	clear(row)
	for c, code := range codes {
		nn.AddTo(row, m.table[(c*(m.codes+1)+int(code))*len(row):][:len(row)])
	}
}

// unfoldMarginals returns the marginals of positions, given those of rows.
func (m *Model) unfoldMarginals(got model.Marginals, err error) (model.Marginals, error) {
	if err != nil {
		return nil, err
	}
	m.frameMarginals = got.(interface{ AsHeadMarginals() *model.HeadMarginals }).AsHeadMarginals()
	m.marginals.Length = m.batch.Length
	return &m.marginals, nil
}

// projectPositions returns the input of the heads for positions.
func (m *Model) projectPositions(positions []int32) *tensor.Dense {
	m.rows = m.frameRows(m.rows[:0], positions)
	return m.frameMarginals.Project(m.rows)
}
