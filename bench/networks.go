package bench

import (
	"bytes"
	"fmt"
	"math"
	"runtime/debug"
	"strings"

	"unmask/backend"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/weights"

	_ "unmask/dit" // the networks register themselves
	_ "unmask/vit"
)

// network is the network in memory.
type network struct {
	name      string
	precision backend.Precision
	loaded    *model.Loaded
	source    *model.Source // its weights before packing, kept for the next precision
}

// sources are the networks' files, by name: published sizes, random weights in bfloat16.
var sources = map[string]func() (*model.Source, error){"lm12": lm12, "vit20": vit20}

// load returns a network packed in a precision.
func (s *Suite) load(name string, p backend.Precision) (*model.Loaded, error) {
	n := &s.network
	if n.name == name && n.precision == p {
		return n.loaded, nil
	}
	n.loaded = nil
	if n.name != name {
		n.source = nil
		debug.FreeOSMemory()
		src, err := sources[name]()
		if err != nil {
			return nil, err
		}
		n.source = src
	}
	debug.FreeOSMemory()
	loaded, err := model.Load(n.source, model.Options{Backend: s.Device, Precision: p})
	if err != nil {
		return nil, err
	}
	n.name, n.precision, n.loaded = name, p, loaded
	return loaded, nil
}

// drop releases the network.
func (s *Suite) drop() {
	s.network = network{}
	debug.FreeOSMemory()
}

// lm12 returns the files of SDTT's small student: 12 blocks of 768, length 1024, 50258 tokens.
func lm12() (*model.Source, error) { return lm12Tensors().source("lm12", lm12Config) }

const lm12Config = `{"model":{"hidden_size":768,"cond_dim":128,"length":1024,"n_blocks":12,"n_heads":12},
	"time_conditioning":false,"vocab_size":50258,"tokenizer":{"name":"gpt2"}}`

func lm12Tensors() tensors {
	const h, cond, vocab = 768, 128, 50258
	t := tensors{}
	t.add("vocab_embed.embedding", vocab, h)
	t.add("sigma_map.mlp.0.weight", cond, 256)
	t.add("sigma_map.mlp.0.bias", cond)
	t.add("sigma_map.mlp.2.weight", cond, cond)
	t.add("sigma_map.mlp.2.bias", cond)
	for i := range 12 {
		p := fmt.Sprintf("blocks.%d.", i)
		t.add(p+"norm1.weight", h)
		t.add(p+"attn_qkv.weight", 3*h, h)
		t.add(p+"attn_out.weight", h, h)
		t.add(p+"norm2.weight", h)
		t.linear(p+"mlp.0", 4*h, h)
		t.linear(p+"mlp.2", h, 4*h)
		t.linear(p+"adaLN_modulation", 6*h, cond)
	}
	t.add("output_layer.norm_final.weight", h)
	t.linear("output_layer.linear", vocab, h)
	t.linear("output_layer.adaLN_modulation", 2*h, cond)
	return t
}

// vit20 returns the files of MAGE-B: 12 blocks of 12 heads, 8 of 16, width 768, 256 codes and the
// class token.
func vit20() (*model.Source, error) { return vit20Tensors().source("vit20", vit20Config) }

const vit20Config = `{"model_type":"mage","embed_dim":768,"depth":12,"num_heads":12,
	"decoder_embed_dim":768,"decoder_depth":8,"decoder_num_heads":16,"grid":16,"codebook_size":1024}`

func vit20Tensors() tensors {
	const h, vocab, length = 768, 2025, 257
	t := tensors{}
	t.add("token_emb.word_embeddings.weight", vocab, h)
	t.add("token_emb.position_embeddings.weight", length, h)
	t.linear("token_emb.LayerNorm", h)
	blocks := func(name string, n int) {
		for i := range n {
			p := fmt.Sprintf("%s.%d.", name, i)
			t.linear(p+"norm1", h)
			t.linear(p+"attn.qkv", 3*h, h)
			t.linear(p+"attn.proj", h, h)
			t.linear(p+"norm2", h)
			t.linear(p+"mlp.fc1", 4*h, h)
			t.linear(p+"mlp.fc2", h, 4*h)
		}
	}
	blocks("blocks", 12)
	t.linear("norm", h)
	t.linear("decoder_embed", h, h)
	t.add("decoder_pos_embed", 1, length, h)
	t.add("decoder_pos_embed_learned", 1, length, h)
	blocks("decoder_blocks", 8)
	t.linear("decoder_norm", h)
	t.linear("mlm_layer.fc", h, h)
	t.linear("mlm_layer.ln", h)
	t.add("mlm_layer.bias", 1, 1, vocab)
	return t
}

// tensors are the tensors of a file to be written.
type tensors []weights.Tensor

func (t *tensors) linear(name string, shape ...int) {
	t.add(name+".weight", shape...)
	t.add(name+".bias", shape[0])
}

func (t *tensors) add(name string, shape ...int) {
	in := shape[len(shape)-1]
	scale, center := float32(math.Sqrt(3/float64(in))), float32(0) // rows of length about 1
	if len(shape) == 1 && strings.HasSuffix(name, "weight") {
		center = 1
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	*t = append(*t, weights.Tensor{Name: name, DType: weights.BF16, Shape: shape,
		Data: randomBF16(uint32(len(*t)), n, center, scale)})
}

// randomBF16 returns n random bfloat16 numbers around center. They repeat after a prime number,
// because drawing each would take longer than measuring.
func randomBF16(use uint32, n int, center, scale float32) []byte {
	const period = 65521
	data := make([]byte, 2*n)
	s := philox.Stream{Sequence: use}
	for i := range min(n, period) {
		v := center + scale*float32(2*s.Uniform(i, philox.Order)-1)
		bits := math.Float32bits(v) >> 16
		data[2*i], data[2*i+1] = byte(bits), byte(bits>>8)
	}
	for at := 2 * period; at < len(data); at *= 2 {
		copy(data[at:], data[:at])
	}
	return data
}

func (t tensors) source(name, config string) (*model.Source, error) {
	var file bytes.Buffer
	size := 1 << 20 // largest header in bytes
	for _, v := range t {
		size += len(v.Data)
	}
	file.Grow(size)
	if err := weights.Write(&file, t, nil); err != nil {
		return nil, err
	}
	set, err := weights.Parse(file.Bytes(), name)
	if err != nil {
		return nil, err
	}
	return &model.Source{Name: name, Config: []byte(config), Set: set}, nil
}
