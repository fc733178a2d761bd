package unmask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/generate"
	"unmask/internal/fasta"
	"unmask/internal/jsonline"
	"unmask/param"
)

// Input is one line of a list of prompts: a Request in JSON. What it leaves out is the run's.
type Input json.RawMessage

// InputOf returns the input that a request is; what is zero in it is left out. JSON has no texts
// that are not UTF-8: Over refuses the input of one.
func InputOf(r Request) Input {
	for _, text := range []string{r.Prompt, r.Infill, r.Suffix, r.Negative} {
		if !utf8.ValidString(text) {
			return Input(text)
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return data
}

// MarshalJSON returns the line.
func (in Input) MarshalJSON() ([]byte, error) { return in, nil }

// UnmarshalJSON keeps the line.
func (in *Input) UnmarshalJSON(data []byte) error {
	*in = slices.Clone(data)
	return nil
}

// Over returns the request of an input over the run's, and whether it has a seed of its own. What
// the run begins with is replaced by what the line does.
func (in Input) Over(base Request) (r Request, seeded bool, err error) {
	var own struct{ Seed *json.RawMessage }
	if err = base.read(in); err != nil {
		return r, false, err
	}
	return base, json.Unmarshal(in, &own) == nil && own.Seed != nil, nil
}

// ReadFASTA reads a sequence of residues for each record of a FASTA file. One with holes, such as
// [10], is an Infill, any other a Prompt.
func ReadFASTA(r io.Reader) (list []Input, err error) {
	records, err := fasta.Read(r)
	if len(records) > maxInputs {
		return nil, fmt.Errorf("there are %d records, want at most %d", len(records), maxInputs)
	}
	for _, one := range records {
		r := Request{Name: one.Name, Prompt: one.Sequence}
		if hole.MatchString(one.Sequence) {
			r.Prompt, r.Infill = "", one.Sequence
		}
		list = append(list, InputOf(r))
	}
	return list, err
}

const (
	maxInputs     = 100_000   // lines or records, each of which takes about 4 kB
	maxInputLine  = 16 << 20  // bytes
	maxInputBytes = 256 << 20 // bytes of all lines
)

// ReadInputs reads one input per line: a plain prompt or, if the first line begins as a JSON object
// does, an object with the fields of Input. Blank lines are skipped.
func ReadInputs(r io.Reader) (list []Input, err error) {
	limited := &io.LimitedReader{R: r, N: maxInputBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxInputLine)
	objects := false
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimPrefix(strings.TrimSuffix(lines.Text(), "\r"), "\ufeff") // Windows' lines
		line := bytes.TrimSpace([]byte(text))
		if len(line) == 0 {
			continue
		}
		if err := jsonline.CheckUTF8(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(list) == 0 {
			objects = objectStart.Match(line)
		}
		in := InputOf(Request{Prompt: text})
		if objects {
			if in, err = parseInput(line, n); err != nil {
				return nil, err
			}
		}
		if list = append(list, in); len(list) > maxInputs {
			return nil, fmt.Errorf("there are more than %d lines, want at most that", maxInputs)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d has more than %d bytes, want at most that", n+1, maxInputLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("there are more than %d bytes, want at most that", maxInputBytes)
	case len(list) == 0:
		return nil, fmt.Errorf("there are 0 lines, want at least 1")
	}
	return list, nil
}

// objectStart matches the first line of a file of JSON objects, also of a damaged one.
var objectStart = regexp.MustCompile(`^\{\s*["}]`)

// parseInput reads one JSON object, of line n.
func parseInput(line []byte, n int) (Input, error) {
	var r Request
	if err := jsonline.DecodeStrict(line, &r); err != nil {
		return nil, fmt.Errorf("line %d is %s, want an object with prompt, infill, class or seed: %w",
			n, param.Quote(string(line)), err)
	}
	if err := r.checkGiven(true); err != nil {
		return nil, fmt.Errorf("line %d: %w", n, err)
	}
	return Input(slices.Clone(line)), nil
}

// InputError is the error of one of several requests.
type InputError struct {
	Index int
	Err   error
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("input %d: %v", e.Index, e.Err) }

// Unwrap returns the error without the input's index.
func (e *InputError) Unwrap() error { return e.Err }

// Requests are the samples of a run. Sample i is of input i modulo their number. It depends on the
// run's seed and on i or, if its input has a seed of its own, on that seed and on the number of
// earlier rounds through the list.
type RequestList struct {
	Longest int  // positions of the longest request
	Guided  bool // some request has guidance

	model    *Model
	inputs   []Input // nil: there is no list
	requests []Request
	prepared []generate.Request
	seeded   []bool
	called   map[string]bool // the first words of the inputs' names
}

// Requests prepares a run's request or, if there are inputs, each of them over it. The error of a
// refused input is an *InputError.
func (m *Model) PrepareList(
	ctx context.Context, base Request, inputs []Input) (*RequestList, error) {
	q := &RequestList{model: m, inputs: inputs, requests: []Request{base}, seeded: []bool{false},
		called: map[string]bool{}}
	if inputs != nil {
		q.requests, q.seeded = make([]Request, len(inputs)), make([]bool, len(inputs))
	}
	var err error
	for i, in := range inputs {
		if q.requests[i], q.seeded[i], err = in.Over(base); err != nil {
			return nil, &InputError{i, err}
		}
		id, _, _ := strings.Cut(q.requests[i].Name, " ")
		q.called[id] = true
	}
	q.prepared, err = m.PrepareAll(ctx, q.requests)
	if _, ok := errors.AsType[*param.Error](err); ok && len(inputs) == 1 {
		err = &InputError{0, err}
	}
	for _, r := range q.prepared {
		q.Longest, q.Guided = max(q.Longest, r.Length), q.Guided || r.Guidance.Scale != 0
	}
	return q, err
}

// Name returns the name of sample i in FASTA, "" for none: its input's, whose first word gets a
// number from the second round on, after more than one _ where an input is called so.
func (q *RequestList) Name(i int) string {
	name, number := q.requests[i%len(q.requests)].Name, i/len(q.requests)+1
	if name == "" || number == 1 {
		return name
	}
	id, rest, _ := strings.Cut(name, " ")
	id += "_"
	for q.called[fmt.Sprint(id, number)] {
		id += "_"
	}
	return strings.TrimSpace(fmt.Sprint(id, number, " ", rest))
}

// LeavesOut returns a note about what the model's chat template leaves out, "" for nothing.
func (q *RequestList) TemplateNote() string {
	var list [][]byte
	for _, r := range q.requests {
		list = append(list, r.Messages)
	}
	return q.model.TemplateNote(list...)
}

// Request returns the request that sample i was prepared from.
func (q *RequestList) Original(i int) Request { return q.requests[q.InputIndex(i)] }

// Answer returns the answer of sample i, of a model of text.
func (q *RequestList) Answer(i int) *Answer {
	at := q.InputIndex(i)
	return q.model.AnswerOf(&q.requests[at], &q.prepared[at])
}

// Vary reports whether requests of the list differ in more than their class or prompt.
func (q *RequestList) Differ() bool {
	return slices.ContainsFunc(q.inputs, func(in Input) bool {
		r, seeded, err := in.Over(Request{})
		r.Class, r.Prompt, r.Name = "", "", ""
		return seeded || err != nil || string(InputOf(r)) != "{}"
	})
}

// Listed reports whether the samples are of a list of inputs.
func (q *RequestList) FromFile() bool { return q.inputs != nil }

// At returns the request of sample i.
func (q *RequestList) Prepared(i int) generate.Request {
	r, n := q.prepared[q.InputIndex(i)], i
	if q.seeded[q.InputIndex(i)] {
		n = i / len(q.prepared)
	}
	r.Index += uint32(n)
	return r
}

// Input returns the index of sample i's input in the list.
func (q *RequestList) InputIndex(i int) int { return i % len(q.prepared) }
