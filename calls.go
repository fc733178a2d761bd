package unmask

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/param"
	"unmask/tokenizers/chat"
)

// Calls say that a text is calls of functions, as the model's chat template spells them; without
// a form of the template, it is one call as [chat.PlainCalls] has it.
type Calls struct {
	Functions []Function `json:"functions"`
	Several   bool       `json:"several,omitempty"` // one call or more, where the template has calls

	// Text allows any text, which calls may follow. What the template spells before the first
	// name is in no text but before calls. Only for a template that shows functions and has calls.
	Text bool `json:"text,omitempty"`
}

// Function is one that may be called.
type Function struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"` // JSON Schema of its arguments, an object
}

// callForm returns how the model's answers spell calls, and whether its template says so.
func (m *Model) callForm() (form chat.CallForm, own bool) {
	if c, err := m.Chat(); err == nil {
		return c.CallForm()
	}
	return chat.PlainCalls, false
}

// compile returns the automaton of texts with calls in a form.
func (c *Calls) compile(form chat.CallForm, own bool, budget *grammar.Budget) (*grammar.DFA,
	error) {
	if c.Text && !own {
		return nil, param.Refuse("calls", param.Unsupported,
			"calls or text, want calls alone: the model's chat template has no place for them")
	}
	if len(c.Functions) == 0 {
		return nil, &param.Error{Name: "calls", Found: "of no function", Want: "one at least"}
	}
	b := grammar.NewBuilder(budget)
	from, name, done, to := b.State(), b.State(), b.State(), b.State()
	if c.Text {
		before, alone, err := aroundMark(form.First, budget)
		if err != nil {
			return nil, err
		}
		b.Embed(from, name, before)
		b.Embed(from, to, alone)
	} else {
		b.Empty(b.Text(from, form.First), name)
	}
	for i := range c.Functions {
		f := &c.Functions[i]
		arguments, err := f.arguments(budget.States()*9/10/len(c.Functions), budget)
		if err != nil {
			return nil, err
		}
		b.Embed(b.Text(b.Text(name, f.Name), form.Arguments), done, arguments)
	}
	if c.Several && own {
		b.Empty(b.Text(done, form.Next), name)
	}
	b.Empty(b.Text(done, form.Last), to)
	return b.DFA(from, to)
}

// arguments returns the automaton of a function's arguments, which has about share states or, where
// it does not fit into them, as many as it needs.
func (f *Function) arguments(share int, budget *grammar.Budget) (*grammar.DFA, error) {
	s, err := schema.Compile(f.Parameters, schema.Options{Limit: share, Budget: budget})
	if _, ok := errors.AsType[*grammar.TooLarge](err); ok {
		s, err = schema.Compile(f.Parameters, schema.Options{Budget: budget})
	}
	if r, ok := errors.AsType[*schema.Refused](err); ok {
		return nil, &schema.Refused{What: f.Name + "'s " + r.What, At: r.At}
	}
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}
	object, err := grammar.Regexp(`(?s)\{.*`, budget)
	if err != nil {
		return nil, err
	}
	d, err := grammar.Intersect(s.DFA, object, budget)
	if err == nil && d.Empty() {
		err = fmt.Errorf("function %s: parameters allow no object, want some", f.Name)
	}
	return d, err
}

// aroundMark returns the automata of the texts in which mark is at the end and nowhere else, and of
// those without it.
func aroundMark(mark string, budget *grammar.Budget) (before, alone *grammar.DFA, err error) {
	text := func(pattern string) (d *grammar.DFA) {
		if err == nil {
			d, err = grammar.Regexp(pattern, budget)
		}
		return d
	}
	has := "(?s).*" + regexp.QuoteMeta(mark)
	every, some, last, more := text("(?s).*"), text(has+".*"), text(has), text(has+".+")
	if err != nil {
		return nil, nil, err
	}
	if before, err = grammar.Subtract(last, more, budget); err != nil {
		return nil, nil, err
	}
	alone, err = grammar.Subtract(every, some, budget)
	return before, alone, err
}
