package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/whole"
	"unmask/runs"
	"unmask/terminal"
	"unmask/traces"
)

// sample is a finished sequence, or one that an interrupt cut off.
type sample struct {
	m       *unmask.Model
	s       *generate.Sequence
	shown   []int32 // the part of its tokens that is text
	seed    uint64
	steps   int
	seconds float64
	open    bool // masked positions are left
	opening *traces.Opening
}

// textRecord is one line of --json.
type textRecord struct {
	ID       int             `json:"id"`
	Seed     uint64          `json:"seed"`
	IDs      []int32         `json:"ids"`
	Text     string          `json:"text"`
	OpenedAt []int           `json:"opened_at"`
	LogProbs traces.LogProbs `json:"logprobs"`
	Steps    int             `json:"steps"`
	// since the batch's start; not in a .jsonl, whose bytes are the same each time
	Seconds    float64   `json:"seconds,omitempty"`
	Evaluated  evaluated `json:"evaluated"`
	Unfinished bool      `json:"unfinished,omitempty"`
}

// evaluated is what a sample took.
type evaluated struct {
	FullPasses  int `json:"full_passes"`
	PartialRows int `json:"partial_rows"`
	HeadRows    int `json:"head_rows"`
}

func (s sample) record() textRecord {
	return textRecord{ID: s.s.Index, Seed: s.seed, IDs: s.s.Tokens, Text: s.m.Text.Decode(s.shown),
		OpenedAt: s.opening.Steps, LogProbs: s.opening.LogP,
		Steps: s.steps, Seconds: s.seconds, Unfinished: s.open,
		Evaluated: evaluated{FullPasses: s.s.Evaluated.Full, PartialRows: s.s.Evaluated.Partial,
			HeadRows: s.s.Evaluated.Head}}
}

// textOutput writes samples to standard output or to a file, which appears when all is written.
type textOutput struct {
	w       *bufio.Writer
	json    bool
	several bool // a line with each sample's number goes before it
	file    *whole.File
	written int // samples in file

	lines *runs.Lines // a .jsonl
}

func openTextOutput(f *textFlags) (*textOutput, error) {
	out := &textOutput{json: f.json, several: f.n > 1}
	switch {
	case f.out == "":
		out.w = bufio.NewWriter(stdout)
	case isLines(f.out): // opened when the model is known
		return out, checkFile("--out", f.out)
	default:
		var err error
		if out.file, err = whole.Create(f.out); err != nil {
			return nil, wrap("--out", err)
		}
		out.w = bufio.NewWriter(out.file)
	}
	return out, nil
}

func isLines(name string) bool { return strings.HasSuffix(name, ".jsonl") }

// begin opens or continues a .jsonl, and returns the samples that it still lacks. Other outputs
// want all.
func (o *textOutput) begin(f *textFlags, m *unmask.Model, g generate.Options) (generate.Options,
	error) {
	if !isLines(f.out) {
		return g, nil
	}
	s, err := f.textSettings(m, g)
	if err != nil {
		return g, err
	}
	if o.lines, err = runs.OpenLines(f.out, s); err != nil {
		return g, fmt.Errorf("--out: %w", err)
	}
	if done := o.lines.Done(); done > 0 {
		terminal.Say("%d of %d samples are there", min(done, g.N), g.N)
	}
	return o.lines.Rest(g), nil
}

func (o *textOutput) write(s sample) error {
	r := s.record()
	if o.lines != nil {
		r.Seconds = 0
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if o.lines != nil {
		return wrap("--out", o.lines.Put(r.ID, r.Seed, line))
	}
	if o.json {
		o.w.Write(append(line, '\n'))
	} else {
		if o.several {
			fmt.Fprintf(o.w, "--- sample %d, seed %d\n", s.s.Index, s.seed)
		}
		fmt.Fprintln(o.w, s.m.Text.Decode(s.shown))
	}
	if o.written++; o.file != nil {
		return nil
	}
	return o.flush()
}

func (o *textOutput) flush() error { return o.w.Flush() }

// interrupted writes what the batch has of its unfinished samples from a position on, to standard
// output only: a file holds finished ones.
func (o *textOutput) interrupted(step *generate.Step, m *unmask.Model, seed uint64, from int,
	openings *traces.Openings) error {
	for i := range step.Sequences {
		s := &step.Sequences[i]
		if s.Done || o.file != nil || o.lines != nil {
			continue
		}
		if err := o.write(sample{m: m, s: s, shown: s.Tokens[from:], seed: seed, steps: step.N,
			open: true, opening: openings.Take(s.Index)}); err != nil {
			return err
		}
	}
	terminal.Say("interrupted after step %d of %d", step.N, step.Steps)
	return errInterrupted
}

// close ends the output of a run. A file appears under its name if the run ended well; what an
// interrupted one finished appears beside it.
func (o *textOutput) close(ran error) error {
	defer o.file.Discard()
	interrupted := errors.Is(ran, errInterrupted)
	switch {
	case o.lines != nil:
		return o.lines.Close()
	case ran != nil && !interrupted:
		return nil
	case o.file == nil:
		if o.w == nil {
			return nil
		}
		return o.flush()
	}
	name := o.file.Name()
	if interrupted && o.written == 0 {
		return nil
	}
	if interrupted {
		name = partName(name)
		terminal.Say("%s has the finished ones, %d", name, o.written)
	}
	if err := o.w.Flush(); err != nil {
		return wrap("--out "+name, pathless(err))
	}
	return wrap("--out "+name, pathless(o.file.CommitAs(name)))
}
