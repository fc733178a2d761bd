package outputs

import (
	"errors"
	"fmt"

	"unmask"
	"unmask/generate"
	"unmask/internal/whole"
	"unmask/tokenizers"
	"unmask/traces"
)

// Trace writes what opened when in a run to a file. A nil one does nothing.
type Trace struct {
	w    *traces.Writer
	name string
	say  func(line string)
}

// OpenTrace begins the trace of a run, completed by Model.Check, in the file name; "" is none.
// model is the model's name in it. say, which may be nil, gets messages.
func OpenTrace(name, model string, m *unmask.Model, r unmask.Run, say func(line string)) (*Trace,
	error) {
	if name == "" {
		return nil, nil
	}
	var t tokenizers.Tokenizer // none where the model makes no text
	if m.Text != nil {
		t = m.Text
	}
	w, err := traces.Create(name, traces.NewHeader(m.Spec(), r, t, model, unmask.Hole), t)
	if err != nil {
		return nil, err
	}
	return &Trace{w, name, say}, nil
}

// Step writes what a step did.
func (t *Trace) Step(step *generate.Step) error {
	if t == nil {
		return nil
	}
	return whole.Named(t.name, t.w.Write(step))
}

// Close ends the trace of a run that ended with ran. The file appears if that is nil; what there is
// of a stopped run appears beside it, see whole.Part; after another error there is none.
func (t *Trace) Close(ran error) error {
	switch {
	case t == nil:
		return nil
	case ran == nil:
		return whole.Named(t.name, t.w.Close())
	case !errors.Is(ran, ErrStopped):
		t.w.Discard()
		return nil
	}
	part := whole.Part(t.name)
	if t.say != nil {
		t.say(fmt.Sprintf("%s has the steps so far", part))
	}
	return whole.Named(part, t.w.CloseAs(part))
}
