package latents

import (
	"unmask/backend"
	"unmask/nn"
)

// loadEncoder packs the encoder and allocates its working memory.
func (m *Tokenizer) loadEncoder(l *nn.Loader) {
	e := &m.Encoder
	z := &m.sizes
	b := m.b
	cells := e.Position.Shape[0] - 1
	n := 1 + cells + z.Tokens
	e.out = nn.ConvAsLinear(e.Out, e.OutBias)
	l.Load(&e.Patches, &e.out)
	e.Vit.packWeights(l, n)

	// What every stream begins with: the positions, the class's vector in row 0, and the latent
	// tokens. The patches are added to the rows of the cells.
	base := append(l.Floats(&e.Position), l.Floats(&e.Latent)...)
	nn.AddTo(base, l.Floats(&e.Class))
	nn.AddTo(base[(1+cells)*z.EncWidth:], l.Floats(&m.Latents))
	e.base = b.New(n, z.EncWidth)
	b.Write(e.base, 0, base)
	e.image = b.New(1, 3*z.Side*z.Side)
	e.patches = b.New(cells, z.EncWidth)
	e.rows = b.New(z.Tokens, z.EncWidth)
	e.latent = b.New(z.Tokens, z.CodeWidth)
	e.host = make([]float32, z.Tokens*z.EncWidth)
	e.shuffled = make([]float32, z.Tokens*z.EncWidth)
}

// readLatents is Codec.Read: it returns the latents [tokens, code width] of Pixels.
func (m *Tokenizer) readLatents() ([]float32, error) {
	e := &m.Encoder
	z := &m.sizes
	b := m.b
	cells := e.Position.Shape[0] - 1
	x := e.Vit.work.X
	b.Write(e.image, 0, m.Pixels)
	e.Patches.ApplyPatches(b, e.patches, e.image, z.Side, z.Side) // [cells, width]
	image := nn.RowRange(1, cells)
	b.AddRows(e.patches, e.base, image)
	b.Gather(x, e.base, nn.RowRange(0, 1+cells+z.Tokens)) // [1+cells+tokens, width]
	b.Scatter(x, e.patches, image)
	e.Vit.runBlocks(b)
	b.Gather(e.rows, x, nn.RowRange(1+cells, z.Tokens)) // [tokens, width]
	e.Vit.Post.Apply(b, e.rows, e.rows, z.Tokens)       // [tokens, width]
	if z.Legacy {
		// The published weights were trained with [tokens, width] read as [width, tokens].
		b.Read(e.host, e.rows, 0)
		for t := range z.Tokens {
			for c := range z.EncWidth {
				e.shuffled[t*z.EncWidth+c] = e.host[c*z.Tokens+t]
			}
		}
		b.Write(e.rows, 0, e.shuffled)
	}
	e.out.Apply(b, e.latent, e.rows, z.Tokens, backend.Identity) // [tokens, code width]
	latent := make([]float32, z.Tokens*z.CodeWidth)
	b.Read(latent, e.latent, 0)
	return latent, nil
}
