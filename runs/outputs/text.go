package outputs

import (
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

	// Seconds is the time from the start of the text's batch. It is left out of files of lines,
	// whose bytes must not vary.
	Seconds float64 `json:"seconds,omitempty"`

	Evaluated  generate.Work `json:"evaluated"`
	Unfinished bool          `json:"unfinished,omitempty"`

	// Choices are those of --choice with the probability of each by the first pass.
	Choices []constrain.Choice `json:"choices,omitempty"`

	// As is the model's kind where config.json alone does not tell it.
	As string `json:"as,omitempty"`
}

// TextOptions say where texts go and in which form.
type TextOptions struct {
	// To receives each text when it is finished, if Name is "".
	To io.Writer

	// Name is a file that appears when the run has ended, in the order of indexes. A name that ends
	// in .jsonl is a file of lines: JSON, each line on the disk once written; it can be continued.
	// One that fasta.IsFile knows is FASTA; a sample without a name is called by number and seed.
	Name string

	// Shard is the part of the run in a file of lines.
	Shard runs.Shard

	// JSON writes lines of TextRecord.
	JSON bool

	// Numbers writes a line with each text's number and seed before it.
	Numbers bool

	// Say gets messages. It may be nil.
	Say func(line string)
}

// Texts is an Output of texts. One goroutine at a time may use one.
type Texts struct {
	o   TextOptions
	job *Job

	// putLine receives each line of a file of lines, without its newline. It may be nil.
	putLine PutFunc

	file  *atomicfile.File
	lines *runs.Lines

	// early are finished texts of file, by index, while earlier ones are missing.
	early map[int][]byte

	// next is the first index that is not in file.
	next int

	// finished counts the samples put to file.
	finished int

	drafts draftCounts
}

// isLines reports whether name is that of a file of lines.
func isLines(name string) bool { return strings.HasSuffix(name, ".jsonl") }

// NewTexts returns an output. It refuses a file that cannot be written, so that this happens before
// a model is loaded. The caller closes the output.
func NewTexts(o TextOptions) (*Texts, error) {
	t := &Texts{o: o, early: map[int][]byte{}}
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
		if err := atomicfile.CheckPlace(o.Name); err != nil {
			return t, err
		}
		var err error
		t.file, err = atomicfile.Create(o.Name)
		return t, err
	}
	return t, nil
}

// Begin sets the job and returns the samples still to be made, which are all unless a file of lines
// is continued. s are the settings of a file of lines and must be those that it was begun with.
func (t *Texts) Begin(j *Job, s runs.Settings) ([]runs.Span, error) {
	t.job = j
	n := j.Run.N
	if !isLines(t.o.Name) {
		return []runs.Span{{N: n}}, nil
	}
	var err error
	t.lines, err = runs.OpenLines(t.o.Name, s, t.o.Shard, n)
	if err != nil {
		return nil, err
	}
	first, end := t.o.Shard.Range(n)
	if written := min(t.lines.Done(), end) - first; written > 0 {
		t.o.Say(fmt.Sprintf("%d of %d samples are there", written, end-first))
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

// put writes a sample.
func (t *Texts) put(s Sample) error {
	t.drafts.add(s)
	r := t.newRecord(s)
	if t.lines != nil || t.putLine != nil {
		r.Seconds = 0
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if t.putLine != nil {
		return t.putLine(r.ID, r.Seed, line)
	}
	if t.lines != nil {
		return t.lines.Put(r.ID, r.Seed, line)
	}

	text := t.formatText(r, line)
	if t.file == nil {
		_, err := t.o.To.Write(text)
		return err
	}
	t.finished++
	t.early[r.ID] = text
	for t.early[t.next] != nil {
		t.file.Write(t.early[t.next]) // Close returns its error
		delete(t.early, t.next)
		t.next++
	}
	return nil
}

// formatText returns a text in the form of the file or the stream. line is its record.
func (t *Texts) formatText(r TextRecord, line []byte) []byte {
	if fasta.IsFile(t.o.Name) {
		name := t.job.Requests.Name(r.ID)
		if name == "" {
			name = fmt.Sprintf("sample_%d seed=%d", r.ID, r.Seed)
		}
		return fasta.Append(nil, fasta.Record{Name: name, Sequence: r.Text})
	}
	if t.o.JSON {
		return append(line, '\n')
	}
	var text []byte
	if t.o.Numbers {
		text = fmt.Appendf(nil, "--- sample %d, seed %d\n", r.ID, r.Seed)
	}
	return fmt.Appendln(text, r.Text)
}

// newRecord returns the record of a sample.
func (t *Texts) newRecord(s Sample) TextRecord {
	r := TextRecord{
		ID:         s.Index,
		Input:      s.Input,
		Seed:       s.Seed,
		IDs:        s.Tokens,
		Text:       t.job.Requests.Answer(s.Index).Render(s.Tokens).Text,
		OpenedAt:   s.Opening.Steps,
		LogProbs:   s.Opening.LogP,
		Steps:      s.Steps,
		Seconds:    s.Seconds,
		Evaluated:  s.Evaluated,
		Unfinished: s.Unfinished,
		Choices:    s.Choices,
	}
	if source := t.job.Model.Source; source != nil {
		r.As = source.KindOverride
	}
	return r
}

// Close ends the output of a run that returned runErr. If it is nil the file appears under its
// name. The finished part of a stopped run appears under another name, see atomicfile.PartialName;
// after other errors there is no file.
func (t *Texts) Close(runErr error) error {
	defer t.file.Discard()
	if line := t.drafts.report(); line != "" {
		t.o.Say(line)
	}
	if t.lines != nil {
		return t.lines.Close()
	}
	isStopped := errors.Is(runErr, ErrStopped)
	hasFailed := runErr != nil && !isStopped
	if t.file == nil || hasFailed || isStopped && t.finished == 0 {
		return nil
	}

	for _, i := range slices.Sorted(maps.Keys(t.early)) {
		t.file.Write(t.early[i])
	}
	name := t.file.Name()
	if isStopped {
		name = atomicfile.PartialName(name)
		t.o.Say(fmt.Sprintf("%s has the finished ones, %d", name, t.finished))
	}
	return atomicfile.WithPath(name, t.file.CommitAs(name))
}

// draftCounts counts what self-speculation did.
type draftCounts struct {
	tokens   int
	passes   int
	drafted  int
	accepted int
}

// add counts a sample.
func (d *draftCounts) add(s Sample) {
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
func (d *draftCounts) report() string {
	if d.drafted == 0 {
		return ""
	}
	return fmt.Sprintf("self-speculation: %.2f tokens a pass, %d of %d drafted tokens were right",
		float64(d.tokens)/float64(d.passes), d.accepted, d.drafted)
}
