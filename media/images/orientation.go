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
	for marker, body := range segments(data) {
		if tiff, ok := bytes.CutPrefix(body, []byte(exif)); ok && marker == 0xe1 {
			return tiffOrientation(tiff)
		}
	}
	for kind, body := range chunks(data) {
		if kind == "eXIf" {
			return tiffOrientation(bytes.TrimPrefix(body, []byte(exif)))
		}
	}
	return 1
}

// segments returns the markers of a JPEG and what they hold, up to the picture or to damage (ITU
// T.81, B.1.1.4); none of other data.
func segments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(marker byte, body []byte) bool) {
		if !bytes.HasPrefix(data, []byte(jpegMagic)) {
			return
		}
		for at := 2; at+4 <= len(data) && data[at] == 0xff; {
			marker, size := data[at+1], int(binary.BigEndian.Uint16(data[at+2:]))
			if marker == 0xff { // filler
				at++
				continue
			}
			if marker == 0xda || size < 2 || at+2+size > len(data) || !yield(marker, data[at+4:at+2+size]) {
				return
			}
			at += 2 + size
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
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	entries := int64(order.Uint16(tiff[at:]))
	for at += 2; entries > 0 && at+12 <= int64(len(tiff)); at, entries = at+12, entries-1 {
		if order.Uint16(tiff[at:]) == 0x0112 {
			if v := int(order.Uint16(tiff[at+8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
	}
	return 1
}

// upright returns a picture as a viewer shows it by its orientation.
func upright(picture image.Image, orientation int) image.Image {
	if orientation <= 1 || orientation > 8 {
		return picture
	}
	w, h := picture.Bounds().Dx(), picture.Bounds().Dy()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Rect, picture, picture.Bounds().Min, draw.Src)
	out := image.NewNRGBA(m.Rect)
	turned := orientation > 4 // the sides change places
	if turned {
		out = image.NewNRGBA(image.Rect(0, 0, h, w))
	}
	right := slices.Contains([]int{2, 3, 7, 8}, orientation) // columns come from the right
	bottom := slices.Contains([]int{3, 4, 6, 7}, orientation)
	for y := range h {
		for x := range w {
			toX, toY := x, y
			if right {
				toX = w - 1 - x
			}
			if bottom {
				toY = h - 1 - y
			}
			if turned {
				toX, toY = toY, toX
			}
			out.SetNRGBA(toX, toY, m.NRGBAAt(x, y))
		}
	}
	return out
}
