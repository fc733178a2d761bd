package llama

import (
	"strings"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// convTaps is the number of positions that a filter sees: a position, and one on each side.
const convTaps = 3

// shortConv is the gated short convolution of LFM2 (Liquid AI 2025), here around a position as in
// the encoders. Its input gives B, C and x; B*x goes through a filter of each channel over
// neighbouring positions, zeros outside the sequence, and C times that through a last matrix:
//
//	u = B*x;  y[l] = sum_k filter[k] * u[l+k-1];  out(C*y)
//
// What a pass leaves for later ones is u of every position, in the place of keys, so a partial pass
// computes its rows from their own u and the neighbours' that were kept.
type shortConv struct {
	B      nn.Linear     `weight:"in_b"` // [hidden, hidden] each; one tensor in the files
	C      nn.Linear     `weight:"in_c"`
	X      nn.Linear     `weight:"in_x"`
	Filter weights.Param `weight:"conv.weight"` // [hidden, 1, taps]
	Out    nn.Linear     `weight:"out_proj"`

	taps *tensor.Dense // [taps, hidden]
}

// newShortConv returns the layer without weights.
func newShortConv(hidden int) *shortConv {
	return &shortConv{
		B:      nn.NewLinearNoBias(hidden, hidden),
		C:      nn.NewLinearNoBias(hidden, hidden),
		X:      nn.NewLinearNoBias(hidden, hidden),
		Filter: weights.Param{Shape: []int{hidden, 1, convTaps}},
		Out:    nn.NewLinearNoBias(hidden, hidden),
	}
}

// splitConvInputs returns the set with the input matrix of each convolution as its three parts, in
// the order B, C, x.
func splitConvInputs(set *weights.Set) (*weights.Set, error) {
	return set.SplitTensors(func(name string, t *weights.Tensor) []string {
		prefix, ok := strings.CutSuffix(name, ".conv.in_proj.weight")
		if !ok || len(t.Shape) != 2 || t.Shape[0] != 3*t.Shape[1] {
			return nil
		}
		prefix += ".conv."
		return []string{prefix + "in_b.weight", prefix + "in_c.weight", prefix + "in_x.weight"}
	})
}

// packWeights packs the bound weights.
func (s *shortConv) packWeights(l *nn.Loader) {
	l.Load(&s.B, &s.C, &s.X, &s.Out)

	// The filter is [hidden, taps]. By taps, each of them is a row that scales all numbers of a state.
	filter := l.Floats(&s.Filter)
	hidden := len(filter) / convTaps
	taps := make([]float32, len(filter))
	for i, v := range filter {
		taps[i%convTaps*hidden+i/convTaps] = v
	}
	s.taps = l.Backend.New(convTaps, hidden)
	l.Backend.Write(s.taps, 0, taps)
}

// convCache is the shape of what a convolution keeps: u in the place of keys, and no values.
func convCache(hidden int) kvcache.Layer {
	return kvcache.Layer{Heads: 1, HeadDim: hidden, ValueDim: 1}
}

// convWork is the working memory of convolutions.
type convWork struct {
	u    *tensor.Dense // [rows, hidden]: B, then B*x
	sum  *tensor.Dense // [rows, hidden]: the filters' sums, then C times these
	near *tensor.Dense // [rows, hidden]: u of one neighbour of each row
	zero *tensor.Dense // [1, hidden]

	// places are the rows of the kept u for the pass's rows, and from those of a neighbour.
	places []int32
	from   []int32

	// zeros are 0, 0 ..., for the list of rows of zero.
	zeros []int32

	segs []backend.Segment
}

// resize makes room for a pass of `rows` rows.
func (w *convWork) resize(b backend.Backend, rows, hidden int) {
	if w.u != nil && w.u.Shape()[0] >= rows {
		return
	}
	w.u = b.New(rows, hidden)
	w.sum = b.New(rows, hidden)
	w.near = b.New(rows, hidden)
	w.zero = b.New(1, hidden)
	w.zeros = make([]int32, rows)
}

// setPlaces sets the rows of inputs [places, 1, length, hidden] that hold u of p's rows.
func (w *convWork) setPlaces(inputs *tensor.Dense, p *model.Pass) {
	length := inputs.Shape()[2]
	w.places = w.places[:0]
	for _, seg := range p.Segs {
		for _, pos := range p.Pos[seg.Row:][:seg.Rows] {
			w.places = append(w.places, int32(seg.Seq*length)+pos)
		}
	}
}

// keepInput computes u of p's rows, of which h [rows, hidden] are the input, and writes it to
// inputs, which keeps it for later passes.
func (s *shortConv) keepInput(b backend.Backend, w *convWork, inputs, h *tensor.Dense,
	p *model.Pass) {
	w.resize(b, p.Len(), backend.Width(h))
	s.B.Apply(b, w.u, h, p.Len(), backend.Identity)
	s.X.ApplyGated(b, w.u, h, w.u, p.Len(), backend.Identity) // B*x
	w.setPlaces(inputs, p)
	b.Scatter(inputs, w.u, w.places)
}

// addOutput adds the layer's output for p's rows to x. Their u and the neighbours' are in inputs.
func (s *shortConv) addOutput(b backend.Backend, w *convWork, x, inputs, h *tensor.Dense,
	p *model.Pass) {
	w.setPlaces(inputs, p)
	n := p.Len()
	b.Gather(w.sum, w.zero, w.zeros[:n])
	for tap := range convTaps {
		w.findNeighbours(p, tap-convTaps/2)
		b.Gather(w.near, inputs, w.from)
		for i := range w.segs {
			w.segs[i].Seq = tap
		}
		b.GateAdd(w.sum, w.near, s.taps, w.segs)
	}
	s.C.ApplyGated(b, w.sum, h, w.sum, n, backend.Identity)
	s.Out.AddTo(b, x, w.sum, n)
}

// findNeighbours sets from to the kept rows of the positions at an offset from p's rows, and segs
// to the rows that have such a neighbour; the others' entry in from is their own.
func (w *convWork) findNeighbours(p *model.Pass, offset int) {
	w.from = append(w.from[:0], w.places...)
	w.segs = w.segs[:0]
	for i, seg := range p.Segs {
		used := p.Keys
		if len(p.Seen) > 0 {
			used = p.Seen[i]
		}
		for row := seg.Row; row < seg.Row+seg.Rows; row++ {
			neighbour := int(p.Pos[row]) + offset
			if neighbour < 0 || neighbour >= used {
				continue
			}
			w.from[row] += int32(offset)
			last := len(w.segs) - 1
			if last >= 0 && w.segs[last].Row+w.segs[last].Rows == row {
				w.segs[last].Rows++
				continue
			}
			w.segs = append(w.segs, backend.Segment{Row: row, Rows: 1})
		}
	}
}

// readLFM2 reads the config.json of LiquidAI/LFM2.5-Encoder-350M, -230M and -350M-Diffusion.
func (f *file) readLFM2(set *weights.Set) Config {
	f.RequireValues(map[string]any{"conv_bias": false, "conv_L_cache": float64(convTaps)})
	f.readOlderLFM2Keys()
	c := f.readSizes(set, "lfm2.embed_tokens.weight", 1e-5)
	c.Eps = float32(f.PositiveNumber("norm_eps", 1e-5))
	c.QKNorm = true
	if !c.Tied {
		f.Fail("tie_word_embeddings is false, want true: the embedding is the head")
	}
	c.MLP = f.readLFM2Width(c.MLP)
	c.Conv = f.readConvLayers(c.Layers)
	f.readScaling(&c)
	if c.Rope.Type != "" {
		f.Fail("rope_type is %s, want default", c.Rope.Type)
	}
	return c
}

// readOlderLFM2Keys gives keys of earlier files the names of the later ones.
func (f *file) readOlderLFM2Keys() {
	for _, names := range [][2]string{
		{"num_heads", "num_attention_heads"},
		{"tie_embedding", "tie_word_embeddings"},
	} {
		if f.Has(names[0]) && !f.Has(names[1]) {
			f.Keys[names[1]] = f.Keys[names[0]]
		}
	}
	if !f.Has("tie_word_embeddings") {
		f.Keys["tie_word_embeddings"] = []byte("true")
	}
	if !f.Has("rope_theta") {
		f.Keys["rope_theta"] = []byte("1000000")
	}
}

// readLFM2Width returns the width of MLPs, which is not what config.json says where it is adjusted
// (Lfm2MLP of transformers).
func (f *file) readLFM2Width(width int) int {
	width = f.BoundedInt("block_ff_dim", width, 1, maxSize)
	if !f.Bool("block_auto_adjust_ff_dim", true) {
		return width
	}
	const factorKey = "block_ffn_dim_multiplier"
	if string(f.Keys[factorKey]) == "null" {
		f.Fail("%s is null, want a number: programs do not agree what null means", factorKey)
		return width
	}
	width = int(f.PositiveNumber(factorKey, 1) * float64(2*width/3))
	multiple := f.BoundedInt("block_multiple_of", 256, 1, maxSize)
	return (width + multiple - 1) / multiple * multiple
}

// readConvLayers returns which layers are convolutions, from a list of names or of the numbers of
// the others.
func (f *file) readConvLayers(layers int) []bool {
	var names []string
	var attention []int
	f.Read("layer_types", &names, "a list of texts")
	f.Read("full_attn_idxs", &attention, "a list of numbers")
	conv := make([]bool, layers)
	if len(names) == 0 { // the other form numbers the layers with attention
		for i := range conv {
			conv[i] = true
		}
		for _, i := range attention {
			if i < 0 || i >= layers {
				f.Fail("full_attn_idxs has %d, want 0 to %d", i, layers-1)
				return conv
			}
			conv[i] = false
		}
		return conv
	}
	if len(names) != layers {
		f.Fail("layer_types has %d layers, want %d", len(names), layers)
		return conv
	}
	for i, name := range names {
		conv[i] = name == "conv"
		if name != "conv" && name != "full_attention" {
			f.Fail("layer_types has %.40q, want conv or full_attention", name)
		}
	}
	return conv
}

// isLFM2 reports whether a folder is of an encoder of LFM2.5 that fills masks: its model_type is
// also that of models that write from left to right.
func isLFM2(f *file) bool { return f.facts.Mentions("Lfm2BidirectionalForMaskedLM") }

// isLFM2Diffusion reports whether it is the one that answers: only the repository's name and the
// chat template tell.
func isLFM2Diffusion(f *file) bool {
	if !isLFM2(f) {
		return false
	}
	isNamed := strings.Contains(strings.ToLower(f.src.Repo), "-diffusion")
	if isNamed || f.Text("diffusion_model_type") == "lfm2-diffusion" { // the latter of a GGUF file
		return true
	}
	if f.src.Files == nil {
		return false
	}
	for _, name := range []string{"chat_template.jinja", "tokenizer_config.json"} {
		data, err := model.ReadFile(f.src.Files, name, 1<<24)
		if err == nil && strings.Contains(string(data), "[Question]") {
			return true
		}
	}
	return false
}

// lfm2Prefixes begin the names of tensors in a class of transformers' own and in folders without a
// head, where the published folders have lfm2.
var lfm2Prefixes = []string{"model.", ""}

// renameLFM2 returns the set with the published names.
func renameLFM2(set *weights.Set) (*weights.Set, error) {
	for _, prefix := range lfm2Prefixes {
		if _, ok := set.Get(prefix + "embed_tokens.weight"); !ok {
			continue
		}
		return set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
			if inner, ok := strings.CutPrefix(name, prefix); ok {
				name = "lfm2." + inner
			}
			return name, t, nil
		})
	}
	return set, nil
}

// lfm2Template is that of the published program: the marks are ordinary text, and a token begins
// the whole.
const lfm2Template = `{{- '<|startoftext|>' -}}
{%- for m in messages -%}
{%- set text = m['content'] | trim -%}
{%- if m['role'] == 'system' -%}{{- '[SYS]\n' + text + '\n[/SYS]\n\n' -}}
{%- elif m['role'] == 'user' -%}{{- '[Question]\n' + text + '\n[/Question]\n\n' -}}
{%- elif m['role'] == 'assistant' -%}{{- '[Answer]\n' + text + '\n[/Answer]\n\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '[Answer]\n' -}}{%- endif -%}`
