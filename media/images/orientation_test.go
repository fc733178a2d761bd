package images

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// oriented returns a JPEG of a picture, with its orientation in EXIF data.
func oriented(t *testing.T, m image.Image, held uint16, order binary.AppendByteOrder) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}))
	segment := append([]byte("Exif\x00\x00"), tiffOf(held, order)...)
	head := binary.BigEndian.AppendUint16([]byte{0xff, 0xd8, 0xff, 0xe1}, uint16(len(segment)+2))
	return append(append(head, segment...), b.Bytes()[2:]...)
}

// orientedPNG is oriented of a PNG, whose chunk stands before the picture or after it.
func orientedPNG(t *testing.T, m image.Image, data []byte, before bool) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	chunk := append([]byte("eXIf"), data...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk))
	chunk = append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), chunk...)
	at := 8 + 12 + 13 // after IHDR
	if !before {
		at = b.Len() - 12 // before IEND
	}
	return slices.Insert(b.Bytes(), at, chunk...)
}

func tiffOf(held uint16, order binary.AppendByteOrder) []byte {
	tiff := []byte("II*\x00\x08\x00\x00\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		tiff = []byte("MM\x00*\x00\x00\x00\x08")
	}
	tiff = order.AppendUint16(tiff, 2)
	for _, e := range [][2]uint16{{0x0100, 9}, {0x0112, held}} {
		tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, e[0]), 3), 1)
		tiff = order.AppendUint16(order.AppendUint16(tiff, e[1]), 0)
	}
	return tiff
}

// A photograph is read as every viewer shows it, whichever way the camera was held; measurement
// reads it as it is stored, as its peers do. The corners are red, green, blue and white as shown.
func TestOrientation(t *testing.T) {
	const w, h = 32, 16 // as shown
	colours := []color.NRGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255},
		{255, 255, 255, 255}}
	shown := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			shown.SetNRGBA(x, y, colours[2*(2*y/h)+2*x/w])
		}
	}
	// Row 0 and column 0 of the stored picture are these sides of the shown one (EXIF 2.32, figure).
	for held, from := range map[uint16]func(x, y int) (int, int){
		1: func(x, y int) (int, int) { return x, y },
		2: func(x, y int) (int, int) { return w - 1 - x, y },
		3: func(x, y int) (int, int) { return w - 1 - x, h - 1 - y },
		4: func(x, y int) (int, int) { return x, h - 1 - y },
		5: func(x, y int) (int, int) { return y, x },
		6: func(x, y int) (int, int) { return w - 1 - y, x },
		7: func(x, y int) (int, int) { return w - 1 - y, h - 1 - x },
		8: func(x, y int) (int, int) { return y, h - 1 - x },
	} {
		size := image.Rect(0, 0, w, h)
		if held > 4 {
			size = image.Rect(0, 0, h, w)
		}
		stored := image.NewNRGBA(size)
		for y := range size.Dy() {
			for x := range size.Dx() {
				fx, fy := from(x, y)
				stored.SetNRGBA(x, y, shown.NRGBAAt(fx, fy))
			}
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			name := filepath.Join(t.TempDir(), "photo.jpg")
			data := oriented(t, stored, held, order)
			require.NoError(t, os.WriteFile(name, data, 0o666))
			m, err := ReadPicture(name)
			require.NoError(t, err)
			require.Equal(t, shown.Rect, m.Bounds(), held)
			for k, at := range []image.Point{{2, 2}, {w - 3, 2}, {2, h - 3}, {w - 3, h - 3}} {
				c := color.NRGBAModel.Convert(m.At(at.X, at.Y)).(color.NRGBA)
				near := func(a, b uint8) bool { return max(a, b)-min(a, b) < 40 }
				require.True(t, near(c.R, colours[k].R) && near(c.G, colours[k].G) &&
					near(c.B, colours[k].B), "orientation %d, corner %d: %v", held, k, c)
			}
			drawn := orientedPNG(t, stored, tiffOf(held, order), held%2 == 0)
			if held == 3 { // some programs write the beginning of a JPEG's data
				drawn = orientedPNG(t, stored, append([]byte(exif), tiffOf(held, order)...), true)
			}
			require.NoError(t, os.WriteFile(name+".png", drawn, 0o666))
			p, err := ReadPicture(name + ".png")
			require.NoError(t, err)
			require.Equal(t, shown.Rect, p.Bounds(), held)
			for i := range w * h {
				require.Equal(t, shown.At(i%w, i/w), color.NRGBAModel.Convert(p.At(i%w, i/w)), held)
			}
			for cut := range len(drawn) {
				require.LessOrEqual(t, 1, orientation(drawn[:cut]))
			}
			as, err := Read(name)
			require.NoError(t, err)
			require.Equal(t, size.Dx(), as.Width)
			for cut := range len(data) { // damaged data is no reason to fail, or to panic
				require.LessOrEqual(t, 1, orientation(data[:cut]))
			}
		}
	}
}
