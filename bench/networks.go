package bench

import (
	"bytes"
	"math"
	"runtime/debug"
	"strings"

	"unmask/backend"
	"unmask/dit"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/vit"
	"unmask/weights"
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

func lm12Tensors() tensors { return tensorsOf(dit.New(dit.Presets["small"])) }

// vit20 returns the files of MAGE-B: 12 blocks of 12 heads, 8 of 16, width 768, 256 codes and the
// class token.
func vit20() (*model.Source, error) { return vit20Tensors().source("vit20", vit20Config) }

const vit20Config = `{"model_type":"mage","embed_dim":768,"depth":12,"num_heads":12,
	"decoder_embed_dim":768,"decoder_depth":8,"decoder_num_heads":16,"grid":16,"codebook_size":1024}`

func vit20Tensors() tensors { return tensorsOf(vit.New(vit.Presets["base"])) }

// tensors are the tensors of a file to be written.
type tensors []weights.Tensor

// tensorsOf returns random weights of a network.
func tensorsOf(network any) (t tensors) {
	weights.Each(network, func(p *weights.Param, name string) {
		if p.Shape != nil {
			t.add(name, p.Shape...)
		}
	})
	return t
}

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
