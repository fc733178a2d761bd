package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/param"
)

// Calls say that a text is calls of functions, as the model's chat template spells them; without
// a form of the template, it is one call as [chat.PlainCalls] has it.
type Calls struct {
	Functions []Function `json:"functions"`

	// Several allows more than one call, where the template has calls.
	Several bool `json:"several,omitempty"`

	// Text allows any text, which calls may follow. What the template spells before the first
	// name is in no text but before calls. Only for a template that shows functions and has calls.
	Text bool `json:"text,omitempty"`
}

// Function is one that may be called.
type Function struct {
	Name string `json:"name"`

	// Parameters is the JSON Schema of its arguments, which are an object.
	Parameters json.RawMessage `json:"parameters"`
}

// compile returns the automaton of texts with calls in a form.
func (c *Calls) compile(form templateForm, budget *grammar.Budget) (*grammar.DFA, error) {
	if c.Text && !form.own {
		return nil, param.Refuse("calls", param.Unsupported,
			"calls or text, want calls alone: the model's chat template has no place for them")
	}
	if len(c.Functions) == 0 {
		return nil, &param.Error{Name: "calls", Found: "of no function", Want: "one at least"}
	}

	b := grammar.NewBuilder(budget)
	start := b.AddState()
	nameStart := b.AddState()
	callEnd := b.AddState()
	end := b.AddState()

	if c.Text {
		beforeCalls, withoutCalls, err := splitAtMark(form.BeforeName, budget)
		if err != nil {
			return nil, err
		}
		b.Embed(start, nameStart, beforeCalls)
		b.Embed(start, end, withoutCalls)
	} else {
		b.AddEmpty(b.AddText(start, form.BeforeName), nameStart)
	}

	// A tenth of the states is left for what stands around the arguments.
	share := budget.States() * 9 / 10 / len(c.Functions)
	for i := range c.Functions {
		function := &c.Functions[i]
		arguments, err := function.compileArguments(share, budget)
		if err != nil {
			return nil, err
		}
		afterName := b.AddText(nameStart, function.Name)
		b.Embed(b.AddText(afterName, form.BeforeArguments), callEnd, arguments)
	}

	if c.Several && form.own {
		b.AddEmpty(b.AddText(callEnd, form.BeforeNextName), nameStart)
	}
	b.AddEmpty(b.AddText(callEnd, form.AfterCalls), end)
	return b.Build(start, end)
}

// compileArguments returns the automaton of a function's arguments. It has about `share` states or,
// where the schema does not fit into them, as many as it needs: one function's large schema must
// not be refused because its neighbours' shares are unused.
func (f *Function) compileArguments(share int, budget *grammar.Budget) (*grammar.DFA, error) {
	compiled, err := schema.Compile(f.Parameters, schema.Options{MaxStates: share, Budget: budget})
	if _, ok := errors.AsType[*grammar.TooLargeError](err); ok {
		compiled, err = schema.Compile(f.Parameters, schema.Options{Budget: budget})
	}
	if unsupported, ok := errors.AsType[*schema.UnsupportedError](err); ok {
		return nil, &schema.UnsupportedError{
			Feature: f.Name + "'s " + unsupported.Feature,
			Pointer: unsupported.Pointer,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", f.Name, err)
	}

	object, err := grammar.Regexp(`(?s)\{.*`, budget)
	if err != nil {
		return nil, err
	}
	arguments, err := grammar.Intersect(compiled.DFA, object, budget)
	if err == nil && arguments.Empty() {
		err = fmt.Errorf("function %s: parameters allow no object, want some", f.Name)
	}
	return arguments, err
}

// splitAtMark returns the automata of the texts in which mark is at the end and nowhere else, and
// of those without it.
func splitAtMark(mark string, budget *grammar.Budget) (endingInMark, withoutMark *grammar.DFA,
	err error) {
	compile := func(pattern string) *grammar.DFA {
		if err != nil {
			return nil
		}
		var automaton *grammar.DFA
		automaton, err = grammar.Regexp(pattern, budget)
		return automaton
	}
	quoted := regexp.QuoteMeta(mark)
	anyText := compile("(?s).*")
	withMark := compile("(?s).*" + quoted + ".*")
	markAtEnd := compile("(?s).*" + quoted)
	textAfterMark := compile("(?s).*" + quoted + ".+")
	if err != nil {
		return nil, nil, err
	}
	endingInMark, err = grammar.Subtract(markAtEnd, textAfterMark, budget)
	if err != nil {
		return nil, nil, err
	}
	withoutMark, err = grammar.Subtract(anyText, withMark, budget)
	return endingInMark, withoutMark, err
}
