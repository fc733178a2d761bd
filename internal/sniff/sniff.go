// Package sniff recognises what stands in a file's place when a download went wrong.
package sniff

import (
	"bytes"
	"errors"
	"fmt"

	"unmask/internal/textfile"
)

// CheckPlaceholder returns an error that says what a file is if it begins as one that stands for
// another: a Git LFS pointer (https://github.com/git-lfs/git-lfs, docs/spec.md), an HTML page or a
// server's error in JSON. It returns nil for any other file.
func CheckPlaceholder(head []byte) error {
	head = head[:min(len(head), 512)]
	text := bytes.TrimLeft(textfile.TrimMark(head), " \t\r\n")
	lower := bytes.ToLower(text)
	switch {
	case bytes.HasPrefix(text, []byte("version https://git-lfs")):
		size := "another file"
		if _, after, ok := bytes.Cut(text, []byte("\nsize ")); ok {
			n, _, _ := bytes.Cut(after, []byte("\n"))
			size = fmt.Sprintf("a file of %.20s bytes", bytes.TrimSpace(n))
		}
		return fmt.Errorf("a Git LFS pointer to %s, want that file (git lfs pull)", size)
	case bytes.HasPrefix(lower, []byte("<!doctype")), bytes.HasPrefix(lower, []byte("<html")),
		bytes.HasPrefix(lower, []byte("<?xml")):
		return errors.New("a web page, want the file that was to be downloaded")
	case bytes.HasPrefix(text, []byte(`{"error"`)):
		return fmt.Errorf("a server's error, want the file that was to be downloaded: %.100s", text)
	}
	return nil
}
