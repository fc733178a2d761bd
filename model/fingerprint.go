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
	sum, err := s.fingerprint()
	if err == nil && s.As != "" {
		both := sha256.Sum256([]byte(sum + " " + s.As))
		sum = hex.EncodeToString(both[:8])
	}
	return sum, err
}

func (s *Source) fingerprint() (string, error) {
	if s.gguf != "" {
		return s.fingerprintGGUF()
	}
	entries, err := fs.ReadDir(s.Files, ".")
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, atomicfile.Cause(err))
	}
	hash := sha256.New()
	for _, e := range entries { // in the order of their names
		if e.IsDir() || !slices.Contains([]string{".json", ".safetensors", ".pth", ".pt"},
			path.Ext(e.Name())) {
			continue
		}
		in, err := s.Files.Open(e.Name())
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.Name, err)
		}
		fmt.Fprintf(hash, "%s\n", e.Name())
		_, err = io.Copy(hash, in)
		in.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// fingerprintGGUF is Fingerprint for a GGUF file, which has configuration, weights and tokenizer.
func (s *Source) fingerprintGGUF() (string, error) {
	in, err := atomicfile.Open(s.gguf)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, atomicfile.Cause(err))
	}
	defer in.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, atomicfile.Cause(err))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
