package images

import (
	"image"
	"image/color"
)

const (
	// Levels of each colour. The eye tells green apart best.
	levelsR = 6
	levelsG = 7
	levelsB = 6

	// checkDark is the palette's index of the darker grey; the lighter one comes next.
	checkDark = levelsR * levelsG * levelsB
)

// cube is the palette: the colours, then the two greys of masked cells.
var cube = func() color.Palette {
	var p color.Palette
	for r := range levelsR {
		for g := range levelsG {
			for b := range levelsB {
				p = append(p, color.NRGBA{uint8(r * 255 / (levelsR - 1)), uint8(g * 255 / (levelsG - 1)),
					uint8(b * 255 / (levelsB - 1)), 255})
			}
		}
	}
	return append(p, color.NRGBA{0x80, 0x80, 0x80, 255}, color.NRGBA{0x98, 0x98, 0x98, 255})
}()

// bayer is the threshold matrix, 0 to 15, of ordered dithering (Bayer 1973).
var bayer = [4][4]int{{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}}

// GIFFrame returns a picture in the colours of a GIF. They are dithered to a cube of 6 x 7 x 6
// with a fixed pattern, so that unchanged parts do not flicker from frame to frame. masked are
// rectangles of pixels that are drawn as a grey check instead.
func GIFFrame(p *image.NRGBA, masked []image.Rectangle) *image.Paletted {
	f := image.NewPaletted(p.Rect, cube)
	for y := range p.Rect.Dy() {
		row := p.Pix[y*p.Stride:]
		for x := range p.Rect.Dx() {
			t := bayer[y%4][x%4]
			r := ditherLevel(row[4*x], levelsR, t)
			g := ditherLevel(row[4*x+1], levelsG, t)
			b := ditherLevel(row[4*x+2], levelsB, t)
			f.Pix[y*f.Stride+x] = uint8((r*levelsG+g)*levelsB + b)
		}
	}
	for _, cell := range masked {
		visitCheck(cell, func(x, y, shade int) { f.SetColorIndex(x, y, uint8(checkDark+shade)) })
	}
	return f
}

// ditherLevel returns the step of a colour nearest to v, moved by the dither threshold t of 16.
func ditherLevel(v uint8, levels, t int) int {
	return (int(v)*(levels-1)*32 + 255*(2*t+1)) / (255 * 32)
}
