package unmask

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"

	"unmask/generate"
	"unmask/internal/fasta"
	"unmask/internal/jsonline"
	"unmask/param"
)

// Input is one line of a list of prompts. At most one of Prompt and Infill is set; without either
// the sample is unconditional.
type Input struct {
	Name   string  `json:"name"`   // of the sample in FASTA
	Prompt string  `json:"prompt"` // as Text.Prompt reads it
	Infill string  `json:"infill"` // as Text.Infill reads it
	Class  string  `json:"class"`  // of an image, as Model.ClassCondition reads it
	Seed   *uint64 `json:"seed"`   // nil: the run's seed
}

// ReadFASTA reads a sequence of residues for each record of a FASTA file. One with holes, such as
// [10], is an Infill, any other a Prompt.
func ReadFASTA(r io.Reader) (list []Input, err error) {
	records, err := fasta.Read(r)
	for _, one := range records {
		in := Input{Name: one.Name, Prompt: one.Sequence}
		if hole.MatchString(one.Sequence) {
			in.Prompt, in.Infill = "", one.Sequence
		}
		list = append(list, in)
	}
	return list, err
}

const (
	maxInputs     = 1 << 20   // lines
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
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if len(list) == 0 {
			objects = objectStart.Match(line)
		}
		in := Input{Prompt: strings.TrimSuffix(lines.Text(), "\r")}
		if objects {
			if in, err = parseInput(line); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if list = append(list, in); len(list) > maxInputs {
			return nil, fmt.Errorf("there are more than %d lines", maxInputs)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d has more than %d bytes", n+1, maxInputLine)
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("there are more than %d bytes", maxInputBytes)
	case len(list) == 0:
		return nil, fmt.Errorf("there are 0 lines, want at least 1")
	}
	return list, nil
}

// objectStart matches the first line of a file of JSON objects, also of a damaged one.
var objectStart = regexp.MustCompile(`^\{\s*["}]`)

// parseInput reads one JSON object.
func parseInput(line []byte) (in Input, err error) {
	if err := jsonline.Strict(line, &in); err != nil {
		return in, fmt.Errorf("is %s, want an object with prompt, infill, class or seed: %w",
			param.Quote(string(line)), err)
	}
	if in.Prompt != "" && in.Infill != "" {
		return in, errors.New("prompt and infill together, want one of them")
	}
	return in, nil
}

// Known returns the tokens [length] at the start of an input's run; see Prompt and Infill for a
// length of 0.
func (t *Text) Known(in Input, length int) ([]int32, error) {
	switch {
	case in.Class != "":
		return nil, fmt.Errorf("class is %s, want none: the model makes text", param.Quote(in.Class))
	case in.Prompt != "" && in.Infill != "":
		return nil, errors.New("prompt and infill together, want one of them")
	case in.Prompt != "":
		return t.Prompt(in.Prompt, length)
	case in.Infill != "":
		return t.Infill(in.Infill, length)
	}
	return t.Masks(length)
}

// Drawn returns the class or prompt of a picture: the class if it is set or the model has classes,
// and the prompt otherwise.
func (in Input) Drawn(classes bool) (string, error) {
	switch {
	case in.Infill != "":
		return "", fmt.Errorf("infill is %s, want none for a picture", param.Quote(in.Infill))
	case in.Seed != nil:
		return "", fmt.Errorf("seed is %d, want none for a picture: its number and the run's decide it",
			*in.Seed)
	case classes && in.Class != "" && in.Prompt == "":
		return in.Class, nil
	case in.Class != "":
		return "", fmt.Errorf("class is %s, want a prompt alone", param.Quote(in.Class))
	case strings.TrimSpace(in.Prompt) == "" && classes:
		return "", errors.New("class is missing")
	}
	return strings.TrimSpace(in.Prompt), nil
}

// Requests are the samples of a list of inputs. Sample i uses input i modulo their number. It
// depends on the run's seed and on i or, if its input has a seed of its own, on that seed and on
// the number of earlier rounds through the list.
type Requests struct {
	Longest int // positions of the longest request

	m     *Model
	run   Run
	list  []Input
	fewer bool
}

// Requests returns the requests to add to a pool. Unset fields of r are those of the model's
// published run, see Model.Defaults. r.Length is the length of each, 0 means the input's. With
// fewer set, or r.Steps unset, an input with fewer masked positions than steps has one step per
// masked position. The error names the first input that cannot run.
func (m *Model) Requests(r Run, list []Input, fewer bool) (*Requests, error) {
	if m.Text == nil {
		return nil, errors.New("the model makes no text")
	}
	full, err := m.Defaults()
	if err != nil {
		return nil, err
	}
	q := &Requests{m: m, run: r.With(r.Recipe().Or(full)), list: list,
		fewer: fewer || r.Steps == 0}
	for i := range list {
		request, err := q.of(i)
		if err == nil {
			_, err = request.Fit(m.Denoiser, m.Spec().Masked(request.Known))
		}
		if err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		q.Longest = max(q.Longest, len(request.Known))
	}
	return q, nil
}

// of returns the request of sample i.
func (q *Requests) of(i int) (r generate.Request, err error) {
	in := q.list[q.Input(i)]
	r = generate.Request{Recipe: q.run.Recipe(), Seed: q.run.Seed, Index: uint32(i)}
	if r.Known, err = q.m.Text.Known(in, q.run.Length); err != nil {
		return r, err
	}
	if in.Seed != nil {
		r.Seed, r.Index = *in.Seed, uint32(i/len(q.list))
	}
	if q.fewer {
		r.Steps = min(r.Steps, max(1, q.m.Spec().Masked(r.Known)))
	}
	if adjust := q.run.Adjust; adjust != nil {
		r.Adjust = func(position int, logits []float32) { adjust(i, position, logits) }
	}
	return r, nil
}

// Input returns the index of sample i's input in the list.
func (q *Requests) Input(i int) int { return i % len(q.list) }

// Hash returns a hash of the inputs, 16 hexadecimal digits.
func (q *Requests) Hash() string {
	hash := sha256.New()
	for _, in := range q.list {
		fmt.Fprintf(hash, "%q %q", in.Prompt, in.Infill)
		if in.Seed != nil {
			fmt.Fprintf(hash, " %d", *in.Seed)
		}
		fmt.Fprintln(hash)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// All returns the requests of n samples from sample first on.
func (q *Requests) All(first, n int) iter.Seq[generate.Request] {
	return func(yield func(generate.Request) bool) {
		for i := first; i < first+n; i++ {
			r, err := q.of(i)
			if err != nil { // there was none before
				panic(err)
			}
			if !yield(r) {
				return
			}
		}
	}
}
