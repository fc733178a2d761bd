package vqgan

import (
	"fmt"
	"image"
	"math"

	"unmask/backend"
	"unmask/nn/picture"
)

// Shape implements model.Codec: Grid rows of Grid codes.
func (m *Model) Shape() []int { return []int{m.cfg.Grid, m.cfg.Grid} }

// Codes implements model.Codec.
func (m *Model) Codes() int { return m.cfg.Codes }

// Size implements model.Codec.
func (m *Model) Size() (width, height int) { return m.cfg.Side(), m.cfg.Side() }

// Decode writes the images [B, 3, Side, Side] of codes [B, Grid*Grid] to dst. Colours are 0 to 1,
// or a little outside where the network overshoots.
func (m *Model) Decode(dst []float32, codes []int32) (err error) {
	defer backend.Recover(&err)
	grid, plane := m.cfg.Grid*m.cfg.Grid, m.cfg.Side()*m.cfg.Side()
	if len(codes)%grid != 0 || len(dst) != len(codes)/grid*3*plane {
		return fmt.Errorf("%d codes and room for %d values, want %d codes and %d values an image",
			len(codes), len(dst), grid, 3*plane)
	}
	for i := range len(codes) / grid {
		if err := m.decode(codes[i*grid : (i+1)*grid]); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
		picture.Planes(dst[3*i*plane:3*(i+1)*plane], m.pixels)
	}
	return nil
}

// Image returns the image of codes [Grid*Grid]. A byte is clip(255x, 0, 255), truncated.
func (m *Model) Image(codes []int32) (_ *image.NRGBA, err error) {
	defer backend.Recover(&err)
	if len(codes) != m.cfg.Grid*m.cfg.Grid {
		return nil, fmt.Errorf("%d codes, want %d", len(codes), m.cfg.Grid*m.cfg.Grid)
	}
	if err := m.decode(codes); err != nil {
		return nil, err
	}
	return picture.Image(m.pixels, m.cfg.Side(), m.cfg.Side(), 0), nil
}

// Encode writes the codes [B, Grid*Grid] of images [B, 3, Side, Side], colours in 0..1, to dst.
func (m *Model) Encode(dst []int32, images []float32) (err error) {
	defer backend.Recover(&err)
	grid, plane := m.cfg.Grid*m.cfg.Grid, m.cfg.Side()*m.cfg.Side()
	if len(images)%(3*plane) != 0 || len(dst) != len(images)/(3*plane)*grid {
		return fmt.Errorf("%d values and room for %d codes, want %d values and %d codes an image",
			len(images), len(dst), 3*plane, grid)
	}
	for i, x := range images {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("image %d: a colour is %v, want 0 to 1", i/(3*plane), x)
		}
	}
	m.prepare(m.cfg.Side())
	for i := range len(images) / (3 * plane) {
		picture.Pixels(m.pixels, images[3*i*plane:3*(i+1)*plane])
		if err := m.encode(dst[i*grid : (i+1)*grid]); err != nil {
			return err
		}
	}
	return nil
}

// EncodeImage returns the codes [Grid*Grid] of an image of Side x Side pixels. Alpha is ignored.
func (m *Model) EncodeImage(img image.Image) (_ []int32, err error) {
	defer backend.Recover(&err)
	side := m.cfg.Side()
	m.prepare(side)
	if err := picture.FromImage(m.pixels, img, side, side); err != nil {
		return nil, err
	}
	codes := make([]int32, m.cfg.Grid*m.cfg.Grid)
	return codes, m.encode(codes)
}
