// Package latents is the image tokenizer of TiTok (Yu et al., 2024, "An image is worth 32 tokens
// for reconstruction and generation") and TA-TiTok (Kim et al., 2025, "Democratizing text-to-image
// masked generative models with compact text-aware one-dimensional tokens"). It turns images into a
// short row of latent tokens, which have no place in the image, and back.
package latents

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/media/codecs/vqgan"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/picture"
	"unmask/weights"
)

// Sizes are the sizes of a tokenizer.
type Sizes struct {
	Tokens    int // latent tokens of an image
	Codes     int // codes of the codebook
	CodeWidth int // width of a code
	Side      int // pixels along a side

	// Unit says that codes and latents are normalised to length 1 for lookup.
	Unit bool

	// Legacy says that the encoder's latents are read without transposing.
	Legacy bool

	EncWidth, EncDepth, EncHeads, EncInner, EncPatch int
	DecWidth, DecDepth, DecHeads, DecInner, DecPatch int

	// DecCells is the number of cells that the decoder draws.
	DecCells int

	// TextRows and TextWidth are those of TA-TiTok's text; 0 means no text.
	TextRows, TextWidth int

	// PixelCodes is the number of codes of the VQGAN that draws the image. With 0 the decoder's
	// patches are the image.
	PixelCodes int

	PixelInner int // width between the two layers before the VQGAN's codes
	VQGAN      vqgan.Config
}

// Tokenizer turns images into latent tokens and back. The decoder of TA-TiTok also reads the text.
type Tokenizer struct {
	picture.Codec

	Latents  weights.Param    `weight:"latent_tokens"` // [tokens, encoder width]
	Encoder  encoder          `weight:"encoder"`
	Decoder  decoder          `weight:"decoder"`
	Codebook picture.Codebook `weight:"quantize.embedding"`
	Mixture  weights.Param    `weight:"pixel_quantize.embedding.weight"` // [pixel codes, channels]
	Drawer   *vqgan.Decoder   `weight:"pixel_decoder"`

	sizes Sizes
	b     backend.Backend
	text  []float32 // [TextRows, TextWidth] the prompt's states after the text encoder's last norm
}

// encoder turns an image into latents: a transformer over patches and latent tokens.
type encoder struct {
	Patches  picture.Conv  `weight:"patch_embed"`
	Class    weights.Param `weight:"class_embedding"`                   // [1, width]
	Position weights.Param `weight:"positional_embedding"`              // [1+cells, width]
	Latent   weights.Param `weight:"latent_token_positional_embedding"` // [tokens, width]
	Vit      vit           `weight:""`
	Out      weights.Param `weight:"conv_out.weight"` // [code width, width, 1, 1]
	OutBias  weights.Param `weight:"conv_out.bias"`

	// base is the sum of everything that does not depend on the image [1+cells+tokens, width].
	base *tensor.Dense

	image   *tensor.Dense // [side*side*3]
	patches *tensor.Dense // [cells, width]
	rows    *tensor.Dense // [tokens, width]
	out     nn.Linear     // Out
	latent  *tensor.Dense // [tokens, code width]

	host, shuffled []float32 // [tokens, width]
}

// decoder turns codes into an image or into a VQGAN's latents: a transformer over mask tokens, one
// for each cell, and the codes.
type decoder struct {
	Embed    nn.Linear     `weight:"decoder_embed"`
	Class    weights.Param `weight:"class_embedding"`                   // [1, width]
	Mask     weights.Param `weight:"mask_token"`                        // [1, 1, width]
	Position weights.Param `weight:"positional_embedding"`              // [1+cells, width]
	Latent   weights.Param `weight:"latent_token_positional_embedding"` // [tokens, width]
	Vit      vit           `weight:""`

	Text         nn.Linear     `weight:"text_guidance_proj"`
	TextPosition weights.Param `weight:"text_guidance_positional_embedding"` // [text rows, width]

	// [3*patch*patch, width, 1, 1], or inner in place of the first
	Out     weights.Param `weight:"ffn.0.weight"`
	OutBias weights.Param `weight:"ffn.0.bias"`
	Mix     weights.Param `weight:"ffn.2.weight"` // [pixel codes, inner, 1, 1]
	MixBias weights.Param `weight:"ffn.2.bias"`
	Smooth  picture.Conv  `weight:"conv_out"` // over the patches' pixels

	// base is the sum of all that does not depend on codes [1+cells+tokens+text rows, width].
	base *tensor.Dense

	codes *tensor.Dense // [tokens, code width]
	text  *tensor.Dense // [text rows, text width]
	rows  *tensor.Dense // [tokens or text rows, width]
	cells *tensor.Dense // [cells, width]
	inner *tensor.Dense // [cells, inner or 3*patch*patch]

	out, mix nn.Linear      // Out and Mix
	logits   *tensor.Dense  // [cells, pixel codes]
	toLatent backend.Matrix // [channels, pixel codes]: the VQGAN's codes
	latent   *tensor.Dense  // [cells, channels]

	image, drawn *tensor.Dense // [side*side*3]: before and after Smooth
	host         []float32
}

// readSizes reads a tokenizer's sizes from its tensors, and the rest from config.json.
func readSizes(src *model.Source) (z Sizes, err error) {
	var f file
	if err := model.DecodeConfig(src, &f); err != nil {
		return z, err
	}
	if err := src.CheckKeys(Settings...); err != nil {
		return z, err
	}
	s := &weights.Sizes{Set: src.Set}
	t := f.Model.Tokenizer
	z.Unit = t.UnitLength
	z.Legacy = t.Legacy == nil || *t.Legacy
	z.Tokens = s.Dim("latent_tokens", 2, 0)
	z.EncWidth = s.Dim("latent_tokens", 2, 1)
	z.Codes = s.Dim("quantize.embedding.weight", 2, 0)
	z.CodeWidth = s.Dim("quantize.embedding.weight", 2, 1)
	z.EncPatch = s.Dim("encoder.patch_embed.weight", 4, 2)
	z.EncDepth = s.Count("encoder.transformer.", ".ln_1.weight")
	z.DecDepth = s.Count("decoder.transformer.", ".ln_1.weight")
	z.EncInner = s.Dim("encoder.transformer.0.mlp.c_fc.weight", 2, 0)
	z.DecInner = s.Dim("decoder.transformer.0.mlp.c_fc.weight", 2, 0)
	z.DecWidth = s.Dim("decoder.decoder_embed.weight", 2, 0)
	z.DecCells = s.Dim("decoder.positional_embedding", 2, 0) - 1
	z.Side = squareSide(s, "the number of the encoder's cells",
		s.Dim("encoder.positional_embedding", 2, 0)-1) * z.EncPatch
	grid := squareSide(s, "the number of the decoder's cells", z.DecCells)
	for _, v := range []struct {
		key, size string
		heads     *int
		width     int
	}{{"vit_enc_model_size", t.EncoderSize, &z.EncHeads, z.EncWidth},
		{"vit_dec_model_size", t.DecoderSize, &z.DecHeads, z.DecWidth}} {
		*v.heads = heads[v.size]
		if *v.heads == 0 {
			return z, fmt.Errorf("config.json: %s is %q, want small, base or large", v.key, v.size)
		}
		if v.width%*v.heads != 0 {
			s.Fail("config.json: %s is %d, want a divisor of the width %d", v.key, *v.heads, v.width)
		}
	}
	if s.Has("decoder.text_guidance_proj.weight") {
		z.TextRows = s.Dim("decoder.text_guidance_positional_embedding", 2, 0)
		z.TextWidth = s.Dim("decoder.text_guidance_proj.weight", 2, 1)
	}
	return z, z.readPixelDecoder(s, grid)
}

// maxSide bounds the width of images, in pixels.
const maxSide = 1 << 12

// readPixelDecoder reads the sizes of the part that makes pixels: a VQGAN or, without one, the
// decoder's last layer, with grid cells along a side. It checks that they fit the encoder's.
func (z *Sizes) readPixelDecoder(s *weights.Sizes, grid int) error {
	if s.Has("pixel_quantize.embedding.weight") {
		z.PixelCodes = s.Dim("pixel_quantize.embedding.weight", 2, 0)
		z.PixelInner = s.Dim("decoder.ffn.0.weight", 4, 0)
		z.VQGAN = readVQGANSizes(s, grid)
		if err := z.VQGAN.CheckSizes(); s.Err == nil && err != nil {
			return err
		}
		if s.Err == nil && z.VQGAN.Side() != z.Side {
			return fmt.Errorf("the encoder's images are %d pixels wide and the decoder's %d, want the "+
				"same", z.Side, z.VQGAN.Side())
		}
	} else {
		z.DecPatch = z.Side / grid
		if s.Err == nil && z.DecPatch*grid != z.Side {
			return fmt.Errorf("images are %d pixels wide and the decoder's grid %d, want a divisor",
				z.Side, grid)
		}
	}
	if s.Err == nil && z.Side > maxSide {
		return fmt.Errorf("images are %d pixels wide, want 1 to %d", z.Side, maxSide)
	}
	if n := z.EncDepth; s.Err == nil && (n < 1 || z.DecDepth < 1) {
		return fmt.Errorf("the encoder has %d blocks and the decoder %d, want 1 at least", n,
			z.DecDepth)
	}
	return s.Err
}

// readVQGANSizes reads the sizes of the VQGAN's decoder.
func readVQGANSizes(s *weights.Sizes, grid int) vqgan.Config {
	c := vqgan.Config{Grid: grid, OutCh: 3, ZChannels: s.Dim("pixel_quantize.embedding.weight", 2, 1)}
	c.EmbedDim = c.ZChannels
	c.ResBlocks = s.Count("pixel_decoder.up.0.block.", ".conv1.weight")
	for i := range s.Count("pixel_decoder.up.", ".block.0.conv1.weight") {
		n := s.Dim(fmt.Sprintf("pixel_decoder.up.%d.block.0.conv1.weight", i), 4, 0)
		c.Ch, c.ChMult = commonDivisor(n, c.Ch), append(c.ChMult, n)
	}
	for i := range c.ChMult {
		c.ChMult[i] /= c.Ch
	}
	return c
}

// commonDivisor returns the greatest common divisor.
func commonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// newTokenizer returns the network without weights.
func newTokenizer(z Sizes) *Tokenizer {
	cells := z.Side / z.EncPatch * (z.Side / z.EncPatch)
	m := &Tokenizer{
		sizes:    z,
		Latents:  weights.Param{Shape: []int{z.Tokens, z.EncWidth}},
		Codebook: picture.NewCodebook(z.Codes, z.CodeWidth),
	}
	m.Codebook.Unit = z.Unit
	m.Encoder = encoder{
		Patches:  picture.NewConv(z.EncWidth, 3, z.EncPatch),
		Class:    weights.Param{Shape: []int{1, z.EncWidth}},
		Position: weights.Param{Shape: []int{1 + cells, z.EncWidth}},
		Latent:   weights.Param{Shape: []int{z.Tokens, z.EncWidth}},
		Vit:      newVit(z.EncWidth, z.EncInner, z.EncDepth, z.EncHeads),
		Out:      weights.Param{Shape: []int{z.CodeWidth, z.EncWidth, 1, 1}},
		OutBias:  weights.Param{Shape: []int{z.CodeWidth}},
	}
	m.Decoder = decoder{
		Embed:    nn.NewLinear(z.CodeWidth, z.DecWidth),
		Class:    weights.Param{Shape: []int{1, z.DecWidth}},
		Mask:     weights.Param{Shape: []int{1, 1, z.DecWidth}},
		Position: weights.Param{Shape: []int{1 + z.DecCells, z.DecWidth}},
		Latent:   weights.Param{Shape: []int{z.Tokens, z.DecWidth}},
		Vit:      newVit(z.DecWidth, z.DecInner, z.DecDepth, z.DecHeads),
	}
	d := &m.Decoder
	if z.TextRows > 0 {
		d.Text = nn.NewLinear(z.TextWidth, z.DecWidth)
		d.TextPosition = weights.Param{Shape: []int{z.TextRows, z.DecWidth}}
	}
	out := 3 * z.DecPatch * z.DecPatch
	if z.PixelCodes > 0 {
		out = z.PixelInner
		d.Mix = weights.Param{Shape: []int{z.PixelCodes, out, 1, 1}}
		d.MixBias = weights.Param{Shape: []int{z.PixelCodes}}
		m.Mixture = weights.Param{Shape: []int{z.PixelCodes, z.VQGAN.ZChannels}}
		m.Drawer = vqgan.NewDecoder(z.VQGAN)
	} else {
		d.Smooth = picture.NewConv(3, 3, 3)
	}
	d.Out = weights.Param{Shape: []int{out, z.DecWidth, 1, 1}}
	d.OutBias = weights.Param{Shape: []int{out}}
	return m
}

// Load loads a tokenizer. The precision is that of the matrix products; nearest codes are found in
// float64 at any precision. The encoder's and the decoder's weights are packed when they are first
// used; src must stay open until then.
func Load(src *model.Source, o model.Options) (_ *Tokenizer, err error) {
	defer backend.Recover(&err)
	z, err := readSizes(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	m := newTokenizer(z)
	if err := weights.Bind(m, src.Set,
		weights.BindOptions{Names: vqgan.MuseNames, Ignore: unused}); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.Codebook.Load(l)
	m.Codec = picture.Codec{
		Grid:   []int{z.Tokens},
		Width:  z.Side,
		Height: z.Side,
		Book:   &m.Codebook,
		Draw:   m.drawCodes,
		Read:   m.readLatents,
		Halves: l.LazyHalves(src.Name, src.Set, m.loadEncoder, m.loadDecoder),
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return m, src.Set.ReleaseAll()
}

// unused are tensors in published tokenizers that neither direction needs.
var unused = []string{"quantize.embed_prob", "quantize.codebook_used", "*.num_batches_tracked"}

// Sizes returns the network's sizes.
func (m *Tokenizer) Sizes() Sizes { return m.sizes }
