package pytorch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"unmask/internal/atomicfile"
	"unmask/weights"
)

// Options of Convert.
type Options struct {
	// Heads and DecoderHeads are the numbers of attention heads if neither the tensors nor the
	// saved settings show them; 0 means that these do.
	Heads, DecoderHeads int
	// Grid is the number of codes along a side for an image tokenizer that does not show it; 0
	// means 16, or 32 for LlamaGen's tokenizer of 8x8 pixels per code.
	Grid int
	// Overwrite replaces an existing model in the folder.
	Overwrite bool
	// Say, if not nil, is called with a line that names NumPy arrays, which are left out.
	Say func(format string, args ...any)
}

// Limits on all tensors of a checkpoint together: views of one storage are each written in full,
// and expanded ones have more elements than the storage.
const (
	maxShared   = 8         // times the file's size
	maxExpanded = 256 << 20 // further bytes
)

// Convert writes the model in the PyTorch checkpoint src to dir as model.safetensors and
// config.json; element types are kept. Tensors are streamed, so memory does not grow with the
// model. Each file appears whole or not at all, config.json last.
//
// MAGE, SDTT or MDLM, Halton-MaskGIT and LlamaGen's tokenizer are recognised by their tensors,
// which also give the sizes. The state of an optimiser is left out.
func Convert(ctx context.Context, src, dir string, o Options) error {
	c, err := Open(src)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.convert(ctx, dir, o); err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	return nil
}

func (c *Checkpoint) convert(ctx context.Context, dir string, o Options) error {
	config, err := c.config(o)
	if err != nil && len(c.arrays) > 0 {
		return fmt.Errorf("%w; %s", err, notTensors(c.arrays))
	}
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		return err
	}
	var streams []weights.Stream
	if err := c.streams(ctx, func(s weights.Stream) { streams = append(streams, s) }); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	configName, modelName := filepath.Join(dir, "config.json"), filepath.Join(dir,
		"model.safetensors")
	for _, name := range []string{configName, modelName} {
		if _, err := os.Lstat(name); err == nil && !o.Overwrite {
			return fmt.Errorf("%s is there already, want a directory without a model", name)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(c.arrays) > 0 && o.Say != nil {
		o.Say("left out: %s", notTensors(c.arrays))
	}
	if err := weights.WriteFileStreams(modelName, streams,
		map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return atomicfile.WriteFile(configName, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// streams passes every tensor to be written to put, within the limits.
func (c *Checkpoint) streams(ctx context.Context, put func(weights.Stream)) error {
	var total int64
	for _, t := range c.tensors {
		if c.tied(t) {
			continue
		}
		total += int64(t.Numel()) * int64(t.storage.kind.size)
		if total < 0 || total > maxShared*c.size+maxExpanded {
			return fmt.Errorf("the tensors have more than %d times the file's %d bytes, and %d more",
				maxShared, c.size, maxExpanded)
		}
		put(weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape,
			Open: func() (io.ReadCloser, error) {
				r, err := t.Open()
				return cancelled{ctx, r}, err
			}})
	}
	return nil
}

// cancelled is a reader that ends when its context does.
type cancelled struct {
	ctx context.Context
	io.ReadCloser
}

func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.ReadCloser.Read(p)
}
