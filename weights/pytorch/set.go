package pytorch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"unmask/weights"
)

// OpenSet maps the checkpoint at path and returns its tensors as a set, and config.json as Convert
// derives it, nil for a checkpoint of no known network. So a published file can be read without
// converting it: contiguous tensors are parts of the mapped file. The CRC of every record is
// compared, which reads the file once.
//
// Of a file with averaged weights too these are taken, and notes say so.
func OpenSet(path string) (set *weights.Set, config []byte, notes []string, err error) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	set, err = weights.OpenWith(path, func(data []byte) ([]*weights.Tensor, map[string]string, error) {
		c, err := readCheckpoint(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, nil, err
		}
		used, err := c.selectWeights("", say)
		if err != nil {
			return nil, nil, err
		}
		if derived, err := c.deriveConfig(Options{}); err == nil {
			if config, err = json.Marshal(derived); err != nil {
				return nil, nil, err
			}
			config = recordWeights(config, used)
		}
		tensors, err := c.viewTensors(data)
		return tensors, nil, err
	})
	return set, config, notes, err
}

// viewTensors returns the tensors as parts of the file's bytes; those that are not contiguous are
// gathered.
func (c *Checkpoint) viewTensors(file []byte) ([]*weights.Tensor, error) {
	var list []*weights.Tensor
	var gathered int64 // bytes
	for _, t := range c.tensors {
		if c.isTiedCopy(t) {
			continue
		}
		view := &weights.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}
		r, err := t.Open() // compares the CRC too
		if err != nil {
			return nil, err
		}
		n := int64(t.Numel()) * int64(elementSize(t.DType))
		if n == 0 || t.isContiguous() {
			begin := t.storage.rec.offset + int64(t.offset)*int64(elementSize(t.DType))
			view.Data = file[begin:][:n]
		} else {
			gathered += n
			if gathered > maxShared*c.size+maxExpanded {
				return nil, errTooLarge(c.size)
			}
			if view.Data, err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
		list = append(list, view)
	}
	return list, nil
}
