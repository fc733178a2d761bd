package main

import (
	"fmt"

	"unmask/images"
	"unmask/vqgan"
)

// inpaintTokens are the codes of an image, masked in every cell that a white pixel of the mask
// touches.
func inpaintTokens(v *vqgan.Model, mask int32, imageFile, maskFile string) ([]int32, error) {
	codes, err := encodeFile(v, imageFile)
	if err != nil {
		return nil, fmt.Errorf("--inpaint: %w", err)
	}
	m, err := images.Read(maskFile)
	if err != nil {
		return nil, fmt.Errorf("--mask: %w", err)
	}
	c := v.Config()
	if side := c.Side(); m.Width != side || m.Height != side {
		return nil, fmt.Errorf("--mask: %s: an image of %dx%d pixels, allowed are %dx%d", maskFile, m.Width, m.Height, side, side)
	}
	cell := c.Side() / c.Grid
	for i := range m.Width * m.Height {
		if white := int(m.Pix[3*i])+int(m.Pix[3*i+1])+int(m.Pix[3*i+2]) >= 3*128; white {
			codes[i/m.Width/cell*c.Grid+i%m.Width/cell] = mask
		}
	}
	return codes, nil
}

// encodeFile returns the codes of a PNG file of the model's size.
func encodeFile(v *vqgan.Model, name string) ([]int32, error) {
	m, err := images.Read(name)
	if err != nil {
		return nil, err
	}
	codes, err := v.EncodeImage(m.NRGBA())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return codes, nil
}
