package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/param"
	"unmask/tokenizers/chat"
)

// Grammar says what the generated part of a text spells: from the first masked position to the
// last. At most one of Schema, Regex, Choice and Calls is set. A text that goes on to the end of
// the sequence may be shorter than its room; then the token that ends a text follows or, if the
// model has none, spaces.
type Grammar struct {
	// Schema is a JSON Schema; see docs/structured.md for what it may hold.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Regex is an expression in RE2's syntax that matches all of the text.
	Regex string `json:"regex,omitempty"`

	// Choice are texts, of which the text is one.
	Choice []string `json:"choice,omitempty"`

	// Calls say that the text is calls of functions.
	Calls *Calls `json:"calls,omitempty"`

	// Avoid are expressions as Regex has them that match nowhere in the generated text, also not
	// partly in what stands around it.
	Avoid []string `json:"avoid,omitempty"`

	// Recursion is how often a definition of Schema contains itself, 0 for as often as fits.
	Recursion int `json:"recursion,omitempty"`
}

// Recursion bounds Grammar.Recursion.
var Recursion = param.Param{Name: "recursion", Min: 0, Max: 64, Default: "0",
	Help: "how often a definition of the schema contains itself, 0 for as often as fits"}

// IsZero reports whether any text is allowed.
func (g *Grammar) IsZero() bool {
	return len(g.formFields()) == 0 && len(g.Avoid) == 0 && g.Recursion == 0
}

// EndsItself reports whether a text of the grammar that is whole has ended. What only avoids
// something goes on, as any text does, and so does a text that may also have calls.
func (g *Grammar) EndsItself() bool {
	return len(g.formFields()) > 0 && (g.Calls == nil || !g.Calls.Text)
}

// avoidsAlone reports whether any text is allowed but for what Avoid forbids.
func (g *Grammar) avoidsAlone() bool { return len(g.formFields()) == 0 && g.Recursion == 0 }

// formFields returns the names of the set fields among those of which only one may be set.
func (g *Grammar) formFields() []string {
	var names []string
	if g.Schema != nil {
		names = append(names, "schema")
	}
	if g.Regex != "" {
		names = append(names, "regex")
	}
	if g.Choice != nil {
		names = append(names, "choice")
	}
	if g.Calls != nil {
		names = append(names, "calls")
	}
	return names
}

// Field returns the name of the field that a refusal of the grammar is about. Avoid may stand
// beside another field, which is then the more telling one.
func (g *Grammar) Field() string {
	if names := g.formFields(); len(names) > 0 {
		return names[0]
	}
	return "avoid"
}

// placement is where a grammar's text stands in its sequence.
type placement struct {
	// before and after are the known texts around it. Only Avoid reads them.
	before, after string

	// endTokens may follow the text.
	endTokens []int32

	// padTokens may stand anywhere in it, and spell nothing.
	padTokens []int32

	// isFree says that the text is one of a run without a grammar but for what it avoids: it need not
	// end, and any tokens follow its end.
	isFree bool

	// spacesFollow says that the text runs to the end of a sequence for which the model has no end
	// token, and none that pads, so that spaces and newlines fill what is left.
	spacesFollow bool
}

// compile returns the automaton over bytes and, of choices, which one ends in each state.
func (g *Grammar) compile(form templateForm, place *placement, budget *grammar.Budget) (
	*grammar.DFA, []int32, error) {
	if len(g.Avoid) == 0 {
		automaton, choiceEnds, err := g.compileForm(form, place.spacesFollow, budget)
		return automaton, choiceEnds, asRefusal(g.Field(), err)
	}
	if g.Choice != nil {
		return nil, nil, param.Refuse("avoid", param.NoEffect,
			"avoid with choice, want the choices without what they should avoid")
	}

	avoiding, err := grammar.Avoid(g.Avoid, place.before, place.after, budget)
	withoutAvoid := *g
	withoutAvoid.Avoid = nil
	if err != nil || withoutAvoid.IsZero() {
		return avoiding, nil, asRefusal("avoid", err)
	}
	automaton, _, err := withoutAvoid.compile(form, place, budget)
	if err != nil {
		return nil, nil, err
	}
	automaton, err = grammar.Intersect(automaton, avoiding, budget)
	if err == nil && automaton.Empty() {
		err = param.Refuse("avoid", param.NoEffect, "avoid leaves no text of the %s, want some",
			withoutAvoid.Field())
	}
	return automaton, nil, asRefusal("avoid", err)
}

// compileForm compiles the schema, expression, choices or calls, without Avoid.
func (g *Grammar) compileForm(form templateForm, spacesFollow bool, budget *grammar.Budget) (
	*grammar.DFA, []int32, error) {
	if len(g.formFields()) > 1 {
		return nil, nil, param.Refuse("schema", param.NoEffect,
			"schema, regex, choice and calls together, want one of them")
	}
	if g.Recursion != 0 && g.Schema == nil {
		return nil, nil, param.Refuse("recursion", param.NoEffect,
			"recursion without a schema, want one with it")
	}
	if g.Recursion < 0 || g.Recursion > int(Recursion.Max) {
		return nil, nil, &param.Error{Name: "recursion", Found: fmt.Sprint(g.Recursion),
			Want: fmt.Sprintf("0 to %v", Recursion.Max)}
	}

	switch {
	case g.Schema != nil:
		compiled, err := schema.Compile(g.Schema,
			schema.Options{Recursion: g.Recursion, Budget: budget})
		if err != nil {
			return nil, nil, err
		}
		return compiled.DFA, nil, nil
	case g.Regex != "":
		automaton, err := grammar.Regexp(g.Regex, budget)
		return automaton, nil, err
	case g.Calls != nil:
		automaton, err := g.Calls.compile(form, budget)
		return automaton, nil, err
	}

	isBad := func(text string) bool { return text == "" || !utf8.ValidString(text) }
	if len(g.Choice) == 0 || slices.ContainsFunc(g.Choice, isBad) {
		return nil, nil, &param.Error{Name: "choice", Found: fmt.Sprintf("%q", g.Choice),
			Want: "texts in UTF-8 that are not empty"}
	}
	return grammar.LabelledChoices(g.Choice, spacesFollow, budget)
}

// templateForm is how a model's answers spell calls of functions.
type templateForm struct {
	chat.CallForm

	// own reports whether the model's chat template has the form. Otherwise it is chat.PlainCalls.
	own bool
}

// asRefusal returns an error of a grammar as one about a field of the request.
func asRefusal(field string, err error) error {
	if err == nil {
		return nil
	}
	if refusal, ok := err.(*param.Error); ok {
		if refusal.Name != "grammar" {
			return err
		}
		return &param.Error{Name: field, Found: refusal.Found, Want: refusal.Want,
			Reason: refusal.Reason}
	}
	if unsupported, ok := errors.AsType[*schema.UnsupportedError](err); ok {
		return &param.Error{
			Name:   field,
			Found:  unsupported.Feature + " at #" + unsupported.Pointer,
			Want:   "what docs/structured.md lists",
			Reason: param.Unsupported,
		}
	}
	return param.WithName(field, err)
}

// AsRefusal returns an error about a grammar as one about the grammar's field of a request.
func (g *Grammar) AsRefusal(err error) error { return asRefusal(g.Field(), err) }
