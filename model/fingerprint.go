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
	"unmask/tokenizers"
)

// Fingerprint returns 16 hexadecimal digits of a hash of the configuration, weights, tokenizer and
// chat template, of subfolders too, and of KindOverride, which decides how they are read. It does
// not depend on where the files are. It reads all of them.
func (s *Source) Fingerprint() (string, error) {
	hash := sha256.New()
	if err := s.writeAll(hash); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil)[:8])
	if s.KindOverride != "" {
		sumWithKind := sha256.Sum256([]byte(sum + " " + s.KindOverride))
		sum = hex.EncodeToString(sumWithKind[:8])
	}
	return sum, nil
}

// writeAll writes a GGUF file, which has configuration, weights and tokenizer, or the files of a
// directory, in the order of their names.
func (s *Source) writeAll(out io.Writer) error {
	for _, name := range s.gguf {
		in, err := atomicfile.Open(name)
		if err == nil {
			defer in.Close()
			_, err = io.Copy(out, in)
		}
		if err != nil {
			return atomicfile.WithoutPath(err)
		}
	}
	if s.gguf != nil {
		return nil
	}
	return fs.WalkDir(s.Files, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return atomicfile.WithoutPath(err)
		case e.IsDir() && len(name) > 1 && e.Name()[0] == '.': // a longer name than that of the root
			return fs.SkipDir
		case e.IsDir() || !slices.Contains(decisive, path.Ext(name)) &&
			!slices.Contains(tokenizers.Files, e.Name()):
			return nil
		}
		in, err := s.Files.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		fmt.Fprintf(out, "%s\n", name) // two files that swap their contents are another model
		_, err = io.Copy(out, in)
		return err
	})
}

// decisive are the endings of files that outputs depend on, beside the tokenizer's.
var decisive = []string{".json", ".safetensors", ".pth", ".pt", ".ckpt", ".jinja"}
