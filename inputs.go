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
	"unmask/internal/textfile"
	"unmask/param"
	"unmask/prompt"
)

// Input is one line of a list of prompts: a Request in JSON. What it leaves out is the run's.
type Input json.RawMessage

// InputOf returns the input that a request is; what is zero in it is left out. JSON has no texts
// that are not UTF-8: ApplyTo refuses the input of one.
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

// ApplyTo returns the request of an input over the run's, and whether it has a seed of its own.
// What the run begins with is replaced by what the line does. A field that no Request has, or of
// another type, is an error.
func (in Input) ApplyTo(base Request) (r Request, hasSeed bool, err error) {
	err = base.decode(in)
	if err != nil {
		return r, false, err
	}
	var fields struct{ Seed *json.RawMessage }
	hasSeed = json.Unmarshal(in, &fields) == nil && fields.Seed != nil
	return base, hasSeed, nil
}

const (
	maxInputs     = 100_000   // lines or records, each of which takes about 4 kB
	maxInputLine  = 16 << 20  // bytes
	maxInputBytes = 256 << 20 // bytes of all lines
)

// ReadFASTA reads a sequence of residues for each record of a FASTA file. One with holes, such as
// [10], is an Infill, any other a Prompt. Small letters are read as capital ones; softMasked counts
// the records that have any. An error names the line at fault, or says
// that there are too many records.
func ReadFASTA(r io.Reader) (inputs []Input, softMasked int, err error) {
	records, err := fasta.Read(r)
	if len(records) > maxInputs {
		return nil, 0, fmt.Errorf("there are %d records, want at most %d", len(records), maxInputs)
	}
	softMasked = fasta.UnmaskLetters(records)
	for _, record := range records {
		request := Request{Name: record.Name}
		if prompt.HasHole(record.Sequence) {
			request.Infill = record.Sequence
		} else {
			request.Prompt = record.Sequence
		}
		inputs = append(inputs, InputOf(request))
	}
	return inputs, softMasked, err
}

// ReadInputs reads one input per line: a plain prompt or, if the first line begins as a JSON object
// does, an object with the fields of a Request. Blank lines are skipped. An error names the line:
// text that is not UTF-8, JSON that is no Request, or more or longer lines than a run may have. A
// file without lines is an error too.
func ReadInputs(r io.Reader) ([]Input, error) {
	limited := &io.LimitedReader{R: r, N: maxInputBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxInputLine)

	var inputs []Input
	isObjects := false
	number := 0
	for lines.Scan() {
		number++
		// Editors on Windows end lines with \r\n and begin files with a byte order mark.
		text := textfile.TrimMark(strings.TrimSuffix(lines.Text(), "\r"))
		line := bytes.TrimSpace([]byte(text))
		if len(line) == 0 {
			continue
		}
		if err := jsonline.CheckUTF8(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(inputs) == 0 {
			isObjects = objectStart.Match(line)
		}
		input := InputOf(Request{Prompt: text})
		if isObjects {
			var err error
			input, err = parseInput(line, number)
			if err != nil {
				return nil, err
			}
		}
		inputs = append(inputs, input)
		if len(inputs) > maxInputs {
			return nil, fmt.Errorf("there are more than %d lines, want at most that", maxInputs)
		}
	}

	err := lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d has more than %d bytes, want at most that", number+1,
			maxInputLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("there are more than %d bytes, want at most that", maxInputBytes)
	case len(inputs) == 0:
		return nil, fmt.Errorf("there are 0 lines, want at least 1")
	}
	return inputs, nil
}

// objectStart matches the first line of a file of JSON objects, also of a damaged one.
var objectStart = regexp.MustCompile(`^\{\s*["}]`)

// parseInput reads one JSON object, of line number.
func parseInput(line []byte, number int) (Input, error) {
	var r Request
	if err := jsonline.DecodeStrict(line, &r); err != nil {
		return nil, fmt.Errorf("line %d is %s, want an object with prompt, infill, class or seed: %w",
			number, param.Quote(string(line)), err)
	}
	if err := r.checkStart(true); err != nil {
		return nil, fmt.Errorf("line %d: %w", number, err)
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

// RequestList are the samples of a run. Sample i is of input i modulo their number. It depends on
// the run's seed and on i or, if its input has a seed of its own, on that seed and on the number of
// earlier rounds through the list.
type RequestList struct {
	// Longest is the number of positions of the longest request at its start, and MaxLength that to
	// which one may grow.
	Longest   int
	MaxLength int

	// Guided says that some request has guidance.
	Guided bool

	model *Model

	// inputs are nil where there is no list.
	inputs []Input

	requests []Request
	prepared []generate.Request

	// hasSeed says which inputs have a seed of their own.
	hasSeed []bool

	// usedIDs are the first words of the inputs' names.
	usedIDs map[string]bool
}

// PrepareList prepares a run's request or, if there are inputs, each of them over it. The error of
// a refused input is an *InputError.
func (m *Model) PrepareList(
	ctx context.Context, base Request, inputs []Input) (*RequestList, error) {
	list := &RequestList{
		model:    m,
		inputs:   inputs,
		requests: []Request{base},
		hasSeed:  []bool{false},
		usedIDs:  map[string]bool{},
	}
	if inputs != nil {
		list.requests = make([]Request, len(inputs))
		list.hasSeed = make([]bool, len(inputs))
	}
	for i, input := range inputs {
		request, hasSeed, err := input.ApplyTo(base)
		if err != nil {
			return nil, &InputError{i, err}
		}
		list.requests[i] = request
		list.hasSeed[i] = hasSeed
		id, _, _ := strings.Cut(request.Name, " ")
		list.usedIDs[id] = true
	}

	prepared, err := m.PrepareAll(ctx, list.requests)
	if _, ok := errors.AsType[*param.Error](err); ok && len(inputs) == 1 {
		err = &InputError{0, err}
	}
	list.prepared = prepared
	for _, q := range prepared {
		list.Longest = max(list.Longest, q.Length)
		list.MaxLength = max(list.MaxLength, q.Length, q.MaxLength)
		if q.Guidance.Scale != 0 {
			list.Guided = true
		}
	}
	return list, err
}

// Name returns the name of sample i in FASTA, "" for none: its input's, whose first word gets a
// number from the second round on, after more than one _ where an input has that name already.
func (l *RequestList) Name(i int) string {
	name := l.requests[i%len(l.requests)].Name
	round := i/len(l.requests) + 1
	if name == "" || round == 1 {
		return name
	}
	id, description, _ := strings.Cut(name, " ")
	id += "_"
	for l.usedIDs[fmt.Sprint(id, round)] {
		id += "_"
	}
	return strings.TrimSpace(fmt.Sprint(id, round, " ", description))
}

// TemplateNote returns a note about what the model's chat template drops, "" for nothing.
func (l *RequestList) TemplateNote() string {
	var conversations [][]byte
	for _, r := range l.requests {
		conversations = append(conversations, r.Messages)
	}
	return l.model.TemplateNote(conversations...)
}

// SamplerNotes returns notes about what samplers that the requests name leave out of the model's
// recipe.
func (l *RequestList) SamplerNotes() []string { return l.model.SamplerNotes(l.requests...) }

// Original returns the request that sample i was prepared from.
func (l *RequestList) Original(i int) Request { return l.requests[l.InputIndex(i)] }

// Answer returns the answer of sample i, of a model of text.
func (l *RequestList) Answer(i int) *Answer {
	index := l.InputIndex(i)
	return l.model.AnswerOf(&l.requests[index], &l.prepared[index])
}

// Differ reports whether requests of the list differ in more than their class or prompt.
func (l *RequestList) Differ() bool {
	return slices.ContainsFunc(l.inputs, func(input Input) bool {
		r, hasSeed, err := input.ApplyTo(Request{})
		r.Class = ""
		r.Prompt = ""
		r.Name = ""
		return hasSeed || err != nil || string(InputOf(r)) != "{}"
	})
}

// FromFile reports whether the samples are of a list of inputs.
func (l *RequestList) FromFile() bool { return l.inputs != nil }

// Prepared returns the request of sample i.
func (l *RequestList) Prepared(i int) generate.Request {
	index := l.InputIndex(i)
	q := l.prepared[index]
	if l.hasSeed[index] {
		q.Index += uint32(i / len(l.prepared))
	} else {
		q.Index += uint32(i)
	}
	return q
}

// InputIndex returns the index of sample i's input in the list.
func (l *RequestList) InputIndex(i int) int { return i % len(l.prepared) }
