// Package gguf reads and writes GGUF files, the format of llama.cpp: typed keys, and tensors whose
// rows may be blocks of small integers with scales.
//
// The layout is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: the magic
// "GGUF", a version, the numbers of tensors and keys, the keys, the tensors' names, dimensions
// (fastest first), types and offsets, and, from the next multiple of the alignment on, the tensors'
// bytes. Numbers are little-endian. Versions 2 and 3 are read alike.
//
// Files are not trusted: every count is compared with the remaining bytes before anything is
// allocated, products are checked for overflow, and tensors must lie within the file without
// overlap.
package gguf

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"unmask/weights"
)

// Limits of a file. They bound what a hostile file can make a reader allocate, well above what
// published files have.
const (
	MaxHeader      = 256 << 20 // bytes before the tensors' data; vocabularies have up to 20 MB
	MaxTensors     = 100_000
	MaxKeys        = 100_000
	MaxName        = 1024     // bytes of a key or of a tensor's name
	MaxItems       = 1 << 20  // elements of an array of tokens or numbers
	MaxItemBytes   = 64 << 20 // bytes of such an array
	MaxAddedTokens = 4096     // special and other added tokens
	MaxTemplate    = 16 << 20 // bytes of a chat template

	maxDims      = 4 // as ggml
	minAlignment = 8
	maxAlignment = 65536
	alignmentKey = "general.alignment"
	alignment    = 32 // if the key is missing
)

// File is the keys and tensors of a GGUF file.
type File struct {
	Name    string // of the file, for messages
	Version uint32

	// Set has the tensors under the file's names, see Model for the authors' names.
	Set *weights.Set

	// Parts are the files that it was read from, more than one where it is split.
	Parts []string

	values map[string]value // by the keys' names
}

// Open maps the file at name. Close its Set when it is no longer needed. An error names the file
// and what its header has that the format does not allow.
func Open(name string) (*File, error) {
	f := &File{Name: name}
	set, err := weights.OpenWith(name, f.parse)
	if err != nil {
		return nil, f.addName(err)
	}
	f.Set = set
	f.Parts = []string{name}
	if err := f.addParts(); err != nil {
		f.Set.Close()
		return nil, f.addName(err)
	}
	return f, nil
}

// Parse reads a file in memory, which the result keeps. name is used in errors.
func Parse(data []byte, name string) (*File, error) {
	f := &File{Name: name}
	tensors, metadata, err := f.parse(data)
	if err == nil {
		f.Set, err = weights.NewSet(tensors, metadata)
	}
	if err != nil {
		return nil, f.addName(err)
	}
	return f, nil
}

// addName adds the file's name to an error, unless it has it.
func (f *File) addName(err error) error {
	if strings.Contains(err.Error(), f.Name) {
		return err
	}
	return fmt.Errorf("%s: %w", f.Name, err)
}

// IsFileName reports whether a model's name ends like that of a GGUF file.
func IsFileName(name string) bool { return strings.EqualFold(filepath.Ext(name), ".gguf") }

// Keys returns the names of all keys, sorted.
func (f *File) Keys() []string { return slices.Sorted(maps.Keys(f.values)) }
