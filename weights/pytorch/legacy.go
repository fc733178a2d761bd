package pytorch

import (
	"errors"
	"fmt"
	"io"
)

// legacy reads the format of torch.save before PyTorch 1.6 (torch/serialization.py, _legacy_save):
// the pickles of a magic number, a protocol version, facts about the system, the saved object, and
// the list of its storages' keys; then each storage in this order, as its number of elements in 8
// bytes and the elements.
type legacy struct {
	r        io.ReaderAt
	storages map[string]*storage
}

// legacyProtocol is the only version that PyTorch has written.
const legacyProtocol = 1001

// readLegacy returns the saved object of a file of `size` bytes.
func readLegacy(r io.ReaderAt, size int64) (any, error) {
	head := make([]byte, min(size, MaxPickle))
	if err := readFull(r, head, 0); err != nil {
		return nil, err
	}
	f := &legacy{r: r, storages: map[string]*storage{}}
	var values [5]any
	at := 0
	for i, what := range []string{"magic number", "protocol version", "system", "object",
		"list of storages"} {
		find := f.none
		if i == 3 {
			find = f.storage
		}
		v, n, err := unpickle(head[at:], find)
		if err != nil {
			return nil, fmt.Errorf("pickle of the %s, from byte %d on: %w", what, at, err)
		}
		values[i], at = v, at+n
	}
	if values[1] != any(int64(legacyProtocol)) {
		return nil, fmt.Errorf("protocol version %v, want %d", values[1], legacyProtocol)
	}
	if system := entries(values[2]); system != nil {
		if little, ok := system.get("little_endian"); ok && little != any(true) {
			return nil, errors.New("byte order is big, want little")
		}
	}
	return values[3], f.place(values[4], int64(at), size)
}

func (f *legacy) none(any) (any, error) {
	return nil, errors.New("a persistent id is there, want none outside the object")
}

// storage returns the storage of a persistent id ("storage", class, key, location, numel, view).
// All ids of one key share it; place finds its bytes.
func (f *legacy) storage(id any) (any, error) {
	class, key, numel, err := readID(id, 6)
	switch {
	case err != nil:
		return nil, err
	case id.(*tuple).items[5] != nil:
		return nil, errors.New("a storage is a view of another: load and save it again in PyTorch")
	case numel < 0:
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
	s := &storage{dtype: dtype, numel: int(numel), rec: &record{name: key, r: f.r, unchecked: true,
		size: numel * int64(width(dtype)), check: func() error { return nil }}}
	f.storages[key] = s
	return s, nil
}

// place finds the bytes of the storages, from byte `at` to the end of the file.
func (f *legacy) place(keys any, at, size int64) error {
	l, ok := keys.(*list)
	if !ok {
		return fmt.Errorf("the storages are %s, want a list of keys", kindOf(keys))
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
		var count [8]byte
		if err := readFull(f.r, count[:], at); err != nil {
			return fmt.Errorf("storage %q at byte %d: the file is cut off: %w", key, at, err)
		}
		if n := le.Uint64(count[:]); n != uint64(s.numel) {
			return fmt.Errorf("storage %q at byte %d has %d elements, want %d", key, at, n, s.numel)
		}
		s.rec.data = at + 8
		if at = s.rec.data + s.rec.size; at > size {
			return fmt.Errorf("storage %q ends at byte %d, the file is cut off at %d", key, at, size)
		}
	}
	if at != size {
		return fmt.Errorf("the storages end at byte %d, the file at %d", at, size)
	}
	return nil
}
