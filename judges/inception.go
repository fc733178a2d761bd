package judges

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"unmask/metrics/inception"
	"unmask/model"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// LoadInception loads Inception-v3 from a PyTorch file, a safetensors file, or a directory with
// one of either.
func LoadInception(name string, o Options) (*inception.Model, error) {
	file := name
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if info.IsDir() {
		var found []string
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if weightsFile(e.Name()) {
				found = append(found, e.Name())
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%s has %d weight files, want one .pth or .safetensors", name, len(found))
		}
		file = name + "/" + found[0]
	}
	set, err := weightsOf(file)
	if err != nil {
		return nil, err
	}
	m, err := inception.Load(set, model.Options{Backend: o.Backend, Precision: o.Precision})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// maxInception bounds the weights of a file, in bytes; the published ones take 95 MB.
const maxInception = 1 << 30

// weightsOf reads a safetensors file, or a PyTorch file into memory.
func weightsOf(file string) (*weights.Set, error) {
	if strings.HasSuffix(file, ".safetensors") {
		return weights.Open(file)
	}
	c, err := pytorch.Open(file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var streams []weights.Stream
	total := 0
	for _, t := range c.Tensors() {
		total += t.Numel() * t.DType.Bits() / 8
		if total > maxInception {
			return nil, fmt.Errorf("%s: tensors of more than %d bytes: not an Inception-v3", file,
				maxInception)
		}
		streams = append(streams,
			weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape, Open: t.Open})
	}
	var data bytes.Buffer
	if err := weights.WriteStreams(&data, streams, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return weights.Parse(data.Bytes(), file)
}

func weightsFile(name string) bool {
	return slices.ContainsFunc([]string{".pth", ".pt", ".safetensors"},
		func(ext string) bool { return strings.HasSuffix(name, ext) })
}
