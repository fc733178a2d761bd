// Package pytorch reads PyTorch checkpoints, the files of torch.save, without Python.
//
// Since PyTorch 1.6 such a file is a zip of stored records: a pickle, data.pkl, and the bytes of
// every storage. Before, it was a sequence of pickles, then the bytes (legacy.go). The pickle is a
// program for a stack machine that may name any function and call it. This reader calls
// nothing: a name is either on a fixed list, and its result is built here, or it is the class of an
// [Object] that is kept as data. No allocation exceeds the file's content, and tensors are views
// that stay on disk until they are streamed.
package pytorch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"unmask/internal/atomicfile"
	"unmask/internal/sniff"
)

// Limits of a checkpoint. A pickle is a program, so they bound what it may build, not only what the
// file has.
const (
	MaxPickle  = 16 << 20 // bytes of the pickle
	MaxRecords = 200_000  // records of the zip
	MaxTensors = 100_000  // tensors of the state dict
	MaxRank    = 64       // dimensions of a tensor
	MaxValues  = 1 << 22  // values the pickle may build
	MaxDepth   = 256      // nested containers
	MaxGather  = 1 << 30  // bytes spanned by a view that is not contiguous
)

// Checkpoint is an open file. Its tensors are valid until Close.
type Checkpoint struct {
	file *os.File
	size int64 // of the file, in bytes

	// root is the saved object.
	root any

	tensors []*Tensor

	// average has the averaged weights, nil if there are none beside the tensors.
	average *average

	// arrays are the names of NumPy arrays among the tensors.
	arrays []string

	// hiddenPlaces hold tensors, but are neither dictionaries nor lists.
	hiddenPlaces []string
}

// Open reads the pickle of the checkpoint at path and checks every tensor's view against its
// record.
func Open(path string) (*Checkpoint, error) {
	f, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	var c *Checkpoint
	info, err := f.Stat()
	if err == nil {
		c, err = readCheckpoint(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.file = f
	return c, nil
}

// Close closes the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Tensors returns the tensors of the state dict in the file's order. Keys of nested dictionaries
// are joined with dots, and elements of lists and tuples have their numbers. The state dict is the
// entry "model", "state_dict" or "model_state_dict" if it has tensors, and otherwise the whole
// checkpoint. Averaged weights that the file has beside these are not among them.
func (c *Checkpoint) Tensors() []*Tensor { return c.tensors }

// AveragePlace returns where the file has averaged weights too, "" if it has none.
func (c *Checkpoint) AveragePlace() string {
	if c.average == nil {
		return ""
	}
	return c.average.place
}

// readCheckpoint parses a checkpoint of `size` bytes.
func readCheckpoint(r io.ReaderAt, size int64) (*Checkpoint, error) {
	isOld, err := isLegacy(r, size)
	if err != nil {
		return nil, err
	}
	parse := readArchive
	pickleName := "data.pkl"
	if isOld {
		parse = readLegacy
		pickleName = "pickle"
	}
	root, err := parse(r, size)
	if err != nil {
		return nil, err
	}
	d := dictOf(root)
	if d == nil {
		return nil, fmt.Errorf("%s: the checkpoint is %s, want a dictionary", pickleName,
			describeValue(root))
	}
	averaged, err := findAverage(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pickleName, err)
	}
	f, err := flatten(d, averaged)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pickleName, err)
	}
	if averaged == nil {
		averaged, f.tensors = splitAverage(f.tensors)
	}
	return &Checkpoint{
		size:         size,
		root:         root,
		tensors:      f.tensors,
		average:      averaged,
		arrays:       f.arrays,
		hiddenPlaces: f.hiddenPlaces,
	}, nil
}

// readArchive returns what the pickle of a zip describes.
func readArchive(r io.ReaderAt, size int64) (any, error) {
	a, err := openArchive(r, size)
	if err != nil {
		return nil, err
	}
	if a.records["constants.pkl"] != nil {
		return nil, errors.New("a TorchScript program, want the state dicts of torch.save")
	}
	if order := a.records["byteorder"]; order != nil {
		b, err := order.read(16)
		if err != nil {
			return nil, err
		}
		if string(bytes.TrimSpace(b)) != "little" {
			return nil, fmt.Errorf("byte order %q, want little", b)
		}
	}
	pickle := a.records["data.pkl"]
	if pickle == nil {
		return nil, fmt.Errorf("record %s/data.pkl is missing: not a PyTorch checkpoint", a.root)
	}
	program, err := pickle.read(MaxPickle)
	if err != nil {
		return nil, err
	}
	root, _, err := unpickle(program, a.findStorage)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pickle.name, err)
	}
	return root, nil
}

// legacyMagic is the beginning of files written by torch.save before 1.6: a pickle of the number
// 0x1950a86a20f9469cfc6c (torch/serialization.py, MAGIC_NUMBER).
var legacyMagic = []byte{0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19}

// skipFrame returns a pickle from its first opcode on; protocols 4 and 5 begin with a frame's
// length.
func skipFrame(pickle []byte) []byte {
	if pickle[0] == 0x95 && len(pickle) > 9 {
		return pickle[9:]
	}
	return pickle
}

// isLegacy reports whether a file has the format before zips. It returns an error that names any
// other format.
func isLegacy(r io.ReaderAt, size int64) (bool, error) {
	head := make([]byte, min(size, 512))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	const advice = "want a file of torch.save; load and save it again there"
	switch {
	case size == 0:
		return false, errors.New("the file is empty, want a PyTorch checkpoint")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return false, nil
	case len(head) > 262 && string(head[257:262]) == "ustar": // the magic of a tar header
		return false, errors.New("a legacy PyTorch tar file, " + advice)
	case len(head) > 14 && head[0] == 0x80 && bytes.HasPrefix(skipFrame(head[2:]), legacyMagic):
		return true, nil
	case head[0] == 0x80:
		return false, errors.New("a bare pickle file, " + advice)
	}
	if err := sniff.CheckPlaceholder(head); err != nil {
		return false, err
	}
	return false, fmt.Errorf("not a PyTorch checkpoint: it begins with %q", head[:min(8, len(head))])
}
