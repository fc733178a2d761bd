package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"unicode/utf8"

	"unmask"
	"unmask/generate"
)

// A trace is JSON lines: a header, then a line for each step of each sample. With the pieces of
// text in it, it is shown again without the model.
type (
	// traceHeader is the first line.
	traceHeader struct {
		Trace   int          `json:"trace"` // version
		Model   string       `json:"model"`
		Sampler string       `json:"sampler"`
		Seed    uint64       `json:"seed"`
		Shape   []int        `json:"shape"` // of the sequences, the length or rows and columns
		Hole    string       `json:"hole"`  // shows a masked position
		Known   []tracePiece `json:"known"` // before the first step
	}
	// traceStep is one step of one sample.
	traceStep struct {
		Sample int          `json:"sample"`
		Step   int          `json:"step"`
		Steps  int          `json:"steps"` // at most
		Opened []tracePiece `json:"opened"`
		Closed []int        `json:"closed,omitempty"` // positions masked again, after Opened
		Done   bool         `json:"done,omitempty"`
	}
	// tracePiece is an open position.
	tracePiece struct {
		Position int      `json:"position"`
		Token    int32    `json:"token"`
		Piece    string   `json:"piece,omitempty"` // nothing for a token of an image
		Bytes    []byte   `json:"bytes,omitempty"` // instead of Piece, where a token is part of a rune
		P        *float64 `json:"p,omitempty"`     // its probability when it opened, where the sampler tells
		Stage    int      `json:"stage,omitempty"` // of partial caching
	}
)

const traceVersion = 1

// traceHead is the header of a run.
func traceHead(name, sampler string, m *unmask.Model, o generate.Options) traceHeader {
	spec := m.Spec()
	h := traceHeader{Trace: traceVersion, Model: name, Sampler: sampler, Seed: o.Seed, Shape: spec.Shape, Hole: unmask.Hole, Known: []tracePiece{}}
	if o.Length != spec.Length() {
		h.Shape = []int{o.Length}
	}
	for p, t := range o.Tokens {
		if t != spec.Mask {
			h.Known = append(h.Known, newTracePiece(m.Text, p, t))
		}
	}
	return h
}

// newTracePiece gives a token its text; t is nil for images.
func newTracePiece(t *unmask.Text, position int, token int32) tracePiece {
	piece := tracePiece{Position: position, Token: token}
	if t != nil {
		if text, ok := t.Token(token); ok && utf8.ValidString(text) {
			piece.Piece = text
		} else {
			piece.Bytes = []byte(text)
		}
	}
	return piece
}

// traceWriter writes to a new file, which appears when it is closed. A nil one does nothing.
type traceWriter struct {
	file *os.File
	path string
	w    *bufio.Writer
	line *json.Encoder
	done map[int]bool // samples of the batch that are finished
}

func openTrace(path string, h traceHeader) (*traceWriter, error) {
	if err := checkFile("--trace", path); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	t := &traceWriter{file: file, path: path, w: bufio.NewWriter(file), done: map[int]bool{}}
	t.line = json.NewEncoder(t.w)
	t.line.SetEscapeHTML(false)
	return t, t.line.Encode(h)
}

// write adds what a step did.
func (t *traceWriter) write(tokenizer *unmask.Text, step *generate.Step) error {
	if t == nil {
		return nil
	}
	for i := range step.Sequences {
		s := &step.Sequences[i]
		if t.done[s.Index] {
			continue
		}
		t.done[s.Index] = s.Done
		l := traceStep{Sample: s.Index, Step: step.N, Steps: step.Steps, Opened: []tracePiece{}, Closed: s.Closed, Done: s.Done}
		for _, o := range s.Opened {
			piece := newTracePiece(tokenizer, o.Position, o.Token)
			if p := math.Exp(o.LogP); !math.IsNaN(p) {
				piece.P = &p
			}
			piece.Stage = o.Stage
			l.Opened = append(l.Opened, piece)
		}
		if err := t.line.Encode(l); err != nil {
			return fmt.Errorf("--trace %s: %w", t.path, pathless(err))
		}
	}
	if step.Done {
		clear(t.done)
	}
	return nil
}

// close makes the file appear under its name, with the steps that were finished.
func (t *traceWriter) close() error {
	if t == nil {
		return nil
	}
	err := errors.Join(t.w.Flush(), t.file.Chmod(0o644), t.file.Sync(), t.file.Close())
	if err == nil {
		err = os.Rename(t.file.Name(), t.path)
	}
	if err != nil {
		os.Remove(t.file.Name())
		return fmt.Errorf("--trace %s: %w", t.path, pathless(err))
	}
	return nil
}
