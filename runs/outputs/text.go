package outputs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/internal/atomicfile"
	"unmask/internal/fasta"
	"unmask/runs"
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
	// from the start of its batch; left out of files of lines, whose bytes must not vary
	Seconds    float64       `json:"seconds,omitempty"`
	Evaluated  generate.Work `json:"evaluated"`
	Unfinished bool          `json:"unfinished,omitempty"`
	// with --choice, the probability of each by the first pass
	Choices []constrain.Choice `json:"choices,omitempty"`
	As      string             `json:"as,omitempty"` // kind that config.json alone does not tell
}

// TextOptions say where texts go and in which form.
type TextOptions struct {
	// To receives each text when it is finished, if Name is "".
	To io.Writer

	// Name is a file that appears when the run has ended, in the order of indexes. A name that ends
	// in .jsonl is a file of lines: JSON, each line on the disk once written; it can be continued.
	// One that fasta.IsFile knows is FASTA; a sample without a name is called by number and seed.
	Name string

	Shard   runs.Shard        // the part of the run in a file of lines
	JSON    bool              // lines of TextRecord
	Numbers bool              // a line with each text's number and seed before it
	Say     func(line string) // gets messages; nil: nobody
}

// Texts is an Output of texts. One goroutine at a time may use one.
type Texts struct {
	o       TextOptions
	j       *Job
	each    PutFunc // receives each line of a file of lines, without its newline; nil: none
	file    *atomicfile.File
	lines   *runs.Lines
	held    map[int][]byte // finished texts of file, by index, while earlier ones are missing
	next    int            // the first index that is not in file
	written int            // samples put to file
	drafts  drafts
}

// isLines reports whether name is that of a file of lines.
func isLines(name string) bool { return strings.HasSuffix(name, ".jsonl") }

// NewTexts returns an output. It refuses a file that cannot be written, so that this happens before
// a model is loaded. The caller closes the output.
func NewTexts(o TextOptions) (*Texts, error) {
	t := &Texts{o: o, held: map[int][]byte{}}
	if t.o.Say == nil {
		t.o.Say = func(string) {}
	}
	switch {
	case o.Name == "": // a stream
	case isLines(o.Name) && !o.Shard.Whole():
		return t, atomicfile.Check(o.Name) // Begin makes its directory and opens it
	case isLines(o.Name):
		return t, atomicfile.CheckPlace(o.Name) // Begin opens it
	default:
		err := atomicfile.CheckPlace(o.Name)
		if err == nil {
			t.file, err = atomicfile.Create(o.Name)
		}
		return t, err
	}
	return t, nil
}

// Begin sets the job and returns the samples still to be made, which are all unless a file of lines
// is continued. s are the settings of a file of lines and must be those that it was begun with.
func (t *Texts) Begin(j *Job, s runs.Settings) ([]runs.Span, error) {
	t.j = j
	n := j.Run.N
	if !isLines(t.o.Name) {
		return []runs.Span{{N: n}}, nil
	}
	var err error
	if t.lines, err = runs.OpenLines(t.o.Name, s, t.o.Shard, n); err != nil {
		return nil, err
	}
	first, end := t.o.Shard.Range(n)
	if done := min(t.lines.Done(), end) - first; done > 0 {
		t.o.Say(fmt.Sprintf("%d of %d samples are there", done, end-first))
	}
	return []runs.Span{t.lines.Missing(n)}, nil
}

// Put implements Output. A stream receives unfinished texts too; a file does not.
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
	t.drafts.add(s)
	r := t.record(s)
	if src := t.j.Model.Source; src != nil {
		r.As = src.KindOverride
	}
	if t.lines != nil || t.each != nil {
		r.Seconds = 0
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if t.each != nil {
		return t.each(r.ID, r.Seed, line)
	}
	if t.lines != nil {
		return t.lines.Put(r.ID, r.Seed, line)
	}
	var text []byte
	if fasta.IsFile(t.o.Name) {
		name := cmp.Or(t.j.Requests.Name(r.ID), fmt.Sprintf("sample_%d seed=%d", r.ID, r.Seed))
		text = fasta.Append(nil, fasta.Record{Name: name, Sequence: r.Text})
	} else if t.o.JSON {
		text = append(line, '\n')
	} else {
		if t.o.Numbers {
			text = fmt.Appendf(nil, "--- sample %d, seed %d\n", r.ID, r.Seed)
		}
		text = fmt.Appendln(text, r.Text)
	}
	if t.file == nil {
		_, err = t.o.To.Write(text)
		return err
	}
	t.held[r.ID] = text
	for t.written++; t.held[t.next] != nil; t.next++ {
		t.file.Write(t.held[t.next]) // Close has its error
		delete(t.held, t.next)
	}
	return nil
}

func (t *Texts) record(s Sample) TextRecord {
	return TextRecord{ID: s.Index, Input: s.Input, Seed: s.Seed, IDs: s.Tokens,
		Text: t.j.Requests.Answer(s.Index).Render(s.Tokens).Text, OpenedAt: s.Opening.Steps,
		LogProbs: s.Opening.LogP, Steps: s.Steps, Seconds: s.Seconds,
		Evaluated: s.Evaluated, Unfinished: s.Unfinished, Choices: s.Choices}
}

// Close ends the output of a run that returned ran. If ran is nil the file appears under its name.
// The finished part of a stopped run appears under another name, see atomicfile.PartialName; after
// other errors there is no file.
func (t *Texts) Close(ran error) error {
	defer t.file.Discard()
	if line := t.drafts.report(); line != "" {
		t.o.Say(line)
	}
	stopped := errors.Is(ran, ErrStopped)
	switch {
	case t.lines != nil:
		return t.lines.Close()
	case t.file == nil || ran != nil && !stopped || stopped && t.written == 0:
		return nil
	}
	for _, i := range slices.Sorted(maps.Keys(t.held)) {
		t.file.Write(t.held[i])
	}
	name := t.file.Name()
	if stopped {
		name = atomicfile.PartialName(name)
		t.o.Say(fmt.Sprintf("%s has the finished ones, %d", name, t.written))
	}
	return atomicfile.WithPath(name, t.file.CommitAs(name))
}

// drafts counts what self-speculation did.
type drafts struct{ tokens, passes, drafted, accepted int }

func (d *drafts) add(s Sample) {
	if s.Evaluated.Drafted == 0 {
		return
	}
	for i, step := range s.Opening.Steps {
		if step > 0 && !math.IsNaN(s.Opening.LogP[i]) {
			d.tokens++
		}
	}
	d.passes += s.Steps
	d.drafted += s.Evaluated.Drafted
	d.accepted += s.Evaluated.Accepted
}

// report returns a line for people, "" if nothing was drafted.
func (d *drafts) report() string {
	if d.drafted == 0 {
		return ""
	}
	return fmt.Sprintf("self-speculation: %.2f tokens a pass, %d of %d drafted tokens were right",
		float64(d.tokens)/float64(d.passes), d.accepted, d.drafted)
}
