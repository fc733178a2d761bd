package vqgan

import (
	"context"
	"fmt"
	"math"

	"unmask/backend"
	"unmask/media/images"
)

// Width returns the number of features: each latent channel's mean and standard deviation.
func (m *Model) Width() int { return 2 * m.cfg.ZChannels }

// CheckSize returns an error unless p has Side x Side pixels.
func (m *Model) CheckSize(p *images.Image) error {
	if side := m.cfg.Side(); p.Width != side || p.Height != side || len(p.Pix) != 3*side*side {
		return fmt.Errorf("%d x %d pixels, want %d x %d", p.Width, p.Height, side, side)
	}
	return nil
}

// Features computes the features of images of Side x Side pixels: mean and standard deviation over
// the grid of each channel of the encoder's output, before the codebook. A Frechet distance of them
// compares sets of images without Inception's weights; it is not an FID. logits are nil. The slices
// are valid only during the call of visit.
func (m *Model) Features(ctx context.Context, list []*images.Image,
	visit func(i int, features, logits []float32) error) (err error) {
	defer backend.Recover(&err)
	channels := m.cfg.ZChannels
	features := make([]float32, 2*channels)
	for i, p := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.CheckSize(p); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		pixels := m.AllocPixels()
		for j, v := range p.Pix {
			pixels[j] = float32(v) / 255
		}
		z, err := m.Latents()
		if err != nil {
			return err
		}
		cells := float64(len(z) / channels)
		for c := range channels {
			var sum, squares float64
			for j := c; j < len(z); j += channels {
				sum += float64(z[j])
			}
			mean := sum / cells
			for j := c; j < len(z); j += channels {
				d := float64(z[j]) - mean
				squares += float64(d * d)
			}
			features[c] = float32(mean)
			features[channels+c] = float32(math.Sqrt(squares / cells))
		}
		if err := visit(i, features, nil); err != nil {
			return err
		}
	}
	return nil
}
