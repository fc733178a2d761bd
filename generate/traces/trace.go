// Package traces writes a trace of a run, which tells what opened at each step.
//
// A trace is JSON lines: a header, then a line for each step of each sample. It includes the pieces
// of text.
package traces

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/model"
	"unmask/tokenizers"
)

// Header is the first line of a trace.
type Header struct {
	Version int    `json:"trace"`
	Model   string `json:"model"`
	Sampler string `json:"sampler"`
	Seed    uint64 `json:"seed"`

	// Shape is [length], or [rows, columns].
	Shape []int `json:"shape"`

	// Hole shows a masked position.
	Hole string `json:"hole"`

	// Known are the positions known before the first step.
	Known []Piece `json:"known"`

	// Around is the number of those that are around every text of the model, and do not count in its
	// length.
	Around int    `json:"around,omitempty"`
	Recipe string `json:"recipe,omitempty"`
}

// Step is one step of one sample, a line.
type Step struct {
	Sample int `json:"sample"`
	Step   int `json:"step"`

	// Steps is the most that it can take.
	Steps int `json:"steps"`

	Opened []Piece `json:"opened"`

	// Closed are positions that were masked again, after Opened.
	Closed []int `json:"closed,omitempty"`

	// Resized are positions that became masks or were removed, before Opened, whose positions are the
	// new ones.
	Resized []generate.Resize `json:"resized,omitempty"`
	Done    bool              `json:"done,omitempty"`
}

// Apply returns the tokens of a sequence after the step, given those before it. It may change them.
func (s *Step) Apply(tokens []int32, mask int32) []int32 {
	tokens = generate.ApplyResizes(tokens, s.Resized, mask)
	for _, o := range s.Opened {
		tokens[o.Position] = o.Token
	}
	for _, p := range s.Closed {
		tokens[p] = mask
	}
	return tokens
}

// Piece is an open position.
type Piece struct {
	Position int   `json:"position"`
	Token    int32 `json:"token"`

	// Piece is the token's text, "" for a token of an image.
	Piece string `json:"piece,omitempty"`

	// Bytes are in place of Piece if the token is part of a rune; empty if it is not shown.
	Bytes []byte `json:"bytes,omitzero"`

	// P is its probability when it opened, if the sampler reports it.
	P *float64 `json:"p,omitempty"`

	// Stage is the stage of partial caching.
	Stage int `json:"stage,omitempty"`
}

// version is that of the format.
const version = 1

// NewHeader returns the header of a trace of samples of r, which its Check has completed. name is
// the model's; hole stands for a masked position; t is nil if tokens are not text.
func NewHeader(s model.Spec, r generate.Request, t tokenizers.Tokenizer, name, hole string) Header {
	h := Header{
		Version: version,
		Model:   name,
		Sampler: r.Get("sampler"),
		Seed:    r.Seed,
		Shape:   s.Shape,
		Hole:    hole,
		Known:   []Piece{},
		Around:  s.SpecialCount(),
		Recipe:  r.String(),
	}
	if r.Length != s.Length() {
		h.Shape = []int{r.Length}
	}
	n := len(s.BeforeText)
	if len(r.Known) >= n && !slices.Equal(r.Known[:n], s.BeforeText) {
		h.Around = 0 // of messages, around which a chat template alone puts tokens
	}
	for position, token := range r.Known {
		if token != s.Mask {
			h.Known = append(h.Known, newPiece(t, position, token))
		}
	}
	return h
}

// newPiece returns a position with its token's text.
func newPiece(t tokenizers.Tokenizer, position int, token int32) Piece {
	piece := Piece{Position: position, Token: token}
	if t == nil {
		return piece
	}
	text, ok := t.Token(token)
	if ok && text != "" && utf8.ValidString(text) {
		piece.Piece = text
	} else {
		piece.Bytes = []byte(text)
	}
	return piece
}

// Writer writes the trace of a run to a file, which appears when the Writer is closed. One
// goroutine at a time may use one.
type Writer struct {
	file      *atomicfile.File
	line      *json.Encoder
	tokenizer tokenizers.Tokenizer
}

// Create begins a trace in file name; t is as for NewHeader.
func Create(name string, h Header, t tokenizers.Tokenizer) (*Writer, error) {
	file, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, line: json.NewEncoder(file), tokenizer: t}
	w.line.SetEscapeHTML(false)
	if err := w.line.Encode(h); err != nil {
		file.Discard()
		return nil, err
	}
	return w, nil
}

// Write appends a step.
func (w *Writer) Write(step *generate.Step) error {
	for _, q := range step.Sequences {
		if q.Done && !q.Finished { // it took no part in the step
			continue
		}
		if err := w.line.Encode(NewStep(q.Sequence, w.tokenizer)); err != nil {
			return err
		}
	}
	return nil
}

// NewStep returns the line of a sequence after a step; t is as for NewHeader.
func NewStep(s *generate.Sequence, t tokenizers.Tokenizer) Step {
	line := Step{
		Sample:  s.Index,
		Step:    s.N,
		Steps:   s.Steps,
		Opened:  []Piece{},
		Closed:  s.Closed,
		Resized: slices.Clone(s.Resized),
		Done:    s.Done,
	}
	for _, o := range slices.Concat(s.Opened, s.Replaced) {
		piece := newPiece(t, o.Position, o.Token)
		if p := math.Exp(o.LogP); !math.IsNaN(p) {
			piece.P = &p
		}
		piece.Stage = o.Stage
		line.Opened = append(line.Opened, piece)
	}
	return line
}

// Close makes the file appear under its name.
func (w *Writer) Close() error { return w.file.Commit() }

// CloseAs makes the file appear under another name, for example one for an incomplete trace.
func (w *Writer) CloseAs(name string) error { return w.file.CommitAs(name) }

// Discard removes the file unless it was closed.
func (w *Writer) Discard() { w.file.Discard() }

// Openings records when each position of a run's sequences opened. The zero value is ready to use.
// One goroutine at a time may use one.
type Openings struct {
	// byNumber has the sequences by the number of their request.
	byNumber map[int]*Opening
}

// Opening records when the positions of one sequence opened.
type Opening struct {
	// [length] the step, from 1, that last opened each position; 0 if it was known from the start
	// or is masked
	Steps []int
	// [length] the natural log p of the token at that step; NaN if no step opened the position or
	// the sampler does not report p
	LogP LogProbs
}

// Add records a step. Steps must come in order, each once.
func (o *Openings) Add(step *generate.Step) {
	if o.byNumber == nil {
		o.byNumber = map[int]*Opening{}
	}
	for _, q := range step.Sequences {
		a := o.byNumber[q.Number]
		if a == nil || q.N <= 1 {
			a = &Opening{Steps: make([]int, q.LengthBefore),
				LogP: slices.Repeat(LogProbs{math.NaN()}, q.LengthBefore)}
			o.byNumber[q.Number] = a
		}
		if q.Done && !q.Finished { // it took no part in the step
			continue
		}
		a.Steps = generate.ApplyResizes(a.Steps, q.Resized, 0)
		a.LogP = generate.ApplyResizes(a.LogP, q.Resized, math.NaN())
		for _, opened := range slices.Concat(q.Opened, q.Replaced) {
			a.Steps[opened.Position] = q.N
			a.LogP[opened.Position] = opened.LogP
		}
		for _, p := range q.Closed {
			a.Steps[p] = 0
			a.LogP[p] = math.NaN()
		}
	}
}

// Take returns the record of a sequence and removes it.
func (o *Openings) Take(number int) *Opening {
	a := o.byNumber[number]
	delete(o.byNumber, number)
	return a
}

// LogProbs are natural logarithms of probabilities. In JSON each has the digits of a float32, and
// null stands for NaN.
type LogProbs []float64

// MarshalJSON implements json.Marshaler.
func (l LogProbs) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+10*len(l))
	out = append(out, '[')
	for i, p := range l {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(p) || math.IsInf(p, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, p, 'g', 7, 32)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *LogProbs) UnmarshalJSON(data []byte) error {
	var list []*float64
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*l = make(LogProbs, len(list))
	for i, p := range list {
		(*l)[i] = math.NaN()
		if p != nil {
			(*l)[i] = *p
		}
	}
	return nil
}
