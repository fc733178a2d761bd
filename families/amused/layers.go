package amused

import (
	"gorgonia.org/tensor"

	"unmask/nn"
	"unmask/nn/adaln"
	"unmask/weights"
)

const eps = 1e-6

// crossAttention is multi-head attention without biases, over the cells or over a text.
type crossAttention struct {
	Query nn.Linear `weight:"to_q"`
	Key   nn.Linear `weight:"to_k"`
	Value nn.Linear `weight:"to_v"`
	Out   nn.Linear `weight:"to_out.0"`
}

// newCrossAttention returns an attention of rows of one width over rows of another.
func newCrossAttention(width, textWidth int) crossAttention {
	return crossAttention{
		Query: nn.NewLinearNoBias(width, width),
		Key:   nn.NewLinearNoBias(textWidth, width),
		Value: nn.NewLinearNoBias(textWidth, width),
		Out:   nn.NewLinearNoBias(width, width),
	}
}

// Load packs the four layers.
func (a *crossAttention) Load(l *nn.Loader) { l.Load(&a.Query, &a.Key, &a.Value, &a.Out) }

// resBlock is a ConvNeXt block (Woo et al. 2023, "ConvNeXt V2"): a depthwise 3x3 convolution, a
// norm, an MLP with a response norm, and then a modulation of the result.
type resBlock struct {
	Depthwise weights.Param `weight:"depthwise.weight"` // [width, 1, 3, 3]
	Norm      nn.RMSNorm    `weight:"norm"`
	Up        nn.Linear     `weight:"channelwise_linear_1"`
	Gamma     weights.Param `weight:"channelwise_norm.gamma"` // [1, 1, 1, 4*width]
	Beta      weights.Param `weight:"channelwise_norm.beta"`
	Down      nn.Linear     `weight:"channelwise_linear_2"`
	Mod       adaln.Layer   `weight:"cond_embeds_mapper"` // scale, shift

	taps  *tensor.Dense // [9, width]
	gamma []float32     // [4*width]
	beta  *tensor.Dense // [1, 4*width]
}

// newResBlock returns the block without weights. cond is the width of the conditioning vector.
func newResBlock(width, cond int) resBlock {
	four := func() weights.Param { return weights.Param{Shape: []int{1, 1, 1, 4 * width}} }
	return resBlock{
		Depthwise: weights.Param{Shape: []int{width, 1, 3, 3}},
		Norm:      nn.NewRMSNorm(width, eps),
		Up:        nn.NewLinearNoBias(width, 4*width),
		Gamma:     four(),
		Beta:      four(),
		Down:      nn.NewLinearNoBias(4*width, width),
		Mod:       adaln.NewNoBias(cond, width, 2),
	}
}

// packWeights packs the bound weights.
func (r *resBlock) packWeights(l *nn.Loader) {
	l.Load(&r.Norm, &r.Up, &r.Down, &r.Mod)
	width := r.Depthwise.Shape[0]
	w := l.Floats(&r.Depthwise)
	taps := make([]float32, len(w))
	nn.MoveTapsFirst(taps, w, width, 9)
	r.taps = l.Backend.New(9, width)
	l.Backend.Write(r.taps, 0, taps)
	r.gamma = l.Floats(&r.Gamma)
	r.beta = l.Backend.New(1, 4*width)
	l.Backend.Write(r.beta, 0, l.Floats(&r.Beta))
}

// textBlock is two attentions, both over the text.
type textBlock struct {
	Mapper nn.Linear      `weight:"kv_mapper"` // [width, hidden]
	Norm1  nn.RMSNorm     `weight:"norm1"`
	Attn1  crossAttention `weight:"attn1"`
	Norm2  nn.RMSNorm     `weight:"norm2"`
	Attn2  crossAttention `weight:"attn2"`
}

// stage is a convolutional stage: at each level a resBlock and a textBlock.
type stage struct {
	Res  []resBlock  `weight:"res_blocks"`
	Text []textBlock `weight:"attention_blocks"`
}

// newStage returns the stage without weights.
func newStage(c Config) stage {
	s := stage{Res: make([]resBlock, c.Res), Text: make([]textBlock, c.Res)}
	for i := range c.Res {
		s.Res[i] = newResBlock(c.Width, c.Hidden)
		textWidth := c.Hidden
		if c.Mapped {
			s.Text[i].Mapper = nn.NewLinearNoBias(c.Hidden, c.Width)
			textWidth = c.Width
		}
		s.Text[i].Norm1 = nn.NewRMSNorm(c.Width, eps)
		s.Text[i].Norm2 = nn.NewRMSNorm(c.Width, eps)
		s.Text[i].Attn1 = newCrossAttention(c.Width, textWidth)
		s.Text[i].Attn2 = newCrossAttention(c.Width, textWidth)
	}
	return s
}

// packWeights packs the bound weights.
func (s *stage) packWeights(l *nn.Loader) {
	for i := range s.Res {
		s.Res[i].packWeights(l)
		t := &s.Text[i]
		l.Load(&t.Mapper, &t.Norm1, &t.Attn1, &t.Norm2, &t.Attn2)
	}
}

// layer is a transformer layer: attention over the cells, attention over the text and a gated MLP,
// each after a modulated norm.
type layer struct {
	Norm1 nn.RMSNorm     `weight:"norm1.norm"`
	Mod1  adaln.Layer    `weight:"norm1.linear"` // scale, shift
	Self  crossAttention `weight:"attn1"`
	Norm2 nn.RMSNorm     `weight:"norm2.norm"`
	Mod2  adaln.Layer    `weight:"norm2.linear"`
	Text  crossAttention `weight:"attn2"`
	Norm3 nn.LayerNorm   `weight:"norm3.norm"` // unlike the others, it subtracts the mean
	Mod3  adaln.Layer    `weight:"norm3.linear"`
	Up    weights.Param  `weight:"ff.net.0.proj.weight"` // [2*inner, hidden]: values, then gates
	Down  nn.Linear      `weight:"ff.net.2"`

	qkv nn.JoinedLinear
	mlp nn.GatedMLP
}

// newLayer returns the layer without weights.
func newLayer(c Config) layer {
	mod := func() adaln.Layer { return adaln.NewNoBias(c.Hidden, c.Hidden, 2) }
	return layer{
		Norm1: nn.NewRMSNorm(c.Hidden, eps),
		Mod1:  mod(),
		Self:  newCrossAttention(c.Hidden, c.Hidden),
		Norm2: nn.NewRMSNorm(c.Hidden, eps),
		Mod2:  mod(),
		Text:  newCrossAttention(c.Hidden, c.Hidden),
		Norm3: nn.NewLayerNormNoBias(c.Hidden, eps),
		Mod3:  mod(),
		Up:    weights.Param{Shape: []int{2 * c.Inner, c.Hidden}},
		Down:  nn.NewLinearNoBias(c.Inner, c.Hidden),
	}
}

// packWeights packs the bound weights.
func (k *layer) packWeights(l *nn.Loader) {
	l.Load(&k.Norm1, &k.Mod1, &k.Norm2, &k.Mod2, &k.Norm3, &k.Mod3, &k.Self.Out, &k.Text)
	k.qkv.Load(l, &k.Self.Query, &k.Self.Key, &k.Self.Value)
	k.mlp.Down = k.Down
	k.mlp.LoadJoined(l, &k.Up)
	k.mlp.Gate, k.mlp.Up = k.mlp.Up, k.mlp.Gate // here the values are the first half, not the gates
}
