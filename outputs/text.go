package outputs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/whole"
	"unmask/runs"
	"unmask/traces"
)

// TextRecord is a text as a line of JSON.
type TextRecord struct {
	ID       int             `json:"id"`
	Input    *int            `json:"input,omitempty"`
	Seed     uint64          `json:"seed"`
	IDs      []int32         `json:"ids"`
	Text     string          `json:"text"`
	OpenedAt []int           `json:"opened_at"`
	LogProbs traces.LogProbs `json:"logprobs"`
	Steps    int             `json:"steps"`
	// since the batch's start; not in a file of lines, whose bytes are the same each time
	Seconds    float64   `json:"seconds,omitempty"`
	Evaluated  Evaluated `json:"evaluated"`
	Unfinished bool      `json:"unfinished,omitempty"`
}

// Evaluated is the work that a sample took, as JSON.
type Evaluated struct {
	FullPasses  int `json:"full_passes"`
	PartialRows int `json:"partial_rows"`
	HeadRows    int `json:"head_rows"`
}

func evaluated(e generate.Evaluated) Evaluated {
	return Evaluated{FullPasses: e.Full, PartialRows: e.Partial, HeadRows: e.Head}
}

// TextOptions say where texts go, and in which form.
type TextOptions struct {
	// To gets each text as it is finished, where Name is "".
	To io.Writer

	// Name is a file that appears when the run has ended, or of lines: NAME.jsonl has JSON lines in
	// the order of their indexes, each on the disk as it is written, and goes on where it was.
	Name string

	Shard runs.Shard // the part of the run that a file of lines has
	// Each, if not nil, gets each line of a file of lines, without its newline, in place of To and
	// Name.
	Each func(i int, seed uint64, line []byte) error

	Of *unmask.Requests // what MakeTexts makes a text of each of; nil: of the run

	JSON    bool                   // lines of TextRecord
	Numbers bool                   // a line with each text's number and seed before it
	Shown   func(s Sample) []int32 // the tokens that are text; nil: all
	Say     func(line string)      // gets messages; nil: nobody
}

// Texts is an Output of texts.
type Texts struct {
	o       TextOptions
	m       *unmask.Model
	w       *bufio.Writer // nil of lines
	file    *whole.File
	lines   *runs.Lines
	written int // samples in w
}

// isLines reports whether a file is one of lines.
func isLines(name string) bool { return strings.HasSuffix(name, ".jsonl") }

// NewTexts returns an output. A file that cannot be written is refused here, before a model is
// loaded. The caller closes what it returns.
func NewTexts(o TextOptions) (*Texts, error) {
	t := &Texts{o: o}
	if t.o.Say == nil {
		t.o.Say = func(string) {}
	}
	switch {
	case o.Each != nil:
		return t, nil
	case o.Name == "":
		t.w = bufio.NewWriter(o.To)
	case isLines(o.Name):
		return t, whole.Check(o.Name) // opened by Begin
	default:
		var err error
		if t.file, err = whole.Create(o.Name); err != nil {
			return nil, err
		}
		t.w = bufio.NewWriter(t.file)
	}
	return t, nil
}

// Begin says which model makes the texts, by which run, completed by Model.Check. It returns the
// part of the run that is still to be made, with an N of 0 for none: all but for a file of lines,
// whose settings s must be those that it was begun with.
func (t *Texts) Begin(m *unmask.Model, r unmask.Run, s runs.Settings) (unmask.Run, error) {
	t.m = m
	if !isLines(t.o.Name) {
		return r, nil
	}
	var err error
	if t.lines, err = runs.OpenLinesShard(t.o.Name, s, t.o.Shard, r.N); err != nil {
		return r, err
	}
	first, end := t.o.Shard.Range(r.N)
	if done := min(t.lines.Done(), end) - first; done > 0 {
		t.o.Say(fmt.Sprintf("%d of %d samples are there", done, end-first))
	}
	return t.lines.Rest(r), nil
}

// Put implements Output. A stream gets unfinished texts too, a file does not.
func (t *Texts) Put(samples []Sample) error {
	for _, s := range samples {
		if s.Unfinished && t.o.Name != "" {
			continue
		}
		if err := t.put(s); err != nil {
			return err
		}
	}
	return nil
}

func (t *Texts) put(s Sample) error {
	r := t.record(s)
	if t.lines != nil || t.o.Each != nil {
		r.Seconds = 0
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if t.o.Each != nil {
		return t.o.Each(r.ID, r.Seed, line)
	}
	if t.lines != nil {
		return t.lines.Put(r.ID, r.Seed, line)
	}
	if t.o.JSON {
		t.w.Write(append(line, '\n'))
	} else {
		if t.o.Numbers {
			fmt.Fprintf(t.w, "--- sample %d, seed %d\n", r.ID, r.Seed)
		}
		fmt.Fprintln(t.w, r.Text)
	}
	if t.written++; t.file != nil {
		return nil
	}
	return t.w.Flush()
}

func (t *Texts) record(s Sample) TextRecord {
	shown := s.Tokens
	if t.o.Shown != nil {
		shown = t.o.Shown(s)
	}
	return TextRecord{ID: s.Index, Input: s.Input, Seed: s.Seed, IDs: s.Tokens,
		Text: t.m.Text.Decode(shown), OpenedAt: s.Opening.Steps, LogProbs: s.Opening.LogP,
		Steps: s.Steps, Seconds: s.Seconds,
		Evaluated: evaluated(s.Evaluated), Unfinished: s.Unfinished}
}

// Close ends the output of a run that ended with ran. A file appears under its name if that is nil;
// what a stopped run finished appears beside it, see whole.Part; after another error there is none.
func (t *Texts) Close(ran error) error {
	defer t.file.Discard()
	stopped := errors.Is(ran, ErrStopped)
	switch {
	case t.lines != nil:
		return t.lines.Close()
	case t.w == nil || ran != nil && !stopped:
		return nil
	case t.file == nil:
		return t.w.Flush()
	case stopped && t.written == 0:
		return nil
	}
	name := t.file.Name()
	if stopped {
		name = whole.Part(name)
		t.o.Say(fmt.Sprintf("%s has the finished ones, %d", name, t.written))
	}
	err := t.w.Flush()
	if err == nil {
		err = t.file.CommitAs(name)
	}
	return whole.Named(name, err)
}
