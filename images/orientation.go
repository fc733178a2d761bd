package images

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/draw"
)

// orientation returns how a JPEG is to be shown, 1 to 8: tag 0x0112 of its EXIF data (EXIF 2.32,
// section 4.6.4). It is 1, as it stands, where the data is missing or damaged.
func orientation(jpeg []byte) int {
	for at := 2; at+4 <= len(jpeg) && jpeg[at] == 0xff; {
		marker, size := jpeg[at+1], int(binary.BigEndian.Uint16(jpeg[at+2:]))
		if marker == 0xda || size < 2 || at+2+size > len(jpeg) { // the picture begins
			return 1
		}
		segment := jpeg[at+4 : at+2+size]
		if marker == 0xe1 && len(segment) > len(exif) && string(segment[:len(exif)]) == exif {
			return tiffOrientation(segment[len(exif):])
		}
		at += 2 + size
	}
	return 1
}

// pngOrientation is orientation of a PNG, whose chunk eXIf has the data (PNG, third edition,
// section 11.3.4.6). It may stand before or after the picture.
func pngOrientation(png []byte) int {
	for at := 8; at+12 <= len(png); {
		size := int64(binary.BigEndian.Uint32(png[at:]))
		if size > int64(len(png)-at-12) {
			return 1
		}
		if string(png[at+4:at+8]) == "eXIf" {
			return tiffOrientation(bytes.TrimPrefix(png[at+8:at+8+int(size)], []byte(exif)))
		}
		at += 12 + int(size)
	}
	return 1
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
	size := image.Rect(0, 0, w, h)
	if orientation > 4 { // the sides change places
		size = image.Rect(0, 0, h, w)
	}
	out := image.NewNRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			var fx, fy int // where the pixel comes from
			switch orientation {
			case 2:
				fx, fy = w-1-x, y
			case 3:
				fx, fy = w-1-x, h-1-y
			case 4:
				fx, fy = x, h-1-y
			case 5:
				fx, fy = y, x
			case 6:
				fx, fy = y, h-1-x
			case 7:
				fx, fy = w-1-y, h-1-x
			case 8:
				fx, fy = w-1-y, x
			}
			out.SetNRGBA(x, y, m.NRGBAAt(fx, fy))
		}
	}
	return out
}
