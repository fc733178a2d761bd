package images

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"unicode/utf8"

	"unmask/internal/atomicfile"
)

// AddLabels returns a PNG with texts, given as pairs of keyword and text, in iTXt chunks after its
// header; pairs with an empty text are skipped. data must be a PNG (ISO/IEC 15948, section 11.3.4).
func AddLabels(data []byte, texts [][2]string) []byte {
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

// pngChunks returns the kinds of a PNG's chunks and what they hold, up to damage; none of other
// data.
func pngChunks(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(kind string, body []byte) bool) {
		unread, isPNG := bytes.CutPrefix(data, []byte(pngMagic))
		for isPNG && len(unread) >= 12 {
			n := uint64(binary.BigEndian.Uint32(unread))
			if n > uint64(len(unread)-12) || !yield(string(unread[4:8]), unread[8:8+n]) {
				return
			}
			unread = unread[12+n:]
		}
	}
}

// maxLabels is the most bytes of texts that ParseLabels returns.
const maxLabels = 1 << 20

// ParseLabels returns the texts of a PNG by keyword: those that AddLabels wrote, and tEXt chunks
// before the image data. It is empty for other files, and stops at a damaged chunk.
func ParseLabels(data []byte) map[string]string {
	list := map[string]string{}
	total := 0
	for kind, body := range pngChunks(data) {
		key, text, ok := bytes.Cut(body, []byte{0})
		switch {
		case kind == "IDAT":
			return list
		case !ok || kind != "iTXt" && kind != "tEXt":
			continue
		case kind == "iTXt": // two bytes of compression, then a language and a translation
			if len(text) < 2 || text[0] != 0 {
				continue
			}
			_, text, _ = bytes.Cut(text[2:], []byte{0})
			_, text, ok = bytes.Cut(text, []byte{0})
		}
		total += len(body)
		if total > maxLabels {
			break
		}
		if ok && utf8.Valid(text) {
			list[string(key)] = string(text)
		}
	}
	return list
}

// ReadLabels returns the texts of the PNG file at name. The error is that of reading the file: one
// that is no PNG has no texts.
func ReadLabels(name string) (map[string]string, error) {
	data, err := atomicfile.ReadBounded(name, maxFile)
	return ParseLabels(data), err
}
