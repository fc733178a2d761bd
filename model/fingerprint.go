package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"unmask/internal/atomicfile"
)

// Fingerprint returns 16 hexadecimal digits of a hash of the configuration and weights, and of As
// where that decides how they are read; it does not depend on where the files are. It reads all of
// them.
func (s *Source) Fingerprint() (string, error) {
	hash := sha256.New()
	if err := s.writeAll(hash); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil)[:8])
	if s.As != "" {
		both := sha256.Sum256([]byte(sum + " " + s.As))
		sum = hex.EncodeToString(both[:8])
	}
	return sum, nil
}

// writeAll writes a GGUF file, which has configuration, weights and tokenizer, or the files of a
// directory.
func (s *Source) writeAll(to io.Writer) error {
	if s.gguf != "" {
		in, err := atomicfile.Open(s.gguf)
		if err == nil {
			defer in.Close()
			_, err = io.Copy(to, in)
		}
		return atomicfile.Cause(err)
	}
	entries, err := fs.ReadDir(s.Files, ".")
	if err != nil {
		return atomicfile.Cause(err)
	}
	for _, e := range entries { // in the order of their names
		if e.IsDir() || !slices.Contains([]string{".json", ".safetensors", ".pth", ".pt"},
			path.Ext(e.Name())) {
			continue
		}
		in, err := s.Files.Open(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%s\n", e.Name())
		_, err = io.Copy(to, in)
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
