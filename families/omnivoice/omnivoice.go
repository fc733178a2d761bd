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
	// MaxFrames is the largest number of frames, 60 seconds.
	MaxFrames = 1500

	maxPrompt = 2048 // rows of a prompt
)

// Model is the network on a backend. It owns its working memory: one pass at a time, see
// model.Shared.
type Model struct {
	Trunk      *llama.Trunk  `weight:"llm"`
	Embeddings weights.Param `weight:"audio_embeddings.weight"` // [books*(codes+1), hidden]
	Heads      weights.Param `weight:"audio_heads.weight"`      // [books*(codes+1), hidden]

	codebooks int
	codes     int // of each codebook, without the mask
	spec      model.Spec

	// table has the values of Embeddings on the host, where a row's eight embeddings are summed.
	table []float32

	// heads has the head of each codebook.
	heads []backend.Head

	tokenizer  tokenizers.Tokenizer
	controlIDs [controls]int32
	codec      func() (*higgs.Codec, error) // loads it on first use

	// The following belong to the latest pass.

	// batch is what the caller passed, by position, and folded the same by row of the trunk.
	batch  *model.Batch
	folded model.Batch

	// cache is the batch's cache, with its length in rows.
	cache kvcache.Cache

	rows  []int32   // of some positions
	input []float32 // [rows, hidden]: the trunk's input

	// frameMarginals are the trunk's, by row, and marginals the result, by position.
	frameMarginals *model.HeadMarginals
	marginals      model.HeadMarginals
}

// loadModel loads the network. The sound codec is loaded when it is first used.
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
	waitTokenizer := src.StartTokenizer("")
	if err := m.packWeights(o); err != nil {
		return nil, err
	}
	t, tokenizerName, err := waitTokenizer()
	if err != nil {
		return nil, err
	}
	if err := m.setTokenizer(t); err != nil {
		return nil, err
	}
	m.codec = sync.OnceValues(func() (*higgs.Codec, error) {
		return higgs.Open(src, codecFolder, m.codebooks, m.codes, o)
	})
	sizes, trunkNotes := m.Trunk.Sizes()
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindSpeech,
		Recipe:   Recipe,
		Presets:  map[string]string{"fast": fastRecipe},
		Info: model.Info{
			Sizes:      m.describeSizes(sizes),
			Parameters: model.Parameters(report.Bound, src.Set),
			Unused:     report.Unused,
			Notes:      append(notes, trunkNotes...),
			Tokenizer:  tokenizerName,
		},
	}, nil
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
		// The mask, the last class, is no outcome.
		m.heads = append(m.heads, backend.Head{W: w, Outcomes: m.codes})
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
	marginals, err := m.Trunk.Forward(ctx, &m.folded)
	return m.unfoldMarginals(marginals, err)
}

// Refine implements model.Refiner: it recomputes the frames of the given positions.
func (m *Model) Refine(ctx context.Context, b *model.Batch, rows []int32) (model.Marginals, error) {
	if err := m.foldBatch(b); err != nil {
		return nil, err
	}
	m.rows = m.frameRows(m.rows[:0], rows)
	slices.Sort(m.rows)
	m.rows = slices.Compact(m.rows)
	marginals, err := m.Trunk.ComputeRows(ctx, &m.folded, m.rows)
	return m.unfoldMarginals(marginals, err)
}

// foldBatch sets m.folded to a batch of the trunk's rows: each sequence's prompt, and then a row
// for each frame of eight positions.
func (m *Model) foldBatch(b *model.Batch) error {
	if err := b.Check(m.spec); err != nil {
		return err
	}
	f := &m.folded
	*f = model.Batch{
		Size:        b.Size,
		Lengths:     f.Lengths[:0],
		Tokens:      f.Tokens[:0],
		ReadRows:    f.ReadRows[:0],
		Places:      b.Places,
		CacheReused: b.CacheReused,
	}
	for i := range b.Size {
		positions := b.UsedLength(i)
		if positions%m.codebooks != 0 || b.Length%m.codebooks != 0 {
			return fmt.Errorf("length of sequence %d is %d, want a multiple of the %d codebooks", i,
				positions, m.codebooks)
		}
		prompt := b.Condition(i).Prompt
		if prompt.Rows > maxPrompt || prompt.Rows > 0 && prompt.Width != m.Trunk.Hidden() {
			return fmt.Errorf("the prompt of sequence %d is %d x %d, want at most %d rows of %d", i,
				prompt.Rows, prompt.Width, maxPrompt, m.Trunk.Hidden())
		}
		rows := prompt.Rows + positions/m.codebooks
		f.Lengths = append(f.Lengths, rows)
		f.Length = max(f.Length, rows)
	}
	f.Tokens = slices.Grow(f.Tokens, f.Size*f.Length)[:f.Size*f.Length]
	clear(f.Tokens) // the trunk only counts them; embedRows reads those of b

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

// frameRows appends the rows of the frames of positions to rows.
func (m *Model) frameRows(rows, positions []int32) []int32 {
	length := int32(m.batch.Length)
	for _, position := range positions {
		sequence := position / length
		prompt := m.batch.Condition(int(sequence)).Prompt
		row := prompt.Rows + int(position%length)/m.codebooks
		rows = append(rows, sequence*int32(m.folded.Length)+int32(row))
	}
	return rows
}

// embedRows writes the trunk's input x [rows, hidden] for the rows of a pass: those of prompts, and
// sums of the embeddings of a frame's codes. It sums on the host, because a device would need eight
// kernels and the sums are small.
func (m *Model) embedRows(x *tensor.Dense, p *model.Pass) {
	b := m.batch
	hidden := m.Trunk.Hidden()
	m.input = slices.Grow(m.input[:0], p.Len()*hidden)[:p.Len()*hidden]
	for i, resultRow := range p.ResultRows {
		input := m.input[i*hidden:][:hidden]
		sequence := int(resultRow) / m.folded.Length
		row := int(resultRow) % m.folded.Length
		prompt := b.Condition(sequence).Prompt
		if row < prompt.Rows {
			copy(input, prompt.States[row*hidden:])
			continue
		}
		frame := row - prompt.Rows
		codes := b.Tokens[sequence*b.Length+frame*m.codebooks:][:m.codebooks]
		m.embedFrame(input, codes)
	}
	m.marginals.Backend.Write(x, 0, m.input)
}

// embedFrame writes the sum of the embeddings of a frame's codes to row [hidden].
func (m *Model) embedFrame(row []float32, codes []int32) {
	clear(row)
	for codebook, code := range codes {
		index := codebook*(m.codes+1) + int(code)
		nn.AddTo(row, m.table[index*len(row):][:len(row)])
	}
}

// unfoldMarginals returns the marginals of positions, given those of rows and the error of their
// pass.
func (m *Model) unfoldMarginals(rows model.Marginals, err error) (model.Marginals, error) {
	if err != nil {
		return nil, err
	}
	m.frameMarginals = rows.(interface{ AsHeadMarginals() *model.HeadMarginals }).AsHeadMarginals()
	m.marginals.Length = m.batch.Length
	return &m.marginals, nil
}

// projectPositions returns the heads' input [positions, hidden] for positions: the hidden state of
// each one's frame.
func (m *Model) projectPositions(positions []int32) *tensor.Dense {
	m.rows = m.frameRows(m.rows[:0], positions)
	return m.frameMarginals.Project(m.rows)
}
