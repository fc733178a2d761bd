package outputs

import (
	"errors"
	"fmt"

	"unmask/generate"
	"unmask/generate/traces"
	"unmask/internal/atomicfile"
	"unmask/prompt"
	"unmask/tokenizers"
)

// Trace writes a run's trace to a file. A nil Trace does nothing. One goroutine at a time may use
// one.
type Trace struct {
	w *traces.Writer

	// name is the file, for errors.
	name string
	say  func(line string)
}

// OpenTrace begins the trace of a job in file name, "" for none. model is the model's name in the
// trace. say, which may be nil, receives messages.
func OpenTrace(name, model string, j *Job, say func(line string)) (*Trace, error) {
	if name == "" {
		return nil, nil
	}
	var t tokenizers.Tokenizer // nil if the model makes no text
	if j.Model.Text != nil {
		t = j.Model.Text
	}
	header := traces.NewHeader(j.Model.Spec(), j.Run.Request, t, model, prompt.Hole)
	w, err := traces.Create(name, header, t)
	if err != nil {
		return nil, err
	}
	return &Trace{w, name, say}, nil
}

// Step writes a step.
func (t *Trace) Step(step *generate.Step) error {
	if t == nil {
		return nil
	}
	return atomicfile.WithPath(t.name, t.w.Write(step))
}

// Close ends the trace of a run that returned runErr. If it is nil the file appears under its name.
// The trace of a stopped run appears under another name, see atomicfile.PartialName; after
// other errors there is no file.
func (t *Trace) Close(runErr error) error {
	switch {
	case t == nil:
		return nil
	case runErr == nil:
		return atomicfile.WithPath(t.name, t.w.Close())
	case !errors.Is(runErr, ErrStopped):
		t.w.Discard()
		return nil
	}
	partial := atomicfile.PartialName(t.name)
	if t.say != nil {
		t.say(fmt.Sprintf("%s has the steps so far", partial))
	}
	return atomicfile.WithPath(partial, t.w.CloseAs(partial))
}
