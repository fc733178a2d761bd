package latents

import (
	"math"

	"unmask/backend"
	"unmask/nn"
	"unmask/nn/picture"
)

// loadDecoder packs the decoder and allocates its working memory.
func (m *Tokenizer) loadDecoder(l *nn.Loader) {
	d := &m.Decoder
	z := &m.sizes
	b := m.b
	n := 1 + z.DecCells + z.Tokens + z.TextRows
	d.out = nn.ConvAsLinear(d.Out, d.OutBias)
	l.Load(&d.Embed, &d.Text, &d.out)
	d.Vit.packWeights(l, n)

	// What every stream begins with: the positions, with the class's vector in row 0 and the mask's
	// in each cell. The codes' vectors are added to the rows of the latent tokens.
	base := append(l.Floats(&d.Position), l.Floats(&d.Latent)...)
	nn.AddTo(base, l.Floats(&d.Class))
	mask := l.Floats(&d.Mask)
	for i := range z.DecCells {
		nn.AddTo(base[(1+i)*z.DecWidth:], mask)
	}
	if z.TextRows > 0 {
		base = append(base, l.Floats(&d.TextPosition)...)
		d.text = b.New(z.TextRows, z.TextWidth)
	}
	d.base = b.New(n, z.DecWidth)
	b.Write(d.base, 0, base)
	d.codes = b.New(z.Tokens, z.CodeWidth)
	d.rows = b.New(max(z.Tokens, z.TextRows), z.DecWidth)
	d.cells = b.New(z.DecCells, z.DecWidth)
	d.inner = b.New(z.DecCells, d.Out.Shape[0])
	d.host = make([]float32, z.DecCells*max(d.Out.Shape[0], z.PixelCodes))
	if z.PixelCodes == 0 {
		d.Smooth.Load(l)
		d.image = b.New(1, 3*z.Side*z.Side)
		d.drawn = b.New(1, 3*z.Side*z.Side)
		return
	}
	d.logits = b.New(z.DecCells, z.PixelCodes)
	d.latent = b.New(z.DecCells, z.VQGAN.ZChannels)
	d.mix = nn.ConvAsLinear(d.Mix, d.MixBias)
	l.Load(&d.mix, m.Drawer)

	// A cell's latent is the mean of all codes, weighted by its probabilities: a product with the
	// transposed codebook.
	codes := l.Floats(&m.Mixture)
	channels := z.VQGAN.ZChannels
	d.toLatent = b.Pack(channels, z.PixelCodes, l.Precision, func(i int, dst []float32) {
		for c := range dst {
			dst[c] = codes[c*channels+i]
		}
	})
}

// drawCodes is Codec.Draw: it sets Pixels to the picture of codes [tokens].
func (m *Tokenizer) drawCodes(codes []int32) error {
	d := &m.Decoder
	z := &m.sizes
	b := m.b
	x := d.Vit.work.X
	b.Gather(x, d.base, nn.RowRange(0, d.Vit.rows.Len()))         // [1+cells+tokens+text rows, width]
	b.Gather(d.codes, m.Codebook.Table(), codes)                  // [tokens, code width]
	d.Embed.Apply(b, d.rows, d.codes, z.Tokens, backend.Identity) // [tokens, width]
	latents := nn.RowRange(1+z.DecCells, z.Tokens)
	b.AddRows(d.rows, d.base, latents)
	b.Scatter(x, d.rows, latents)
	if z.TextRows > 0 {
		b.Write(d.text, 0, m.text)
		d.Text.Apply(b, d.rows, d.text, z.TextRows, backend.Identity) // [text rows, width]
		words := nn.RowRange(1+z.DecCells+z.Tokens, z.TextRows)
		b.AddRows(d.rows, d.base, words)
		b.Scatter(x, d.rows, words)
	}
	d.Vit.runBlocks(b)

	b.Gather(d.cells, x, nn.RowRange(1, z.DecCells))               // [cells, width]
	d.Vit.Post.Apply(b, d.cells, d.cells, z.DecCells)              // [cells, width]
	d.out.Apply(b, d.inner, d.cells, z.DecCells, backend.Identity) // [cells, inner or 3*patch*patch]
	if z.PixelCodes == 0 {
		return m.drawPatches()
	}

	// Each cell's distribution over the VQGAN's codes gives a weighted mean of its codebook.
	inner := d.host[:z.DecCells*z.PixelInner]
	b.Read(inner, d.inner, 0)
	for i, v := range inner {
		inner[i] = float32(math.Tanh(float64(v)))
	}
	b.Write(d.inner, 0, inner)
	d.mix.Apply(b, d.logits, d.inner, z.DecCells, backend.Identity) // [cells, pixel codes]
	p := d.host[:z.DecCells*z.PixelCodes]
	b.Read(p, d.logits, 0)
	nn.Softmax(p, z.PixelCodes, 1)
	b.Write(d.logits, 0, p)
	b.Linear(d.latent, d.logits, z.DecCells, d.toLatent, backend.Epilogue{}) // [cells, channels]
	return m.Drawer.Draw(b, m.Pixels, d.latent)
}

// drawPatches writes the smoothed image of the cells' patches to m.Pixels. The values of a cell are
// [patch, patch, 3].
func (m *Tokenizer) drawPatches() error {
	d := &m.Decoder
	z := &m.sizes
	b := m.b
	patch := z.DecPatch
	grid := z.Side / patch
	values := d.host[:len(m.Pixels)]
	b.Read(values, d.inner, 0)
	for cell := range z.DecCells {
		for y := range patch {
			pixel := (cell/grid*patch+y)*z.Side + cell%grid*patch
			copy(m.Pixels[3*pixel:][:3*patch], values[(cell*patch+y)*patch*3:])
		}
	}
	b.Write(d.image, 0, m.Pixels)
	w, bias := d.Smooth.Matrix()
	b.Conv(d.drawn, d.image,
		backend.ConvShape{
			Batch:  1,
			Height: z.Side,
			Width:  z.Side,
			In:     3,
			Out:    3,
			KH:     3,
			KW:     3,
			PadH:   1,
			PadW:   1,
		},
		w, backend.ConvInput{}, backend.Epilogue{Bias: bias})
	b.Read(m.Pixels, d.drawn, 0)
	return picture.CheckDrawn(m.Pixels)
}
