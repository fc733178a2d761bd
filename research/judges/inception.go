package judges

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/model"
	"unmask/research/metrics/inception"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// LoadInception loads Inception-v3 from a PyTorch file, a safetensors file, or a directory with
// one of either.
func LoadInception(name string, o Options) (*inception.Model, error) {
	m, _, err := openInception(name, o)
	return m, err
}

// openInception is LoadInception, and returns the tensors of the file too.
func openInception(name string, o Options) (*inception.Model, *weights.Set, error) {
	file, err := inceptionFile(name)
	if err != nil {
		return nil, nil, err
	}
	set, err := openWeights(file)
	if err != nil {
		return nil, nil, err
	}
	m, err := inception.Load(set, model.Options{Backend: o.Backend, Precision: o.Precision})
	if err != nil {
		set.Close()
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, set, nil
}

// inceptionFile returns the file of weights that name is, or that is in the directory name.
func inceptionFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return name, err
	}
	var candidates []string
	entries, err := os.ReadDir(name)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if slices.Contains([]string{".pth", ".pt", ".safetensors"}, filepath.Ext(e.Name())) {
			candidates = append(candidates, e.Name())
		}
	}
	if len(candidates) != 1 {
		return "", fmt.Errorf("%s has %d weight files, want one .pth or .safetensors", name,
			len(candidates))
	}
	return filepath.Join(name, candidates[0]), nil
}

// maxInception is the largest file of weights in bytes; the published ones have 95 MB.
const maxInception = 1 << 30

// openWeights opens a safetensors file, or reads a PyTorch file into memory.
func openWeights(file string) (*weights.Set, error) {
	if strings.HasSuffix(file, ".safetensors") {
		return weights.Open(file)
	}
	c, err := pytorch.Open(file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if place := c.AveragePlace(); place != "" {
		return nil, fmt.Errorf("%s has averaged weights in %.100s beside others, want one set", file,
			place)
	}
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
