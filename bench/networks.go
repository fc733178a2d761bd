package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/dit"
	"unmask/internal/atomicfile"
	"unmask/internal/philox"
	"unmask/media/codecs/vqgan"
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

// published are networks of published sizes, by name: config.json, and the network whose weights
// are random in bfloat16.
var published = map[string]struct {
	config  string
	network func() any
}{
	// SDTT's small student: 12 blocks of 768, length 1024, 50258 tokens
	"lm12": {`{"model":{"hidden_size":768,"cond_dim":128,"length":1024,"n_blocks":12,"n_heads":12},
	"time_conditioning":false,"vocab_size":50258,"tokenizer":{"name":"gpt2"}}`,
		func() any { return dit.New(dit.Presets["small"]) }},
	// MAGE-B: 12 blocks of 12 heads, 8 of 16, width 768, 256 codes and the class token
	"vit20": {`{"model_type":"mage","embed_dim":768,"depth":12,"num_heads":12,
	"decoder_embed_dim":768,"decoder_depth":8,"decoder_num_heads":16,"grid":16,"codebook_size":1024}`,
		func() any { return vit.New(vit.Presets["base"]) }},
	// MAGE's VQGAN: 256x256 pixels of 16x16 codes
	"vqgan": {`{"grid":16,"vqgan":{"ch":128,"ch_mult":[1,1,2,2,4],"num_res_blocks":2,"z_channels":256,
	"embed_dim":256,"n_embed":1024,"out_ch":3}}`,
		func() any {
			return &struct {
				Codec *vqgan.Model `weight:"vqgan"`
			}{vqgan.New(vqgan.Config{
				Grid:      16,
				Ch:        128,
				ChMult:    []int{1, 1, 2, 2, 4},
				ResBlocks: 2,
				ZChannels: 256,
				EmbedDim:  256,
				Codes:     1024,
				OutCh:     3,
			})}
		}},
	"qwen3-0.6b": {qwenConfig, newQwen},
}

// sourceOf returns the files of a network.
func sourceOf(name string) (*model.Source, error) {
	for _, d := range decoders {
		if d.name == name {
			return d.randomSource()
		}
	}
	n := published[name]
	return randomWeights(n.network()).parse(name, n.config)
}

// loadNetwork returns a network packed in a precision.
func (s *Suite) loadNetwork(name string, p backend.Precision) (*model.Loaded, error) {
	n := &s.network
	if n.name == name && n.precision == p {
		return n.loaded, nil
	}
	n.loaded = nil
	if n.name != name {
		n.source = nil
		debug.FreeOSMemory()
		src, err := sourceOf(name)
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
	n.name = name
	n.precision = p
	n.loaded = loaded
	return loaded, nil
}

// dropNetwork releases the network.
func (s *Suite) dropNetwork() {
	s.network = network{}
	debug.FreeOSMemory()
}

// tensors are the tensors of a file to be written.
type tensors []weights.Tensor

// randomWeights returns random weights of a network.
func randomWeights(network any) (t tensors) {
	weights.EachParam(network, func(p *weights.Param, name string) {
		if p.Shape != nil {
			t.addRandom(name, p.Shape...)
		}
	})
	return t
}

// addRandom adds a tensor of random weights; those of norms are about 1.
func (t *tensors) addRandom(name string, shape ...int) {
	in := shape[len(shape)-1]
	scale := float32(math.Sqrt(3 / float64(in))) // rows of length about 1
	center := float32(0)
	if len(shape) == 1 && strings.HasSuffix(name, "weight") {
		center = 1
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	*t = append(*t, weights.Tensor{
		Name:  name,
		DType: weights.BF16,
		Shape: shape,
		Data:  randomBF16(uint32(len(*t)), n, center, scale),
	})
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
		data[2*i] = byte(bits)
		data[2*i+1] = byte(bits >> 8)
	}
	for filled := 2 * period; filled < len(data); filled *= 2 {
		copy(data[filled:], data[:filled])
	}
	return data
}

// parse returns the files of a model with these tensors.
func (t tensors) parse(name, config string) (*model.Source, error) {
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

// publishedFolders are those that WritePublished writes, each of networks of published sizes.
var publishedFolders = map[string][]string{"lm12": {"lm12"}, "mage": {"vit20", "vqgan"}}

// WritePublished writes a model's folder, config.json and model.safetensors in bfloat16: lm12 is
// SDTT's small student, mage is MAGE-B with its VQGAN. The weights are random, so it is only of use
// for measurements.
func WritePublished(dir, name string) error {
	parts, ok := publishedFolders[name]
	if !ok {
		return fmt.Errorf("model is %q, want %s", name,
			strings.Join(slices.Sorted(maps.Keys(publishedFolders)), " or "))
	}
	config := map[string]any{}
	var list tensors
	for _, part := range parts {
		n := published[part]
		if err := json.Unmarshal([]byte(n.config), &config); err != nil {
			return err
		}
		list = append(list, randomWeights(n.network())...)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := atomicfile.Put(filepath.Join(dir, "config.json"), text); err != nil {
		return err
	}
	return weights.WriteFile(filepath.Join(dir, "model.safetensors"), list, nil)
}
