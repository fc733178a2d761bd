// Package pytorch reads PyTorch checkpoints, the zip files written by torch.save since PyTorch 1.6,
// without Python.
//
// Such a file is a zip of stored records: a pickle, data.pkl, and the bytes of every storage. The
// pickle is a program for a stack machine that may name any function and call it. This reader calls
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
)

// Limits of a checkpoint.
const (
	MaxPickle  = 16 << 20 // bytes of data.pkl
	MaxRecords = 200_000  // records of the zip
	MaxTensors = 100_000  // tensors of the state dict
	MaxRank    = 64       // dimensions of a tensor
	MaxValues  = 1 << 22  // values the pickle may build
	MaxDepth   = 256      // nested containers
	MaxGather  = 1 << 30  // bytes spanned by a view that is not contiguous
)

// Checkpoint is an open file. Its tensors are valid until Close.
type Checkpoint struct {
	file    *os.File
	root    any
	tensors []*Tensor
	arrays  []string // names of NumPy arrays among the tensors
	size    int64
}

// Open reads the pickle of the checkpoint at path and checks every tensor's view against its
// record.
func Open(path string) (*Checkpoint, error) {
	f, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var c *Checkpoint
	if err == nil {
		c, err = read(f, info.Size())
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
// are joined with dots. The state dict is the entry "model", "state_dict" or "model_state_dict" if
// it has tensors, and otherwise the whole checkpoint.
func (c *Checkpoint) Tensors() []*Tensor { return c.tensors }

// read parses a checkpoint of `size` bytes.
func read(r io.ReaderAt, size int64) (*Checkpoint, error) {
	if err := recognise(r, size); err != nil {
		return nil, err
	}
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
	root, err := unpickle(program, a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pickle.name, err)
	}
	if err := checkNesting(root); err != nil {
		return nil, fmt.Errorf("%s: %w", pickle.name, err)
	}
	tensors, arrays, err := flatten(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pickle.name, err)
	}
	return &Checkpoint{root: root, tensors: tensors, arrays: arrays, size: size}, nil
}

// legacyMagic is the beginning of files written by torch.save before 1.6: a pickle of the number
// 0x1950a86a20f9469cfc6c (torch/serialization.py, MAGIC_NUMBER).
var legacyMagic = []byte{0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19}

// recognise returns an error that names the format of a file that is not a zip.
func recognise(r io.ReaderAt, size int64) error {
	head := make([]byte, min(size, 512))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	const advice = "want the zip format of torch.save since PyTorch 1.6; load and save it again there"
	switch {
	case size == 0:
		return errors.New("the file is empty, want a PyTorch zip checkpoint")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return nil
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return errors.New("a legacy PyTorch tar file, " + advice)
	case len(head) > 14 && head[0] == 0x80 && bytes.Equal(head[2:14], legacyMagic):
		return errors.New("a legacy PyTorch pickle file, " + advice)
	case head[0] == 0x80:
		return errors.New("a bare pickle file, " + advice)
	}
	return fmt.Errorf("not a PyTorch zip checkpoint: it begins with %q", head[:min(8, len(head))])
}
