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
// two share bytes.
type archive struct {
	root    string
	records map[string]*record // by the name within root
}

// record describes one stored file.
type record struct {
	name      string // full name
	r         io.ReaderAt
	data      int64 // offset of its bytes
	size      int64
	crc       uint32
	unchecked bool // the file has no CRCs

	check func() error // compares the CRC, once
}

// maxDirectory bounds what is read of a zip to find its records, in bytes: each of MaxRecords has a
// name, and zip64 fields.
const maxDirectory = 256 * MaxRecords

// directory reads a zip until maxDirectory bytes of it were read.
type directory struct {
	io.ReaderAt
	left int
}

// ReadAt implements io.ReaderAt.
func (d *directory) ReadAt(b []byte, at int64) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, fmt.Errorf("its directory has more than %d bytes", maxDirectory)
	}
	return d.ReaderAt.ReadAt(b, at)
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
	last, found := bytes.CutPrefix(tail[max(0, len(tail)-end):], []byte("PK\x05\x06"))
	if !found || string(last[end-6:]) != "\x00\x00" {
		return errors.New("zip is truncated: its last 22 bytes are no end record")
	}
	n := uint64(le.Uint16(last[6:]))
	if len(tail) == end+locator+end64 && string(tail[end64:end64+4]) == "PK\x06\x07" {
		if at := le.Uint64(tail[end64+8:]); at != uint64(size)-uint64(len(tail)) {
			return fmt.Errorf("zip64 end record is at %d, want it before the last %d bytes", at, end+locator)
		}
		n = max(n, le.Uint64(tail[32:]))
	}
	if n > MaxRecords {
		return fmt.Errorf("zip has %d records, want %d", n, MaxRecords)
	}
	return nil
}

var le = binary.LittleEndian

// openArchive reads and checks the directory of a zip of size bytes.
func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	if err := checkEnd(r, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(&directory{r, maxDirectory}, size)
	if err != nil {
		return nil, fmt.Errorf("zip directory: %w", err)
	}
	a := &archive{records: make(map[string]*record, len(z.File))}
	var list []*record
	for _, f := range z.File {
		rec, err := stored(r, f, size)
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
	slices.SortStableFunc(list, func(a, b *record) int { return cmp.Compare(a.data, b.data) })
	for i, rec := range list {
		rec.unchecked = unchecked
		if i > 0 && list[i-1].data+list[i-1].size > rec.data {
			return nil, fmt.Errorf("zip records %q and %q overlap", list[i-1].name, rec.name)
		}
	}
	return a, nil
}

// stored returns a record of a zip of size bytes.
func stored(r io.ReaderAt, f *zip.File, size int64) (*record, error) {
	const descriptor, unicode = 1 << 3, 1 << 11 // the other flags are for encryption and patches
	at, err := f.DataOffset()
	stop := uint64(size) - uint64(at)
	switch n := f.UncompressedSize64; {
	case err != nil:
		return nil, fmt.Errorf(": %w", err)
	case f.Flags&^(descriptor|unicode) != 0:
		return nil, fmt.Errorf(" has flags 0x%x, want 0x8 and 0x800: it is encrypted", f.Flags)
	case f.Method != zip.Store:
		return nil, fmt.Errorf(" has compression method %d, want 0: torch.save stores records as they are",
			f.Method)
	case f.CompressedSize64 != n:
		return nil, fmt.Errorf(": stored %d bytes are said to be %d", f.CompressedSize64, n)
	case at > size || n > stop:
		return nil, fmt.Errorf(": %d bytes at %d are beyond the file", n, at)
	}
	rec := &record{name: f.Name, r: r, data: at, size: int64(f.UncompressedSize64), crc: f.CRC32}
	if err := rec.agree(); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	rec.check = sync.OnceValue(rec.verify)
	return rec, nil
}

// agree returns an error if the local header, which ends where the bytes begin, is not that of the
// directory: a reader that goes by it would see another file (APPNOTE 4.3.7).
func (rec *record) agree() error {
	const fixed, extra, descriptor = 30, 1024, 1 << 3 // bytes; torch.save aligns with at most 64
	b := make([]byte, min(rec.data, int64(fixed+len(rec.name)+extra)))
	if err := readFull(rec.r, b, rec.data-int64(len(b))); err != nil {
		return err
	}
	for end := len(b); ; {
		if end = bytes.LastIndex(b[:end], []byte("PK\x03\x04")); end < 0 {
			return errors.New("no local header")
		}
		h := b[end:]
		if len(h) >= fixed && fixed+int(le.Uint16(h[26:]))+int(le.Uint16(h[28:])) == len(h) {
			b = h
			break
		}
	}
	if name := string(b[fixed:][:le.Uint16(b[26:])]); name != rec.name {
		return fmt.Errorf("local header is of %q", name)
	}
	packed, size := le.Uint32(b[18:]), le.Uint32(b[22:])
	if le.Uint16(b[6:])&descriptor != 0 && packed == 0 && size == 0 {
		return nil // sizes and CRC follow the bytes
	}
	is := func(n uint32) bool { return int64(n) == rec.size || n == math.MaxUint32 } // or zip64
	if !is(packed) || !is(size) || le.Uint32(b[14:]) != rec.crc {
		return errors.New("local header and directory disagree on size or CRC")
	}
	return nil
}

// add records a file by its name within the archive's one folder.
func (a *archive) add(rec *record) error {
	root, name, ok := strings.Cut(rec.name, "/")
	if !ok || root == "" || name == "" || path.Clean(rec.name) != rec.name ||
		strings.HasPrefix(rec.name, "../") ||
		strings.ContainsAny(rec.name, "\\\x00") || !utf8.ValidString(rec.name) {
		return errors.New(": want names of the form folder/name")
	}
	if a.root = cmp.Or(a.root, root); root != a.root {
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
	if err := readFull(rec.r, b, rec.data); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	return b, nil
}

func (rec *record) verify() error {
	if rec.unchecked {
		return nil
	}
	h := crc32.NewIEEE()
	n, err := io.CopyBuffer(h, io.NewSectionReader(rec.r, rec.data, rec.size), make([]byte, 1<<18))
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

// readFull fills b from offset at on. It returns an error if the file ends before that.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
