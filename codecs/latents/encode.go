package latents

import (
	"context"
	"fmt"

	"unmask/backend"
	"unmask/nn"
	"unmask/nn/picture"
)

func (m *Tokenizer) loadEncoder(l *nn.Loader) {
	e, z := &m.Encoder, &m.sizes
	cells := e.Position.Shape[0] - 1
	n := 1 + cells + z.Tokens
	e.out = matrix(e.Out, e.OutBias)
	l.Load(&e.Patches, &e.out)
	e.Vit.load(l, n)
	base := append(l.Floats(&e.Position), l.Floats(&e.Latent)...)
	addTo(base, l.Floats(&e.Class))
	addTo(base[(1+cells)*z.EncWidth:], l.Floats(&m.Latents))
	e.base = m.b.New(n, z.EncWidth)
	m.b.Write(e.base, 0, base)
}

// encode writes the codes of the image in m.pixels.
func (m *Tokenizer) encode(ctx context.Context, codes []int32) error {
	if err := m.LoadEncoder(); err != nil {
		return err
	}
	e, z, b := &m.Encoder, &m.sizes, m.b
	grid := z.Side / z.EncPatch
	cells := grid * grid
	if e.patches == nil {
		e.image = b.New(1, len(m.pixels))
		e.patches, e.rows, e.latent = b.New(cells, z.EncWidth), b.New(z.Tokens, z.EncWidth),
			b.New(z.Tokens, z.CodeWidth)
		e.host, e.shuffled = make([]float32, z.Tokens*z.EncWidth), make([]float32, z.Tokens*z.EncWidth)
	}
	x := e.Vit.prepare(b)
	b.Write(e.image, 0, m.pixels)
	e.Patches.Patches(b, e.patches, e.image, z.Side, z.Side)
	image := count(1, cells)
	b.AddRows(e.patches, e.base, image)
	b.Gather(x, e.base, count(0, 1+cells+z.Tokens))
	b.Scatter(x, e.patches, image)
	if err := e.Vit.run(ctx, b); err != nil {
		return err
	}
	b.Gather(e.rows, x, count(1+cells, z.Tokens))
	e.Vit.Post.Apply(b, e.rows, e.rows, z.Tokens)
	if z.Legacy { // [tokens, width] is read as [width, tokens]
		b.Read(e.host, e.rows, 0)
		for t := range z.Tokens {
			for c := range z.EncWidth {
				e.shuffled[t*z.EncWidth+c] = e.host[c*z.Tokens+t]
			}
		}
		b.Write(e.rows, 0, e.shuffled)
	}
	e.out.Apply(b, e.latent, e.rows, z.Tokens, backend.Identity)
	latent := make([]float32, z.Tokens*z.CodeWidth)
	b.Read(latent, e.latent, 0)
	m.Codebook.NearestAll(codes, latent)
	return nil
}

// count returns n numbers from first on.
func count(first, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(first + i)
	}
	return rows
}

// Encode implements model.PixelEncoder: it writes the codes [B, Tokens] of images
// [B, 3, Side, Side], colours in 0..1, to dst.
func (m *Tokenizer) Encode(dst []int32, images []float32) (err error) {
	defer backend.Recover(&err)
	plane := m.sizes.Side * m.sizes.Side
	if len(images)%(3*plane) != 0 || len(dst) != len(images)/(3*plane)*m.sizes.Tokens {
		return fmt.Errorf("%d values and room for %d codes, want %d values and %d codes an image",
			len(images), len(dst),
			3*plane, m.sizes.Tokens)
	}
	for i := range len(images) / (3 * plane) {
		picture.Pixels(m.pixels, images[3*i*plane:3*(i+1)*plane])
		if err := picture.Finite(m.pixels); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		if err := m.encode(context.Background(), dst[i*m.sizes.Tokens:(i+1)*m.sizes.Tokens]); err != nil {
			return err
		}
	}
	return nil
}
