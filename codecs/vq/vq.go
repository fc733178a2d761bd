// Package vq has the convolutional image tokenizers in the common form of latent diffusion (Esser
// et al., 2021, "Taming transformers for high-resolution image synthesis"): LlamaGen's, used by
// Halton-MaskGIT, and the VQModel of diffusers, used by aMUSEd.
//
// Sizes are read from the tensors, except the grid of codes, which the caller gives, because the
// networks are convolutional.
package vq

import (
	"context"
	"fmt"
	"image"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/nn/picture"
	"unmask/weights"
)

// Model turns images into codes and back, one image at a time, in buffers that have the size of
// their largest activation. One call at a time.
type Model struct {
	nn.Halves

	Codebook  picture.Codebook `weight:"quantize.embedding"`
	QuantConv picture.Conv     `weight:"quant_conv"`
	PostConv  picture.Conv     `weight:"post_quant_conv"`

	encoder, decoder  *side
	signed            bool // colours are -1 to 1 inside the network
	width, height     int  // codes of an image
	scale             int  // pixels of a code along a side
	b                 backend.Backend
	canvas            *picture.Canvas
	latent, projected *tensor.Dense // [codes, code width], [codes, latent channels]
	pixels            []float32     // [height, width, 3]
}

// stage is one level of a side: residual blocks, each followed by an attention if the level has
// any, and then a step to half or double size.
type stage struct {
	res  []*resBlock
	attn []*picture.Attention
	down *picture.Halving
	up   *picture.Doubling
}

// side is the encoder or the decoder.
type side struct {
	in, out   *picture.Conv
	norm      *picture.GroupNorm
	stages    []stage
	mid       stage // its attention is between its two blocks
	midBefore bool  // the middle comes first, as in the decoder
}

func (s *side) load(l *nn.Loader) {
	l.Load(s.in, s.norm, s.out)
	for _, st := range append([]stage{s.mid}, s.stages...) {
		for _, r := range st.res {
			r.load(l)
		}
		for _, a := range st.attn {
			a.Load(l)
		}
		if st.down != nil {
			st.down.Load(l)
		}
		if st.up != nil {
			st.up.Load(l)
		}
	}
}

// middle applies the blocks at the smallest size.
func (s *side) middle(v *picture.Canvas) {
	for i, r := range s.mid.res {
		if i > 0 && i <= len(s.mid.attn) {
			v.Attend(s.mid.attn[i-1])
		}
		r.apply(v)
	}
}

// apply runs the side over the canvas, except its last convolution.
func (s *side) apply(ctx context.Context, v *picture.Canvas) error {
	if s.midBefore {
		s.middle(v)
	}
	for _, st := range s.stages {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, r := range st.res {
			r.apply(v)
			if i < len(st.attn) {
				v.Attend(st.attn[i])
			}
		}
		if st.down != nil {
			v.Halve(st.down)
		}
		if st.up != nil {
			v.Double(st.up)
		}
	}
	if !s.midBefore {
		s.middle(v)
	}
	return nil
}

// resBlock is norm, swish, 3x3, norm, swish, 3x3, added to the input or, if the number of channels
// changes, to a 1x1 convolution of it.
type resBlock struct {
	Norm1        picture.GroupNorm `weight:"norm1"`
	Conv1        picture.Conv      `weight:"conv1"`
	Norm2        picture.GroupNorm `weight:"norm2"`
	Conv2        picture.Conv      `weight:"conv2"`
	NinShortcut  picture.Conv      `weight:"nin_shortcut"`  // in LlamaGen
	ConvShortcut picture.Conv      `weight:"conv_shortcut"` // in diffusers

	shortcut *picture.Conv // one of the two above; nil if the number of channels stays
}

func (r *resBlock) load(l *nn.Loader) {
	l.Load(&r.Norm1, &r.Conv1, &r.Norm2, &r.Conv2)
	if r.shortcut != nil {
		r.shortcut.Load(l)
	}
}

// apply replaces the canvas by the block's output.
func (r *resBlock) apply(v *picture.Canvas) {
	v.Run(v.H, v.X, &r.Conv1, v.Normed(v.X, &r.Norm1), backend.Epilogue{})
	if r.shortcut == nil {
		v.Run(v.X, v.H, &r.Conv2, v.Normed(v.H, &r.Norm2), backend.Epilogue{Add: true})
		return
	}
	y := v.Third()
	v.Run(y, v.X, r.shortcut, backend.ConvInput{}, backend.Epilogue{})
	v.Run(y, v.H, &r.Conv2, v.Normed(v.H, &r.Norm2), backend.Epilogue{Add: true})
	v.SwapThird()
}

// Load loads a tokenizer for images of width x height codes. The precision is that of the
// convolutions; nearest codes are found in float64 at any precision. The encoder's and the
// decoder's weights are packed when they are first used; src must stay open until then.
func Load(src *model.Source, width, height int, o model.Options) (_ *Model, err error) {
	defer backend.Recover(&err)
	m, err := load(src, width, height, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return m, src.Set.ReleaseAll()
}

// load is Load without the model's name in errors.
func load(src *model.Source, width, height int, o model.Options) (*Model, error) {
	b := &builder{weights.Sizes{Set: src.Set}}
	var m *Model
	var root any
	if b.Has("encoder.conv_blocks.0.res.0.conv1.weight") {
		m, root = b.llamagen()
	} else {
		m, root = b.diffusers()
	}
	if b.Err != nil {
		return nil, b.Err
	}
	if err := m.setGrid(width, height); err != nil {
		return nil, err
	}
	if err := weights.Bind(root, src.Set, weights.BindOptions{Ignore: unused}); err != nil {
		return nil, err
	}
	m.b = o.Backend
	l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
	m.Codebook.Load(l)
	m.Halves = l.LaterHalves(src.Name, src.Set, func(l *nn.Loader) {
		m.QuantConv.Load(l)
		m.encoder.load(l)
	}, func(l *nn.Loader) {
		m.PostConv.Load(l)
		m.decoder.load(l)
	})
	return m, l.Err()
}

// unused are tensors of published files that neither direction needs.
var unused = []string{"quantize.codebook_used"}

const maxPixels = 1 << 13 // along a side

func (m *Model) setGrid(width, height int) error {
	m.scale = 1
	for _, st := range m.decoder.stages {
		if st.up != nil {
			m.scale *= 2
		}
	}
	if width < 1 || height < 1 || max(width, height) > maxPixels/m.scale {
		return fmt.Errorf("the grid is %d x %d codes, want 1 to %d along a side", width, height,
			maxPixels/m.scale)
	}
	m.width, m.height = width, height
	return nil
}

// Shape returns the shape of an image's codes, [height, width].
func (m *Model) Shape() []int { return []int{m.height, m.width} }

// Codes returns the number of codes.
func (m *Model) Codes() int { return m.Codebook.Codes() }

// Size returns an image's width and height in pixels.
func (m *Model) Size() (width, height int) { return m.scale * m.width, m.scale * m.height }

// prepare allocates the buffers.
func (m *Model) prepare() {
	if m.canvas == nil {
		w, h := m.Size()
		m.pixels = make([]float32, 3*w*h)
		m.canvas = picture.NewCanvasFor(m.b,
			func(v *picture.Canvas) { _ = m.draw(context.Background(), v) },
			func(v *picture.Canvas) { _ = m.read(context.Background(), v) })
		m.latent = m.b.New(m.width*m.height, m.Codebook.Width())
		m.projected = m.b.New(m.width*m.height, m.PostConv.Weight.Shape[0])
	}
}

// draw computes the image of m.latent.
func (m *Model) draw(ctx context.Context, v *picture.Canvas) error {
	v.Begin(m.height, m.width)
	v.Run(m.projected, m.latent, &m.PostConv, backend.ConvInput{}, backend.Epilogue{})
	v.Run(v.X, m.projected, m.decoder.in, backend.ConvInput{}, backend.Epilogue{})
	if err := m.decoder.apply(ctx, v); err != nil {
		return err
	}
	v.Step(m.decoder.out, m.decoder.norm)
	return nil
}

// read computes the latents of the image in m.pixels.
func (m *Model) read(ctx context.Context, v *picture.Canvas) error {
	w, h := m.Size()
	v.Begin(h, w)
	v.Write(m.pixels)
	v.Step(m.encoder.in, nil)
	if err := m.encoder.apply(ctx, v); err != nil {
		return err
	}
	v.Step(m.encoder.out, m.encoder.norm)
	v.Run(m.latent, v.X, &m.QuantConv, backend.ConvInput{}, backend.Epilogue{})
	return nil
}

// decode writes the image of codes to m.pixels, with colours 0 to 1 or a little outside where the
// network overshoots.
func (m *Model) decode(ctx context.Context, codes []int32) error {
	if err := m.Codebook.Check(codes); err != nil {
		return err
	}
	if err := m.LoadDecoder(); err != nil {
		return err
	}
	m.prepare()
	m.b.Gather(m.latent, m.Codebook.Table(), codes)
	if err := m.draw(ctx, m.canvas); err != nil {
		return err
	}
	if err := m.canvas.Read(m.pixels); err != nil {
		return err
	}
	if m.signed {
		for i, x := range m.pixels {
			m.pixels[i] = (x + 1) / 2
		}
	}
	return nil
}

// encode computes the codes of the image in m.pixels, which it overwrites.
func (m *Model) encode(ctx context.Context, codes []int32) error {
	if err := m.LoadEncoder(); err != nil {
		return err
	}
	m.prepare()
	if m.signed {
		for i, x := range m.pixels {
			m.pixels[i] = 2*x - 1
		}
	}
	if err := m.read(ctx, m.canvas); err != nil {
		return err
	}
	z := make([]float32, len(codes)*m.Codebook.Width())
	m.b.Read(z, m.latent, 0)
	m.Codebook.NearestAll(codes, z)
	return nil
}

// Decode writes the images [B, 3, height, width] of codes [B, codes] to dst. Colours are 0 to 1, or
// a little outside where the network overshoots.
func (m *Model) Decode(dst []float32, codes []int32) (err error) {
	defer backend.Recover(&err)
	w, h := m.Size()
	cells, plane := m.width*m.height, w*h
	if len(codes)%cells != 0 || len(dst) != len(codes)/cells*3*plane {
		return fmt.Errorf("%d codes and room for %d values, want %d codes and %d values an image",
			len(codes), len(dst), cells, 3*plane)
	}
	for i := range len(codes) / cells {
		if err := m.decode(context.Background(), codes[i*cells:(i+1)*cells]); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		picture.Planes(dst[i*3*plane:(i+1)*3*plane], m.pixels)
	}
	return nil
}

// Image returns the image of codes. A byte is 255 times the colour, rounded.
func (m *Model) Image(codes []int32) (_ *image.NRGBA, err error) {
	defer backend.Recover(&err)
	if len(codes) != m.width*m.height {
		return nil, fmt.Errorf("%d codes, want %d", len(codes), m.width*m.height)
	}
	if err := m.decode(context.Background(), codes); err != nil {
		return nil, err
	}
	w, h := m.Size()
	return picture.Image(m.pixels, w, h, 0.5), nil
}

// Encode writes the codes [B, codes] of images [B, 3, height, width], colours in 0..1, to dst.
func (m *Model) Encode(dst []int32, images []float32) (err error) {
	defer backend.Recover(&err)
	w, h := m.Size()
	cells, plane := m.width*m.height, w*h
	if len(images)%(3*plane) != 0 || len(dst) != len(images)/(3*plane)*cells {
		return fmt.Errorf("%d values and room for %d codes, want %d values and %d codes an image",
			len(images), len(dst), 3*plane, cells)
	}
	m.prepare()
	for i := range len(images) / (3 * plane) {
		picture.Pixels(m.pixels, images[i*3*plane:(i+1)*3*plane])
		if err := picture.Finite(m.pixels); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		if err := m.encode(context.Background(), dst[i*cells:(i+1)*cells]); err != nil {
			return err
		}
	}
	return nil
}

// EncodeImage returns the codes of an image of the model's size. Alpha is ignored.
func (m *Model) EncodeImage(img image.Image) (_ []int32, err error) {
	defer backend.Recover(&err)
	w, h := m.Size()
	m.prepare()
	if err := picture.FromImage(m.pixels, img, w, h); err != nil {
		return nil, err
	}
	codes := make([]int32, m.width*m.height)
	return codes, m.encode(context.Background(), codes)
}
