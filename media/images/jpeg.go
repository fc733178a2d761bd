package images

import (
	"image"
	"image/jpeg"
)

// decodeJPEG reads a JPEG as libjpeg does, which torch-fidelity uses: colour with fewer samples
// than grey is interpolated, unlike in Go's own conversion.
func decodeJPEG(data []byte) (*Image, error) {
	picture, err := decodeWithin(data, "JPEG", jpeg.DecodeConfig, jpeg.Decode)
	if err != nil {
		return nil, err
	}
	switch p := picture.(type) {
	case *image.YCbCr:
		return fromYCbCr(p), nil
	case *image.CMYK:
		return fromCMYK(p), nil
	case *image.RGBA:
		return fromRGB(p, data), nil
	}
	return fromImage(picture), nil
}

// fromCMYK converts inks as Pillow does (Convert.c, cmyk2rgb): each of the three colours is
// darkened by black, rounded.
func fromCMYK(p *image.CMYK) *Image {
	width := p.Rect.Dx()
	height := p.Rect.Dy()
	m := &Image{Width: width, Height: height, Pix: make([]byte, 0, 3*width*height)}
	for y := range height {
		row := p.Pix[y*p.Stride:][:4*width]
		for x := range width {
			light := 255 - int(row[4*x+3])
			for _, ink := range row[4*x : 4*x+3] {
				dark := int(ink)*light + 128
				m.Pix = append(m.Pix, clip(light-(dark>>8+dark)>>8))
			}
		}
	}
	return m
}

// fromRGB returns a picture that was stored as red, green and blue (Adobe's transform 0). Where
// green and blue have fewer samples, Go has repeated them; they are interpolated like any colour.
func fromRGB(p *image.RGBA, data []byte) *Image {
	width := p.Rect.Dx()
	height := p.Rect.Dy()
	planes := [3][]byte{}
	for c := range planes {
		planes[c] = make([]byte, width*height)
		for i := range planes[c] {
			planes[c][i] = p.Pix[i/width*p.Stride+4*(i%width)+c]
		}
	}
	across, down := chromaSampling(data)
	for _, plane := range planes[1:] {
		columns := (width + across - 1) / across
		rows := (height + down - 1) / down
		samples := make([]byte, columns*rows)
		for i := range samples {
			samples[i] = plane[i/columns*down*width+i%columns*across]
		}
		upsample(plane, samples, width, height, across, down)
	}
	m := &Image{Width: width, Height: height, Pix: make([]byte, 0, 3*width*height)}
	for i := range planes[0] {
		m.Pix = append(m.Pix, planes[0][i], planes[1][i], planes[2][i])
	}
	return m
}

// chromaSampling returns how many pixels a sample of the second component takes, across and down,
// by the first frame header (ITU T.81, B.2.2) of a JPEG that Go has decoded.
func chromaSampling(jpeg []byte) (across, down int) {
	for marker, body := range jpegSegments(jpeg) {
		if marker >= 0xc0 && marker <= 0xc2 && len(body) > 11 {
			first := int(body[7]) // factors of both directions, four bits each
			second := int(body[10])
			across = (first >> 4) / max(1, second>>4)
			down = (first & 15) / max(1, second&15)
			return max(1, across), max(1, down)
		}
	}
	return 1, 1
}

// fromYCbCr converts with libjpeg's integers (jdcolor.c: 16 fraction bits, half added).
func fromYCbCr(p *image.YCbCr) *Image {
	width := p.Rect.Dx()
	height := p.Rect.Dy()
	cb := upsampleChroma(p, p.Cb)
	cr := upsampleChroma(p, p.Cr)
	m := &Image{Width: width, Height: height, Pix: make([]byte, 3*width*height)}
	for y := range height {
		for x := range width {
			i := y*width + x
			grey := int(p.Y[y*p.YStride+x])
			b := int(cb[i]) - 128
			r := int(cr[i]) - 128
			m.Pix[3*i] = clip(grey + (91881*r+1<<15)>>16)
			m.Pix[3*i+1] = clip(grey + (-22554*b-46802*r+1<<15)>>16)
			m.Pix[3*i+2] = clip(grey + (116130*b+1<<15)>>16)
		}
	}
	return m
}

// clip bounds a colour to what a byte holds.
func clip(v int) byte { return byte(min(max(v, 0), 255)) }

// upsampleChroma returns a colour channel [height, width] with a sample for each pixel.
func upsampleChroma(p *image.YCbCr, plane []byte) []byte {
	width := p.Rect.Dx()
	height := p.Rect.Dy()

	// Package image knows by a constant how many pixels share a sample. The pixels beside the first
	// that have the same sample say it for any of the constants.
	across := 1
	down := 1
	first := p.COffset(0, 0)
	for p.COffset(across, 0) == first {
		across++
	}
	for p.COffset(0, down) == first {
		down++
	}
	columns := (width + across - 1) / across
	rows := (height + down - 1) / down
	samples := make([]byte, 0, columns*rows)
	for y := range rows {
		samples = append(samples, plane[y*p.CStride:][:columns]...)
	}
	channel := make([]byte, width*height)
	upsample(channel, samples, width, height, across, down)
	return channel
}

// upsample fills out [height, width] from one sample for `across` by `down` pixels: with libjpeg's
// triangle filter (jdsample.c, "fancy upsampling") for half as many, and by repetition for fewer.
func upsample(out, plane []byte, width, height, across, down int) {
	columns := (width + across - 1) / across
	rows := (height + down - 1) / down
	line := make([]int, columns) // four times the values of a row if down is 2
	for y := range height {
		row := plane[y/down*columns:][:columns]
		isFancy := down == 2 && across <= 2 && (across == 1 || columns > 2)
		if isFancy {
			neighbour := y/2 - 1 + 2*(y%2) // the nearer one
			next := plane[min(max(neighbour, 0), rows-1)*columns:][:columns]
			for x := range line {
				line[x] = 3*int(row[x]) + int(next[x])
			}
		} else {
			for x := range line {
				line[x] = 4 * int(row[x])
			}
		}
		outRow := out[y*width:][:width]
		for x := range outRow {
			outRow[x] = byte(interpolate(line, x, across, down, y))
		}
	}
}

// interpolate returns pixel x of a line whose values are four times the samples.
func interpolate(line []int, x, across, down, y int) int {
	i := x / across
	switch {
	case across == 1 && down == 2: // rounded down in upper rows and up in lower ones
		return (line[i] + 1 + y%2) >> 2
	case across != 2 || len(line) <= 2:
		return line[i] >> 2
	}
	side := i - 1 + 2*(x%2)
	if down == 1 { // one row only: the values are 4 times the samples
		near := line[i] / 4
		if side < 0 || side == len(line) {
			return near
		}
		return (3*near + line[side]/4 + 1 + x%2) >> 2
	}
	if side < 0 || side == len(line) {
		return (4*line[i] + 8 - x%2) >> 4
	}
	return (3*line[i] + line[side] + 8 - x%2) >> 4
}
