package picture

import (
	"fmt"
	"image"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
)

// Codec is the part that image tokenizers share around their two networks. It turns pictures into
// codes and back one at a time, so memory does not grow with a batch and a picture's bytes do not
// depend on it. A tokenizer embeds it and is then a model.PixelEncoder and a model.LateCodec. One
// call at a time.
type Codec struct {
	nn.Halves

	Grid          []int // shape of a picture's codes
	Width, Height int   // pixels of a picture
	Book          *Codebook
	Offset        float32 // added to a byte before it is rounded down, see ToImage

	// Pixels is the picture at hand [Height, Width, 3], with colours 0 to 1 or, once drawn, a little
	// outside where the network overshoots. It is nil before the first call.
	Pixels []float32

	// Draw sets Pixels to the picture of codes.
	Draw func(codes []int32) error

	// Read returns the latents [codes, width of the book] of Pixels, which it may change.
	Read func() ([]float32, error)
}

// UseCanvas sets Draw and Read to networks that run on one canvas, between a picture, of colours -1
// to 1 if signed, and its latents [codes, width of the book]. Buffers are allocated by the first
// call.
func (c *Codec) UseCanvas(b backend.Backend, signed bool, draw,
	read func(v *Canvas, latent *tensor.Dense)) {
	var v *Canvas
	var latent *tensor.Dense
	prepare := func() {
		if v == nil {
			latent = b.New(c.codeCount(), c.Book.Width())
			v = NewCanvas(b, func(v *Canvas) { draw(v, latent) }, func(v *Canvas) { read(v, latent) })
		}
	}
	c.Draw = func(codes []int32) error {
		prepare()
		b.Gather(latent, c.Book.Table(), codes)
		draw(v, latent)
		err := v.Read(c.Pixels)
		if signed && err == nil {
			for i, x := range c.Pixels {
				c.Pixels[i] = (x + 1) / 2
			}
		}
		return err
	}
	c.Read = func() ([]float32, error) {
		prepare()
		if signed {
			for i, x := range c.Pixels {
				c.Pixels[i] = 2*x - 1
			}
		}
		read(v, latent)
		z := make([]float32, c.codeCount()*c.Book.Width())
		b.Read(z, latent, 0)
		return z, nil
	}
}

// Shape implements model.Codec.
func (c *Codec) Shape() []int { return c.Grid }

// Codes implements model.Codec.
func (c *Codec) Codes() int { return c.Book.Codes() }

// Size implements model.Codec.
func (c *Codec) Size() (width, height int) { return c.Width, c.Height }

// codeCount returns the number of a picture's codes.
func (c *Codec) codeCount() int {
	n := 1
	for _, d := range c.Grid {
		n *= d
	}
	return n
}

// AllocPixels allocates Pixels on the first call and returns them.
func (c *Codec) AllocPixels() []float32 {
	if c.Pixels == nil {
		c.Pixels = make([]float32, 3*c.Width*c.Height)
	}
	return c.Pixels
}

// Latents loads the encoder and returns the latents of Pixels.
func (c *Codec) Latents() ([]float32, error) {
	if err := c.LoadEncoder(); err != nil {
		return nil, err
	}
	return c.Read()
}

// encodePixels writes the codes of Pixels.
func (c *Codec) encodePixels(codes []int32) error {
	z, err := c.Latents()
	if err == nil {
		c.Book.FindNearest(codes, z)
	}
	return err
}

// drawCodes sets Pixels to the picture of codes.
func (c *Codec) drawCodes(codes []int32) error {
	if err := c.Book.Check(codes); err != nil {
		return err
	}
	if err := c.LoadDecoder(); err != nil {
		return err
	}
	c.AllocPixels()
	return c.Draw(codes)
}

// Image implements model.Codec.
func (c *Codec) Image(codes []int32) (_ *image.NRGBA, err error) {
	defer backend.Recover(&err)
	if n := c.codeCount(); len(codes) != n {
		return nil, fmt.Errorf("there are %d codes, want %d", len(codes), n)
	}
	if err := c.drawCodes(codes); err != nil {
		return nil, err
	}
	return ToImage(c.Pixels, c.Width, c.Height, c.Offset), nil
}

// EncodeImage implements model.Encoder. Alpha is ignored.
func (c *Codec) EncodeImage(picture image.Image) (_ []int32, err error) {
	defer backend.Recover(&err)
	if err := FromImage(c.AllocPixels(), picture, c.Width, c.Height); err != nil {
		return nil, err
	}
	codes := make([]int32, c.codeCount())
	return codes, c.encodePixels(codes)
}

// Decode implements model.Codec.
func (c *Codec) Decode(dst []float32, codes []int32) (err error) {
	defer backend.Recover(&err)
	n := c.codeCount()
	values := 3 * c.Width * c.Height
	if len(codes)%n != 0 || len(dst) != len(codes)/n*values {
		return fmt.Errorf("%d codes and room for %d values, want %d codes and %d values an image",
			len(codes), len(dst), n, values)
	}
	for i := range len(codes) / n {
		if err := c.drawCodes(codes[i*n : (i+1)*n]); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		ToPlanes(dst[i*values:(i+1)*values], c.Pixels)
	}
	return nil
}

// Encode implements model.PixelEncoder.
func (c *Codec) Encode(dst []int32, pictures []float32) (err error) {
	defer backend.Recover(&err)
	n := c.codeCount()
	values := 3 * c.Width * c.Height
	if len(pictures)%values != 0 || len(dst) != len(pictures)/values*n {
		return fmt.Errorf("%d values and room for %d codes, want %d values and %d codes an image",
			len(pictures), len(dst), values, n)
	}
	for i := range len(pictures) / values {
		ToPixels(c.AllocPixels(), pictures[i*values:(i+1)*values])
		if err := CheckFinite(c.Pixels); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		if err := c.encodePixels(dst[i*n : (i+1)*n]); err != nil {
			return err
		}
	}
	return nil
}
