package unmask

import (
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
)

// Grammar says what the made part of a text spells: from the first masked position to the last. At
// most one field is set. A text that goes on to the end of the sequence may be shorter than its
// room; then the token that ends a text follows or, if the model has none, spaces.
type Grammar struct {
	// Schema is a JSON Schema; see docs/structured.md for what it may hold.
	Schema json.RawMessage `json:"schema,omitempty"`
	Regex  string          `json:"regex,omitempty"`  // in RE2's syntax, matching all of it
	Choice []string        `json:"choice,omitempty"` // one of these texts
	Calls  *Calls          `json:"calls,omitempty"`  // calls of functions

	// Recursion is how often a definition of Schema contains itself, 0 for as often as fits.
	Recursion int `json:"recursion,omitempty"`
}

// Recursion bounds Grammar.Recursion.
var Recursion = param.Param{Name: "recursion", Min: 0, Max: 64, Default: "0",
	Help: "how often a definition of the schema contains itself, 0 for as often as fits"}

// IsZero reports whether any text is allowed.
func (g *Grammar) IsZero() bool {
	return g.Schema == nil && g.Regex == "" && g.Choice == nil && g.Calls == nil && g.Recursion == 0
}

// compile returns the automaton over bytes, the name of the field that it is from and, of choices,
// which of them ends in each state. With open, spaces and newlines may follow choices.
func (g *Grammar) compile(m *Model, open bool) (d *grammar.DFA, ends []int32, name string,
	err error) {
	set := 0
	for _, is := range []bool{g.Schema != nil, g.Regex != "", g.Choice != nil, g.Calls != nil} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return nil, nil, "schema", param.Refuse("schema", param.NoEffect,
			"schema, regex, choice and calls together, want one of them")
	case g.Recursion != 0 && g.Schema == nil:
		return nil, nil, "recursion", param.Refuse("recursion", param.NoEffect,
			"recursion without a schema, want one with it")
	case g.Recursion < 0 || g.Recursion > int(Recursion.Max):
		return nil, nil, "recursion", &param.Error{Name: "recursion", Found: fmt.Sprint(g.Recursion),
			Want: fmt.Sprintf("0 to %v", Recursion.Max)}
	case g.Schema != nil:
		s, err := schema.Compile(g.Schema, schema.Options{Depth: g.Recursion})
		if err != nil {
			return nil, nil, "schema", err
		}
		return s.DFA, nil, "schema", nil
	case g.Regex != "":
		d, err = grammar.Regexp(g.Regex, schema.DefaultLimit)
		return d, nil, "regex", err
	case g.Calls != nil:
		form, own := m.callForm()
		d, err = g.Calls.compile(form, own)
		return d, nil, "calls", err
	}
	if len(g.Choice) == 0 || slices.ContainsFunc(g.Choice, func(t string) bool {
		return t == "" || !utf8.ValidString(t)
	}) {
		return nil, nil, "choice", &param.Error{Name: "choice", Found: fmt.Sprintf("%q", g.Choice),
			Want: "texts in UTF-8 that are not empty"}
	}
	d, ends, err = grammar.Labelled(g.Choice, open, schema.DefaultLimit)
	return d, ends, "choice", err
}

// refusal returns an error of a grammar as one about a field.
func refusal(name string, err error) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*schema.Refused](err); ok {
		return &param.Error{Name: name, Found: r.What + " at #" + r.At,
			Want: "what docs/structured.md lists", Reason: param.Unsupported}
	}
	return param.About(name, err)
}

// language returns the language of a sequence whose tokens are known but for masks, and the tokens
// that end it: ends, or those that end the model's texts.
func (m *Model) language(g *Grammar, tokens, ends []int32) (*constrain.Language, []int32, error) {
	spec := m.Spec()
	if m.Text == nil {
		return nil, nil, param.Refuse("schema", param.Unsupported,
			"schema, regex or choice, want none: the model makes no text")
	}
	l := &constrain.Language{From: slices.Index(tokens, spec.Mask)}
	if l.From < 0 {
		return nil, ends, nil // nothing is made
	}
	for l.To = len(tokens); tokens[l.To-1] != spec.Mask; {
		l.To--
	}
	last := l.To == len(tokens)
	if !last {
		ends = nil // the text goes on
	} else if len(ends) == 0 {
		ends = m.TextEnds()
	}
	c, name, err := m.grammars.get(g, ends, last && len(ends) == 0)
	if err == nil {
		l.Tokens, l.Choices, l.Text = c.tokens, c.choices, c.text
		err = l.Check(tokens, spec.Mask)
	}
	return l, ends, refusal(name, err)
}

// TextEnds returns the tokens that end the model's texts, nil if its vocabulary has none.
func (m *Model) TextEnds() []int32 {
	if list := m.Spec().Ends; len(list) > 0 {
		return list
	}
	if end, ok := m.Text.Special(tokenizers.EndOfText); ok {
		return []int32{end}
	}
	return nil
}

// Vocabulary returns the trie of a tokenizer's tokens for a model of some outcomes. Special tokens
// are not in it: what they spell is not text.
func Vocabulary(t tokenizers.Tokenizer, spec model.Spec) *grammar.Vocabulary {
	return grammar.NewVocabulary(spec.Outcomes, func(id int32) (string, bool) {
		if id == spec.Mask || tokenizers.IsSpecial(t, id) || slices.Contains(spec.Ends, id) {
			return "", false
		}
		return t.Token(id)
	})
}

// maxGrammars is how much memory the automata take that a model keeps.
const maxGrammars = 256 << 20

// grammars keeps a model's automata, those used last.
type grammars struct {
	model      *Model
	vocabulary func() *grammar.Vocabulary // once

	mutex sync.Mutex
	bytes int
	used  list.List // of *compiledGrammar, the latest first
	byKey map[string]*list.Element
}

type compiledGrammar struct {
	key, name string
	tokens    *grammar.Tokens
	choices   *constrain.Choices // of choices
	text      *grammar.DFA       // see constrain.Language
}

func newGrammars(m *Model) *grammars {
	return &grammars{model: m, byKey: map[string]*list.Element{}, vocabulary: sync.OnceValue(
		func() *grammar.Vocabulary { return Vocabulary(m.Text, m.Spec()) })}
}

// get returns a grammar's automaton, and the name of its field. With open, spaces and newlines may
// follow.
func (k *grammars) get(g *Grammar, ends []int32, open bool) (*compiledGrammar, string, error) {
	calls, _ := json.Marshal(g.Calls) // what it cannot write is refused below
	key := fmt.Sprintf("%q %q %q %q %d %v %v", g.Schema, g.Regex, g.Choice, calls, g.Recursion,
		ends, open)
	k.mutex.Lock()
	if e := k.byKey[key]; e != nil {
		k.used.MoveToFront(e)
		k.mutex.Unlock()
		c := e.Value.(*compiledGrammar)
		return c, c.name, nil
	}
	k.mutex.Unlock()
	d, labels, name, err := g.compile(k.model, open)
	if err != nil {
		return nil, name, err
	}
	c := &compiledGrammar{key: key, name: name}
	if open {
		if c.text = d; name == "choice" {
			c.text, err = grammar.Choices(g.Choice, schema.DefaultLimit)
		} else {
			d = d.Spaced()
		}
		if err != nil {
			return nil, name, err
		}
	}
	c.tokens, err = d.Tokens(k.vocabulary(), grammar.TokenOptions{Ends: ends, Fill: ends,
		Cut: g.Calls != nil && g.Calls.Text})
	if err != nil {
		return nil, name, err
	}
	if labels != nil {
		c.choices = constrain.NewChoices(g.Choice, c.tokens, labels)
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.byKey[key] == nil { // another goroutine may have made it
		k.byKey[key] = k.used.PushFront(c)
		k.bytes += c.tokens.Bytes()
	}
	for k.bytes > maxGrammars && k.used.Len() > 1 {
		old := k.used.Remove(k.used.Back()).(*compiledGrammar)
		delete(k.byKey, old.key)
		k.bytes -= old.tokens.Bytes()
	}
	return c, name, nil
}
