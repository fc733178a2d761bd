package pytorch

import (
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

// archive is a zip file as written by torch.save: stored records, all in one folder. It is read
// more strictly than by archive/zip, which does not compare local headers with the central
// directory: two readers must not see two different files.
type archive struct {
	root    string
	records map[string]*record // by the name within root
}

// record describes one stored file.
type record struct {
	name         string // full name
	r            io.ReaderAt
	header, data int64 // offsets of its local header and its bytes
	size         int64
	crc          uint32
	unchecked    bool // the file has no CRCs

	check func() error // compares the CRC, once
}

// Signatures and fixed sizes of the zip structures (PKWARE APPNOTE 6.3.10, section 4.3).
const (
	sigLocal, sizeLocal       = 0x04034b50, 30
	sigCentral, sizeCentral   = 0x02014b50, 46
	sigEnd, sizeEnd           = 0x06054b50, 22
	sigLocator64, sizeLocator = 0x07064b50, 20
	sigEnd64, sizeEnd64       = 0x06064b50, 56
	flagDescriptor, flagUTF8  = 1 << 3, 1 << 11
	extra64                   = 0x0001
)

var le = binary.LittleEndian

// openArchive reads and checks the central directory of a zip of size bytes.
func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	count, offset, length, err := findDirectory(r, size)
	if err != nil {
		return nil, err
	}
	directory := make([]byte, length) // no more than the file's own size
	if err := readFull(r, directory, offset); err != nil {
		return nil, fmt.Errorf("zip directory: %w", err)
	}
	a := &archive{records: make(map[string]*record, count)}
	list := make([]*record, 0, count)
	for i := range count {
		rec, n, err := parseCentral(r, directory)
		if err != nil {
			return nil, fmt.Errorf("zip directory entry %d: %w", i, err)
		}
		directory = directory[n:]
		if err := rec.locate(offset); err != nil {
			return nil, fmt.Errorf("zip record %q: %w", rec.name, err)
		}
		if err := a.add(rec); err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	if len(directory) != 0 {
		return nil, fmt.Errorf("zip directory has %d bytes after its %d entries", len(directory),
			count)
	}
	// torch.serialization.set_crc32_options(False) writes no CRCs: all are 0.
	if !slices.ContainsFunc(list, func(r *record) bool { return r.crc != 0 }) {
		for _, rec := range list {
			rec.unchecked = true
		}
	}
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.header, b.header) })
	for i := 1; i < len(list); i++ {
		if p := list[i-1]; p.data+p.size > list[i].header {
			return nil, fmt.Errorf("zip records %q and %q overlap", p.name, list[i].name)
		}
	}
	return a, nil
}

// add records a file by its name within the archive's one folder.
func (a *archive) add(rec *record) error {
	root, name, ok := strings.Cut(rec.name, "/")
	if !ok || root == "" || name == "" || path.Clean(rec.name) != rec.name ||
		strings.HasPrefix(rec.name, "../") ||
		strings.ContainsAny(rec.name, "\\\x00") || !utf8.ValidString(rec.name) {
		return fmt.Errorf("zip record %q: want names of the form folder/name", rec.name)
	}
	if a.root == "" {
		a.root = root
	}
	if root != a.root {
		return fmt.Errorf("zip record %q is outside the folder %q of the others", rec.name, a.root)
	}
	if a.records[name] != nil {
		return fmt.Errorf("zip record %q is there twice", rec.name)
	}
	a.records[name] = rec
	return nil
}

// findDirectory returns entries, offset and length of the central directory, which must
// end where the end record begins, and the end record where the file ends.
func findDirectory(r io.ReaderAt, size int64) (count int, offset, length int64, err error) {
	if size < sizeEnd {
		return 0, 0, 0, fmt.Errorf("zip of %d bytes is truncated", size)
	}
	end := make([]byte, sizeEnd)
	if err := readFull(r, end, size-sizeEnd); err != nil {
		return 0, 0, 0, err
	}
	if le.Uint32(end) != sigEnd || le.Uint16(end[20:]) != 0 {
		return 0, 0, 0, errors.New("zip is truncated: its last 22 bytes are no end record")
	}
	if le.Uint16(end[4:]) != 0 || le.Uint16(end[6:]) != 0 ||
		le.Uint16(end[8:]) != le.Uint16(end[10:]) {
		return 0, 0, 0, errors.New("zip of several disks, want one")
	}
	n, length64, offset64 := uint64(le.Uint16(end[10:])), uint64(le.Uint32(end[12:])),
		uint64(le.Uint32(end[16:]))
	stop := size - sizeEnd
	at64, ok, err := findEnd64(r, stop)
	if err != nil {
		return 0, 0, 0, err
	}
	if ok {
		end64 := make([]byte, sizeEnd64)
		if err := readFull(r, end64, at64); err != nil {
			return 0, 0, 0, err
		}
		if le.Uint32(end64) != sigEnd64 || le.Uint64(end64[4:]) != sizeEnd64-12 ||
			le.Uint64(end64[24:]) != le.Uint64(end64[32:]) {
			return 0, 0, 0, errors.New("zip64 end record is malformed")
		}
		n64, l64, o64 := le.Uint64(end64[32:]), le.Uint64(end64[40:]), le.Uint64(end64[48:])
		if n != min(n64, math.MaxUint16) || length64 != min(l64, math.MaxUint32) ||
			offset64 != min(o64, math.MaxUint32) {
			return 0, 0, 0, errors.New("zip and zip64 end records disagree")
		}
		n, length64, offset64, stop = n64, l64, o64, at64
	}
	switch {
	case n > MaxRecords:
		return 0, 0, 0, fmt.Errorf("zip has %d records, want %d", n, MaxRecords)
	case offset64 > uint64(stop) || length64 != uint64(stop)-offset64:
		return 0, 0, 0, fmt.Errorf("zip directory at %d of %d bytes does not end at its end "+
			"record, %d", offset64, length64, stop)
	case n*sizeCentral > length64:
		return 0, 0, 0, fmt.Errorf("zip directory of %d bytes does not hold %d entries", length64,
			n)
	}
	return int(n), int64(offset64), int64(length64), nil
}

// findEnd64 looks for a zip64 locator that ends at stop and returns where the zip64 end
// record is, directly before the locator.
func findEnd64(r io.ReaderAt, stop int64) (at int64, ok bool, err error) {
	at = stop - sizeLocator - sizeEnd64
	if at < 0 {
		return 0, false, nil
	}
	locator := make([]byte, sizeLocator)
	if err := readFull(r, locator, stop-sizeLocator); err != nil {
		return 0, false, err
	}
	if le.Uint32(locator) != sigLocator64 {
		return 0, false, nil
	}
	if got := le.Uint64(locator[8:]); got != uint64(at) {
		return 0, false, fmt.Errorf("zip64 end record at %d, the locator says %d", at, got)
	}
	return at, true, nil
}

// parseCentral reads one entry of the central directory and returns its length.
func parseCentral(r io.ReaderAt, b []byte) (*record, int, error) {
	if len(b) < sizeCentral || le.Uint32(b) != sigCentral {
		return nil, 0, errors.New("malformed")
	}
	names, extras, comment := int(le.Uint16(b[28:])), int(le.Uint16(b[30:])), int(le.Uint16(b[32:]))
	n := sizeCentral + names + extras + comment
	if n > len(b) {
		return nil, 0, errors.New("beyond the directory")
	}
	name := string(b[sizeCentral : sizeCentral+names])
	if err := checkFlags(le.Uint16(b[8:]), le.Uint16(b[10:])); err != nil {
		return nil, 0, fmt.Errorf("record %q: %w", name, err)
	}
	packed, size, header := uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[24:])),
		uint64(le.Uint32(b[42:]))
	if err := widen(b[sizeCentral+names:sizeCentral+names+extras], &size, &packed,
		&header); err != nil {
		return nil, 0, fmt.Errorf("record %q: %w", name, err)
	}
	if packed != size {
		return nil, 0, fmt.Errorf("record %q: stored %d bytes are said to be %d", name, packed,
			size)
	}
	if size > math.MaxInt64/4 || header > math.MaxInt64/4 {
		return nil, 0, fmt.Errorf("record %q: %d bytes at %d are beyond the file", name, size,
			header)
	}
	rec := &record{name: name, r: r, header: int64(header), size: int64(size),
		crc: le.Uint32(b[16:])}
	rec.check = sync.OnceValue(rec.verify)
	return rec, n, nil
}

// checkFlags refuses encryption, patches and compression.
func checkFlags(flags, method uint16) error {
	if flags&(1|1<<6|1<<13) != 0 {
		return fmt.Errorf("flags 0x%x: it is encrypted", flags)
	}
	if bad := flags &^ (flagDescriptor | flagUTF8); bad != 0 {
		return fmt.Errorf("flags 0x%x, want 0x8 and 0x800", flags)
	}
	if method != 0 {
		return fmt.Errorf("compression method %d, want 0: torch.save stores records as they are",
			method)
	}
	return nil
}

// widen replaces saturated fields with those of the zip64 extra field, which has exactly these, in
// this order.
func widen(extra []byte, fields ...*uint64) error {
	var wide []byte
	for len(extra) > 0 {
		if len(extra) < 4 || int(le.Uint16(extra[2:])) > len(extra)-4 {
			return errors.New("extra field is malformed")
		}
		n := 4 + int(le.Uint16(extra[2:]))
		if le.Uint16(extra) == extra64 {
			if wide != nil {
				return errors.New("zip64 field is there twice")
			}
			wide = extra[4:n]
		}
		extra = extra[n:]
	}
	for _, f := range fields {
		if *f != math.MaxUint32 {
			continue
		}
		if len(wide) < 8 {
			return errors.New("zip64 field is missing")
		}
		*f, wide = le.Uint64(wide), wide[8:]
	}
	return nil
}

// locate finds the record's bytes behind its local header, which must agree with the central
// directory, before the directory at stop.
func (rec *record) locate(stop int64) error {
	if rec.header > stop-sizeLocal {
		return fmt.Errorf("local header at %d is beyond the records, which end at %d", rec.header,
			stop)
	}
	b := make([]byte, sizeLocal)
	if err := readFull(rec.r, b, rec.header); err != nil {
		return err
	}
	if le.Uint32(b) != sigLocal {
		return fmt.Errorf("no local header at %d", rec.header)
	}
	names, extras := int(le.Uint16(b[26:])), int(le.Uint16(b[28:]))
	rest := make([]byte, names+extras) // at most 128 KiB
	if rec.data = rec.header + sizeLocal + int64(len(rest)); rec.data > stop ||
		rec.size > stop-rec.data {
		return fmt.Errorf("%d bytes at %d are beyond the records, which end at %d", rec.size,
			rec.data, stop)
	}
	if err := readFull(rec.r, rest, rec.header+sizeLocal); err != nil {
		return err
	}
	if got := string(rest[:names]); got != rec.name {
		return fmt.Errorf("local header is of %q", got)
	}
	flags := le.Uint16(b[6:])
	if err := checkFlags(flags, le.Uint16(b[8:])); err != nil {
		return fmt.Errorf("local header: %w", err)
	}
	packed, size := uint64(le.Uint32(b[18:])), uint64(le.Uint32(b[22:]))
	if err := widen(rest[names:], &size, &packed); err != nil {
		return fmt.Errorf("local header: %w", err)
	}
	if flags&flagDescriptor != 0 && size == 0 && packed == 0 {
		return nil // sizes and CRC follow the bytes; the directory has them
	}
	if packed != uint64(rec.size) || size != uint64(rec.size) || le.Uint32(b[14:]) != rec.crc {
		return errors.New("local header and directory disagree on size or CRC")
	}
	return nil
}

// read returns the bytes of a record of at most limit bytes, after checking their CRC.
func (rec *record) read(limit int64) ([]byte, error) {
	if rec.size > limit {
		return nil, fmt.Errorf("record %q has %d bytes, want %d", rec.name, rec.size, limit)
	}
	b := make([]byte, rec.size)
	if err := readFull(rec.r, b, rec.data); err != nil {
		return nil, fmt.Errorf("record %q: %w", rec.name, err)
	}
	if !rec.unchecked && crc32.ChecksumIEEE(b) != rec.crc {
		return nil, rec.wrong()
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
		return rec.wrong()
	}
	return nil
}

func (rec *record) wrong() error {
	return fmt.Errorf("record %q is damaged: its CRC is not %08x", rec.name, rec.crc)
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
