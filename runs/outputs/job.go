package outputs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/runs"
	"unmask/tokenizers"
)

// TextJob is a run of texts that was prepared for a model.
type TextJob struct {
	Run  unmask.Run       // complete; of a list of inputs, with the length of the longest
	Each *unmask.Requests // the samples' requests where there is a list of inputs, otherwise nil

	m       *unmask.Model
	request unmask.Request
	from    int     // where the answer to messages begins
	ends    []int32 // tokens before the first of which the shown text ends
}

// PrepareTexts prepares n samples of a request or, if there are inputs, of each of them over it.
// batch is the number of samples at once, see generate.Options.
func PrepareTexts(ctx context.Context, m *unmask.Model, r unmask.Request, inputs []unmask.Input,
	n, batch int) (*TextJob, error) {
	j := &TextJob{m: m, request: r}
	q, err := m.Requests(ctx, r, inputs)
	if err != nil {
		return nil, err
	}
	if r.Messages != nil {
		j.from = slices.Index(q.At(0).Known, m.Spec().Mask)
	}
	if !r.Grammar.IsZero() {
		j.ends = q.At(0).Ends
	}
	if r.Cut {
		end, err := m.Text.End(r.End)
		if err != nil {
			return nil, err
		}
		j.ends = append(slices.Clip(j.ends), end)
	}
	if q.Listed() { // how many fit at once is by the longest
		spec := m.Spec()
		j.Each, r.Length = q, q.Longest-len(spec.Before)-len(spec.After)
		r.MinLength, r.End, r.Cut, r.Grammar = 0, "", false, unmask.Grammar{}
		if q, err = m.Requests(ctx, r, nil); err != nil {
			return nil, err
		}
	}
	j.Run = q.Run(n)
	j.Run.Batch = batch
	j.Run, err = m.Check(j.Run)
	return j, err
}

// Shown returns the tokens of a sample that are shown as text.
func (j *TextJob) Shown(s Sample) []int32 {
	switch c, err := j.m.Chat(); {
	case j.request.Messages != nil && (s.Unfinished || err != nil):
		return s.Tokens[j.from:]
	case j.request.Messages != nil:
		answer, _ := c.Answer(s.Tokens[j.from:])
		return answer
	case s.Unfinished:
		return s.Tokens
	}
	tokens := s.Tokens
	made := slices.IndexFunc(s.Opening.Steps, func(step int) bool { return step > 0 })
	for _, end := range j.ends {
		tokens = unmask.Cut(tokens, max(0, made), end)
	}
	if !j.request.Grammar.IsZero() && len(j.ends) == 0 { // spaces stand for the missing end
		for n := len(tokens) - 1; n > made && made >= 0 && s.Opening.Steps[n] > 0 &&
			strings.TrimSpace(j.m.Text.Decode(tokens[n:])) == ""; n-- {
			tokens = tokens[:n]
		}
	}
	return tokens
}

// Settings returns everything that decides the bytes of a file of the job's texts; precision is
// that of the model's weight products.
func (j *TextJob) Settings(precision string) (runs.Settings, error) {
	s, err := Settings(j.m, precision, j.Run)
	if err != nil {
		return nil, err
	}
	r := &j.request
	if r.Messages != nil {
		s["text"] = "answer"
	}
	if !r.Grammar.IsZero() {
		s["schema"], s["regex"] = string(r.Schema), r.Regex
		s["choice"] = strings.Join(r.Choice, ",")
	}
	if r.MinLength > 0 || r.Cut {
		s["end"] = cmp.Or(r.End, tokenizers.EndOfText)
		s["min-length"], s["cut"] = strconv.Itoa(r.MinLength), strconv.FormatBool(r.Cut)
	}
	if j.Each != nil {
		s["known"] = j.Each.Hash()
	}
	return s, nil
}

// Make makes texts first to first+count-1 and passes each one's line to put: byte for byte those in
// a file of lines of the run.
func (j *TextJob) Make(ctx context.Context, first, count int,
	put func(i int, seed uint64, line []byte) error) error {
	return MakeTexts(ctx, j.m, j.Run, TextOptions{Shown: j.Shown, Of: j.Each}, first, count, put)
}
