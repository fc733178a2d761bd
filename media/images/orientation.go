package images

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/draw"
	"iter"
	"slices"
)

// orientation returns how a picture is to be shown, 1 to 8: tag 0x0112 of its EXIF data (EXIF 2.32,
// section 4.6.4). It is 1, as it stands, where the data is missing or damaged. A PNG has the data
// in a chunk eXIf, which may stand before or after the picture (third edition, section 11.3.4.6).
func orientation(data []byte) int {
	for marker, body := range jpegSegments(data) {
		if tiff, ok := bytes.CutPrefix(body, []byte(exif)); ok && marker == 0xe1 {
			return tiffOrientation(tiff)
		}
	}
	for kind, body := range pngChunks(data) {
		if kind == "eXIf" {
			return tiffOrientation(bytes.TrimPrefix(body, []byte(exif)))
		}
	}
	return 1
}

// jpegSegments returns the markers of a JPEG and what they hold, up to the picture or to damage
// (ITU T.81, B.1.1.4); none of other data.
func jpegSegments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(marker byte, body []byte) bool) {
		if !bytes.HasPrefix(data, []byte(jpegMagic)) {
			return
		}
		offset := 2
		for offset+4 <= len(data) && data[offset] == 0xff {
			marker := data[offset+1]
			if marker == 0xff { // filler
				offset++
				continue
			}
			size := int(binary.BigEndian.Uint16(data[offset+2:])) // with its own two bytes
			isPicture := marker == 0xda
			if isPicture || size < 2 || offset+2+size > len(data) {
				return
			}
			if !yield(marker, data[offset+4:offset+2+size]) {
				return
			}
			offset += 2 + size
		}
	}
}

// exif is what EXIF data begins with in a JPEG, and in the PNG of some programs.
const exif = "Exif\x00\x00"

// tiffOrientation reads the tag from the first directory of a TIFF.
func tiffOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if tiff[0] == 'M' {
		order = binary.BigEndian
	}
	offset := int64(order.Uint32(tiff[4:]))
	if offset+2 > int64(len(tiff)) {
		return 1
	}
	entries := int64(order.Uint16(tiff[offset:]))
	offset += 2
	for range entries {
		if offset+12 > int64(len(tiff)) {
			return 1
		}
		if order.Uint16(tiff[offset:]) == 0x0112 {
			v := int(order.Uint16(tiff[offset+8:]))
			if v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
		offset += 12
	}
	return 1
}

// turnUpright returns a picture as a viewer shows it by its orientation.
func turnUpright(picture image.Image, orientation int) image.Image {
	if orientation <= 1 || orientation > 8 {
		return picture
	}
	w := picture.Bounds().Dx()
	h := picture.Bounds().Dy()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Rect, picture, picture.Bounds().Min, draw.Src)
	out := image.NewNRGBA(m.Rect)
	swapsSides := orientation > 4 // the sides change places
	if swapsSides {
		out = image.NewNRGBA(image.Rect(0, 0, h, w))
	}
	fromRight := slices.Contains([]int{2, 3, 7, 8}, orientation) // columns come from the right
	fromBottom := slices.Contains([]int{3, 4, 6, 7}, orientation)
	for y := range h {
		for x := range w {
			toX := x
			toY := y
			if fromRight {
				toX = w - 1 - x
			}
			if fromBottom {
				toY = h - 1 - y
			}
			if swapsSides {
				toX, toY = toY, toX
			}
			out.SetNRGBA(toX, toY, m.NRGBAAt(x, y))
		}
	}
	return out
}
