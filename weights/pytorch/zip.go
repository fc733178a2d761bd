package pytorch

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// archive is a zip file as written by torch.save: stored records, all in one folder, of which no
// two share bytes. Whatever else a zip may be is refused, because programs differ on what they read
// of it.
type archive struct {
	root    string
	records map[string]*record // by the name within root
}

// record describes one stored file.
type record struct {
	name   string // full name
	file   io.ReaderAt
	offset int64 // of its bytes in file
	size   int64
	crc    uint32

	// unchecked says that the file has no CRCs.
	unchecked bool

	// check compares the CRC, once however often it is called.
	check func() error
}

// maxDirectory bounds what is read of a zip to find its records, in bytes: each of MaxRecords has a
// name, and zip64 fields.
const maxDirectory = 256 * MaxRecords

// boundedReader reads a zip's directory until budget bytes of it were read.
type boundedReader struct {
	io.ReaderAt
	budget int
}

// ReadAt implements io.ReaderAt.
func (d *boundedReader) ReadAt(b []byte, offset int64) (int, error) {
	d.budget -= len(b)
	if d.budget < 0 {
		return 0, fmt.Errorf("its directory has more than %d bytes", maxDirectory)
	}
	return d.ReaderAt.ReadAt(b, offset)
}

// checkEnd returns an error for a zip that does not end with its end record, or for more than
// MaxRecords in it: package archive/zip makes room for as many as it says. The structures are in
// PKWARE's APPNOTE 6.3.10, sections 4.3.14 to 4.3.16.
func checkEnd(r io.ReaderAt, size int64) error {
	const end, locator, end64 = 22, 20, 56 // bytes
	tail := make([]byte, min(size, end+locator+end64))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return err
	}
	last, hasMark := bytes.CutPrefix(tail[max(0, len(tail)-end):], []byte("PK\x05\x06"))
	if !hasMark || string(last[end-6:]) != "\x00\x00" {
		return errors.New("zip is truncated: its last 22 bytes are no end record")
	}
	n := uint64(littleEndian.Uint16(last[6:]))
	if len(tail) == end+locator+end64 && string(tail[end64:end64+4]) == "PK\x06\x07" {
		if offset := littleEndian.Uint64(tail[end64+8:]); offset != uint64(size)-uint64(len(tail)) {
			return fmt.Errorf("zip64 end record is at %d, want it before the last %d bytes", offset,
				end+locator)
		}
		n = max(n, littleEndian.Uint64(tail[32:]))
	}
	if n > MaxRecords {
		return fmt.Errorf("zip has %d records, want %d", n, MaxRecords)
	}
	return nil
}

var littleEndian = binary.LittleEndian

// openArchive reads and checks the directory of a zip of size bytes.
func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	if err := checkEnd(r, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(&boundedReader{r, maxDirectory}, size)
	if err != nil {
		return nil, fmt.Errorf("zip directory: %w", err)
	}
	a := &archive{records: make(map[string]*record, len(z.File))}
	var list []*record
	for _, f := range z.File {
		rec, err := newRecord(r, f, size)
		if err == nil {
			err = a.add(rec)
		}
		if err != nil {
			return nil, fmt.Errorf("zip record %q%w", f.Name, err)
		}
		list = append(list, rec)
	}
	// torch.serialization.set_crc32_options(False) writes no CRCs: all are 0.
	unchecked := !slices.ContainsFunc(list, func(r *record) bool { return r.crc != 0 })
	slices.SortStableFunc(list, func(a, b *record) int { return cmp.Compare(a.offset, b.offset) })
	for i, rec := range list {
		rec.unchecked = unchecked
		if i > 0 && list[i-1].offset+list[i-1].size > rec.offset {
			return nil, fmt.Errorf("zip records %q and %q overlap", list[i-1].name, rec.name)
		}
	}
	return a, nil
}

// newRecord returns a record of a zip of size bytes.
func newRecord(r io.ReaderAt, f *zip.File, size int64) (*record, error) {
	const descriptor, unicode = 1 << 3, 1 << 11 // the other flags are for encryption and patches
	offset, err := f.DataOffset()
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	n := f.UncompressedSize64
	switch {
	case f.Flags&^(descriptor|unicode) != 0:
		return nil, fmt.Errorf(" has flags 0x%x, want 0x8 and 0x800: it is encrypted", f.Flags)
	case f.Method != zip.Store:
		return nil,
			fmt.Errorf(" has compression method %d, want 0: torch.save stores records as they are",
				f.Method)
	case f.CompressedSize64 != n:
		return nil, fmt.Errorf(": %d bytes are stored, %d are announced", f.CompressedSize64, n)
	case offset > size || n > uint64(size)-uint64(offset):
		return nil, fmt.Errorf(": %d bytes at %d are beyond the file", n, offset)
	}
	rec := &record{name: f.Name, file: r, offset: offset, size: int64(n), crc: f.CRC32}
	if err := rec.checkLocalHeader(); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	rec.check = sync.OnceValue(rec.verifyCRC)
	return rec, nil
}

// checkLocalHeader returns an error if the local header, which ends where the bytes begin, is not
// that of the directory: a reader that goes by it would see another file (APPNOTE 4.3.7).
func (rec *record) checkLocalHeader() error {
	const fixed, extra, descriptor = 30, 1024, 1 << 3 // bytes; torch.save aligns with at most 64
	preceding := make([]byte, min(rec.offset, int64(fixed+len(rec.name)+extra)))
	if err := readFull(rec.file, preceding, rec.offset-int64(len(preceding))); err != nil {
		return err
	}
	header := findLocalHeader(preceding)
	if header == nil {
		return errors.New("no local header")
	}
	name := string(header[fixed:][:littleEndian.Uint16(header[26:])])
	if name != rec.name {
		return fmt.Errorf("local header is of %q", name)
	}

	packed := littleEndian.Uint32(header[18:])
	size := littleEndian.Uint32(header[22:])
	if littleEndian.Uint16(header[6:])&descriptor != 0 && packed == 0 && size == 0 {
		return nil // sizes and CRC follow the bytes
	}
	isSize := func(n uint32) bool { return int64(n) == rec.size || n == math.MaxUint32 } // or zip64
	if !isSize(packed) || !isSize(size) || littleEndian.Uint32(header[14:]) != rec.crc {
		return errors.New("local header and directory disagree on size or CRC")
	}
	return nil
}

// findLocalHeader returns the local header that b ends with, nil if there is none. Its length is
// known only from its own fields, so it is searched for from the end.
func findLocalHeader(b []byte) []byte {
	const fixed = 30 // bytes before the name
	end := len(b)
	for {
		end = bytes.LastIndex(b[:end], []byte("PK\x03\x04"))
		if end < 0 {
			return nil
		}
		h := b[end:]
		if len(h) < fixed {
			continue
		}
		names := int(littleEndian.Uint16(h[26:])) + int(littleEndian.Uint16(h[28:]))
		if fixed+names == len(h) {
			return h
		}
	}
}

// add records a file by its name within the archive's one folder.
func (a *archive) add(rec *record) error {
	root, name, ok := strings.Cut(rec.name, "/")
	if !ok || root == "" || name == "" || path.Clean(rec.name) != rec.name ||
		strings.HasPrefix(rec.name, "../") ||
		strings.ContainsAny(rec.name, "\\\x00") || !utf8.ValidString(rec.name) {
		return errors.New(": want names of the form folder/name")
	}
	a.root = cmp.Or(a.root, root)
	if root != a.root {
		return fmt.Errorf(" is outside the folder %q of the others", a.root)
	}
	if a.records[name] != nil {
		return errors.New(" is there twice")
	}
	a.records[name] = rec
	return nil
}

// read returns the bytes of a record of at most limit bytes, after checking their CRC.
func (rec *record) read(limit int64) ([]byte, error) {
	if rec.size > limit {
		return nil, fmt.Errorf("record %q has %d bytes, want %d", rec.name, rec.size, limit)
	}
	if err := rec.check(); err != nil {
		return nil, err
	}
	b := make([]byte, rec.size)
	if err := readFull(rec.file, b, rec.offset); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	return b, nil
}

// verifyCRC compares the CRC of the record's bytes with that of the archive, unless the archive has
// none.
func (rec *record) verifyCRC() error {
	if rec.unchecked {
		return nil
	}
	h := crc32.NewIEEE()
	n, err := io.CopyBuffer(h, io.NewSectionReader(rec.file, rec.offset, rec.size), make([]byte,
		1<<18))
	switch {
	case err != nil:
		return fmt.Errorf("record %q: %w", rec.name, err)
	case n != rec.size:
		return fmt.Errorf("record %q: %w", rec.name, io.ErrUnexpectedEOF)
	case h.Sum32() != rec.crc:
		return fmt.Errorf("record %q is damaged: its CRC is not %08x", rec.name, rec.crc)
	}
	return nil
}

// readFull fills b from offset on. It returns an error if the file ends before that.
func readFull(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
