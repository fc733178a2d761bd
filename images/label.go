package images

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Label returns a PNG with texts, given as pairs of keyword and text, in iTXt chunks after its
// header; pairs with an empty text are skipped. data must be a PNG (ISO/IEC 15948, section 11.3.4).
func Label(data []byte, texts [][2]string) []byte {
	const header = 8 + 4 + 4 + 13 + 4 // signature and IHDR
	out := bytes.NewBuffer(append(make([]byte, 0, len(data)+256), data[:header]...))
	for _, t := range texts {
		if t[1] == "" {
			continue
		}
		// Not compressed, without language and translation.
		chunk := append([]byte("iTXt"), t[0]+"\x00\x00\x00\x00\x00"+t[1]...)
		binary.Write(out, binary.BigEndian, uint32(len(chunk)-4))
		out.Write(chunk)
		binary.Write(out, binary.BigEndian, crc32.ChecksumIEEE(chunk))
	}
	out.Write(data[header:])
	return out.Bytes()
}
