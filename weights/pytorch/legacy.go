package pytorch

import (
	"errors"
	"fmt"
	"io"
)

// legacyReader reads the format of torch.save before PyTorch 1.6 (torch/serialization.py,
// _legacy_save): the pickles of a magic number, a protocol version, facts about the system, the
// saved object, and the list of its storages' keys; then each storage in this order, as its number
// of elements in 8 bytes and the elements.
type legacyReader struct {
	file     io.ReaderAt
	storages map[string]*storage // by key
}

// legacyProtocol is the only version that PyTorch has written.
const legacyProtocol = 1001

// readLegacy returns the saved object of a file of `size` bytes.
func readLegacy(r io.ReaderAt, size int64) (any, error) {
	head := make([]byte, min(size, MaxPickle))
	if err := readFull(r, head, 0); err != nil {
		return nil, err
	}
	f := &legacyReader{file: r, storages: map[string]*storage{}}
	const object = 3 // the only pickle with storages
	var values [5]any
	offset := 0
	for i, what := range []string{"magic number", "protocol version", "system", "object",
		"list of storages"} {
		resolveID := f.refuseID
		if i == object {
			resolveID = f.findStorage
		}
		v, n, err := unpickle(head[offset:], resolveID)
		if err != nil {
			return nil, fmt.Errorf("pickle of the %s, from byte %d on: %w", what, offset, err)
		}
		values[i] = v
		offset += n
	}

	if values[1] != any(int64(legacyProtocol)) {
		return nil, fmt.Errorf("protocol version %v, want %d", values[1], legacyProtocol)
	}
	if system := dictOf(values[2]); system != nil {
		if little, ok := system.get("little_endian"); ok && little != any(true) {
			return nil, errors.New("byte order is big, want little")
		}
	}
	return values[object], f.placeStorages(values[4], int64(offset), size)
}

// refuseID is the error of a persistent id where a file of torch.save has none.
func (f *legacyReader) refuseID(any) (any, error) {
	return nil, errors.New("a persistent id is there, want none outside the object")
}

// findStorage returns the storage of a persistent id ("storage", class, key, location, numel,
// view). All ids of one key share it; placeStorages finds its bytes, which come after the pickles.
func (f *legacyReader) findStorage(id any) (any, error) {
	class, key, numel, err := readStorageID(id, 6)
	if err != nil {
		return nil, err
	}
	if id.(*tuple).items[5] != nil {
		return nil, errors.New("a storage is a view of another: load and save it again in PyTorch")
	}
	if numel < 0 {
		return nil, fmt.Errorf("storage %q has no number of elements, want 0 and more", key)
	}
	dtype, ok := storageTypes[class]
	if !ok {
		return nil, fmt.Errorf("storage %q is a %q, want one of floats, integers or bools", key,
			class)
	}
	if s := f.storages[key]; s != nil {
		if s.dtype != dtype || s.numel != int(numel) {
			return nil, fmt.Errorf("storage %q is there with two types or sizes", key)
		}
		return s, nil
	}

	rec := &record{
		name:      key,
		file:      f.file,
		size:      numel * int64(elementSize(dtype)),
		unchecked: true, // the format has no checksums
		check:     func() error { return nil },
	}
	s := &storage{dtype: dtype, numel: int(numel), rec: rec}
	f.storages[key] = s
	return s, nil
}

// placeStorages finds the bytes of the storages, from byte offset to the end of the file. keys is
// the file's list of them, in the order of their bytes.
func (f *legacyReader) placeStorages(keys any, offset, size int64) error {
	l, ok := keys.(*list)
	if !ok {
		return fmt.Errorf("the storages are %s, want a list of keys", describeValue(keys))
	}
	if len(l.items) != len(f.storages) {
		return fmt.Errorf("there are %d storages, the object has %d", len(l.items), len(f.storages))
	}
	placed := map[string]bool{}
	for _, item := range l.items {
		key, _ := item.(string)
		s := f.storages[key]
		if s == nil || placed[key] {
			return fmt.Errorf("storage %.40q is not one of the object's, or is there twice", key)
		}
		placed[key] = true

		// Its number of elements comes before its bytes.
		var count [8]byte
		if err := readFull(f.file, count[:], offset); err != nil {
			return fmt.Errorf("storage %q at byte %d: the file is cut off: %w", key, offset, err)
		}
		if n := littleEndian.Uint64(count[:]); n != uint64(s.numel) {
			return fmt.Errorf("storage %q at byte %d has %d elements, want %d", key, offset, n, s.numel)
		}
		s.rec.offset = offset + 8
		offset = s.rec.offset + s.rec.size
		if offset > size {
			return fmt.Errorf("storage %q ends at byte %d, the file is cut off at %d", key, offset, size)
		}
	}
	if offset != size {
		return fmt.Errorf("the storages end at byte %d, the file at %d", offset, size)
	}
	return nil
}
