package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Message returns an error's text for people. Where the error is about a file, "x: no such file"
// stands in place of Go's "open x: no such file or directory", and the name is there once. Commands
// print errors with it; errors themselves keep Go's form, so that errors.Is and errors.As find what
// they wrap.
func Message(err error) string {
	text := err.Error()
	var rewordChain func(error)
	rewordChain = func(err error) {
		switch e := err.(type) {
		case *fs.PathError:
			text = reword(text, e.Error(), e.Path, e.Err)
		case *os.LinkError:
			text = reword(text, e.Error(), e.New, e.Err)
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				rewordChain(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				rewordChain(inner)
			}
		}
	}
	rewordChain(err)
	if errors.Is(err, fs.ErrNotExist) {
		text = strings.ReplaceAll(text, syscall.ENOENT.Error(), noFile)
	}
	return text
}

const noFile = "no such file"

// reword replaces Go's words for a file's error in text by its name and cause. Where the name stood
// before the error already, it then stands there once.
func reword(text, old, name string, cause error) string {
	prefix := name + ": "
	text = strings.ReplaceAll(text, old, prefix+cause.Error())
	return strings.ReplaceAll(text, prefix+prefix, prefix)
}
