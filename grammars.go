package unmask

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"unmask/constrain"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/internal/lru"
	"unmask/internal/turns"
	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// Grammar says what the made part of a text spells: from the first masked position to the last. At
// most one of Schema, Regex, Choice and Calls is set. A text that goes on to the end of the
// sequence may be shorter than its room; then the token that ends a text follows or, if the model
// has none, spaces.
type Grammar struct {
	// Schema is a JSON Schema; see docs/structured.md for what it may hold.
	Schema json.RawMessage `json:"schema,omitempty"`
	Regex  string          `json:"regex,omitempty"`  // in RE2's syntax, matching all of it
	Choice []string        `json:"choice,omitempty"` // one of these texts
	Calls  *Calls          `json:"calls,omitempty"`  // calls of functions

	// Avoid are expressions as Regex has them that match nowhere in the made text, also not partly
	// in what stands around it.
	Avoid []string `json:"avoid,omitempty"`

	// Recursion is how often a definition of Schema contains itself, 0 for as often as fits.
	Recursion int `json:"recursion,omitempty"`
}

// Recursion bounds Grammar.Recursion.
var Recursion = param.Param{Name: "recursion", Min: 0, Max: 64, Default: "0",
	Help: "how often a definition of the schema contains itself, 0 for as often as fits"}

// IsZero reports whether any text is allowed.
func (g *Grammar) IsZero() bool {
	return len(g.spells()) == 0 && len(g.Avoid) == 0 && g.Recursion == 0
}

// spells returns the names of the fields that are set of those of which one may be.
func (g *Grammar) spells() (names []string) {
	set := []bool{g.Schema != nil, g.Regex != "", g.Choice != nil, g.Calls != nil}
	for i, name := range []string{"schema", "regex", "choice", "calls"} {
		if set[i] {
			names = append(names, name)
		}
	}
	return names
}

// field returns the name of the field that a refusal is about; avoid may stand beside another.
func (g *Grammar) field() string { return append(g.spells(), "avoid")[0] }

// place is where a grammar's text stands.
type place struct {
	before, after string // what is known around it; only for Avoid
	ends          []int32
	open          bool // spaces and newlines may follow
}

// compile returns the automaton over bytes and, of choices, which one ends in each state. Spaces
// and newlines may follow choices of an open place.
func (g *Grammar) compile(m *Model, at *place, budget *grammar.Budget) (d *grammar.DFA,
	ends []int32, err error) {
	if len(g.Avoid) == 0 {
		d, ends, err = g.spelled(m, at.open, budget)
		return d, ends, refusal(g.field(), err)
	}
	if g.Choice != nil {
		return nil, nil, param.Refuse("avoid", param.NoEffect,
			"avoid with choice, want the choices without what they should avoid")
	}
	avoid, err := grammar.Avoid(g.Avoid, at.before, at.after, budget)
	rest := *g
	if rest.Avoid = nil; err != nil || rest.IsZero() {
		return avoid, nil, refusal("avoid", err)
	}
	if d, _, err = rest.compile(m, at, budget); err != nil {
		return nil, nil, err
	}
	if d, err = grammar.Intersect(d, avoid, budget); err == nil && d.Empty() {
		err = param.Refuse("avoid", param.NoEffect, "avoid leaves no text of the %s, want some",
			rest.field())
	}
	return d, nil, refusal("avoid", err)
}

// spelled is compile without Avoid.
func (g *Grammar) spelled(m *Model, open bool, budget *grammar.Budget) (d *grammar.DFA,
	ends []int32, err error) {
	switch {
	case len(g.spells()) > 1:
		return nil, nil, param.Refuse("schema", param.NoEffect,
			"schema, regex, choice and calls together, want one of them")
	case g.Recursion != 0 && g.Schema == nil:
		return nil, nil, param.Refuse("recursion", param.NoEffect,
			"recursion without a schema, want one with it")
	case g.Recursion < 0 || g.Recursion > int(Recursion.Max):
		return nil, nil, &param.Error{Name: "recursion", Found: fmt.Sprint(g.Recursion),
			Want: fmt.Sprintf("0 to %v", Recursion.Max)}
	case g.Schema != nil:
		s, err := schema.Compile(g.Schema, schema.Options{Recursion: g.Recursion, Budget: budget})
		if err != nil {
			return nil, nil, err
		}
		return s.DFA, nil, nil
	case g.Regex != "":
		d, err = grammar.Regexp(g.Regex, budget)
		return d, nil, err
	case g.Calls != nil:
		form, own := m.callForm()
		d, err = g.Calls.compile(form, own, budget)
		return d, nil, err
	}
	if len(g.Choice) == 0 || slices.ContainsFunc(g.Choice, func(t string) bool {
		return t == "" || !utf8.ValidString(t)
	}) {
		return nil, nil, &param.Error{Name: "choice", Found: fmt.Sprintf("%q", g.Choice),
			Want: "texts in UTF-8 that are not empty"}
	}
	return grammar.LabelledChoices(g.Choice, open, budget)
}

// refusal returns an error of a grammar as one about a field.
func refusal(name string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*param.Error); ok && e.Name == "grammar" {
		return &param.Error{Name: name, Found: e.Found, Want: e.Want, Reason: e.Reason}
	} else if ok {
		return err
	}
	if r, ok := errors.AsType[*schema.UnsupportedError](err); ok {
		return &param.Error{Name: name, Found: r.Feature + " at #" + r.Pointer,
			Want: "what docs/structured.md lists", Reason: param.Unsupported}
	}
	return param.WithName(name, err)
}

// language returns the language of a sequence whose tokens are known but for masks, and the tokens
// that end it: ends, or those that end the model's texts.
func (m *Model) language(ctx context.Context, g *Grammar, tokens, ends []int32) (
	*constrain.Language, []int32, error) {
	spec := m.Spec()
	if m.Text == nil {
		return nil, nil, param.Refuse("schema", param.Unsupported,
			"schema, regex or choice, want none: the model makes no text")
	}
	l := &constrain.Language{FirstPosition: slices.Index(tokens, spec.Mask)}
	if l.FirstPosition < 0 {
		return nil, ends, nil // nothing is made
	}
	for l.EndPosition = len(tokens); tokens[l.EndPosition-1] != spec.Mask; {
		l.EndPosition--
	}
	last := l.EndPosition == len(tokens)
	if !last {
		ends = nil // the text goes on
	} else if len(ends) == 0 {
		ends = spec.EndTokens
		if id, ok := m.Text.eos(); ok && len(ends) == 0 {
			ends = []int32{id}
		}
	}
	at := &place{ends: ends, open: last && len(ends) == 0}
	if len(g.Avoid) > 0 {
		at.before, at.after = m.textOf(tokens[:l.FirstPosition]), m.textOf(tokens[l.EndPosition:])
	}
	c, err := m.compiled(ctx, g, at)
	if err == nil {
		l.Tokens, l.Choices, l.Text = c.Tokens, c.Choices, c.Text
		err = refusal(g.field(), m.check(ctx, l, tokens))
	}
	return l, ends, err
}

// check returns an error if a language has no text with some tokens. Checks that look at many edges
// take turns, as compiling does.
func (m *Model) check(ctx context.Context, l *constrain.Language, tokens []int32) error {
	if l.Work() > 1<<24 {
		owner, _ := ctx.Value(ownerKey{}).(string)
		back, err := compiling.Take(ctx, owner, 1)
		if err != nil {
			return err
		}
		defer back()
	}
	return l.Check(tokens, m.Spec().Mask)
}

// textOf returns the text of known tokens as automata read it, without special ones.
func (m *Model) textOf(tokens []int32) string {
	var b strings.Builder
	for _, id := range tokens {
		if text, ok := tokenText(m.Text, m.Spec(), id); ok {
			b.WriteString(text)
		}
	}
	return b.String()
}

// tokenText returns the text of a token, none of a special one.
func tokenText(t tokenizers.Tokenizer, spec model.Spec, id int32) (string, bool) {
	if id == spec.Mask || tokenizers.IsSpecial(t, id) || slices.Contains(spec.EndTokens, id) {
		return "", false
	}
	return t.Token(id)
}

// Vocabulary returns the trie of a tokenizer's tokens for a model of some outcomes. Special tokens
// are not in it: what they spell is not text.
func Vocabulary(t tokenizers.Tokenizer, spec model.Spec) *grammar.Vocabulary {
	return grammar.NewVocabulary(spec.Outcomes, func(id int32) (string, bool) {
		return tokenText(t, spec, id)
	})
}

// ownerKey is the key of a context's owner.
type ownerKey struct{}

// ForOwner returns a context of work for an owner, such as a client of a server. Owners take turns
// where grammars are compiled, and the one that keeps the most of them is the first to lose some.
func WithOwner(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, ownerKey{}, name)
}

// compiling leaves a processor to passes, if there are several.
var compiling = turns.New(int64(max(1, runtime.GOMAXPROCS(0)-1)))

// maxGrammars is how much memory the automata take that a model keeps, in bytes.
const maxGrammars = 128 << 20

// grammars are languages of a model by a hash of what they are of, without positions, those used
// last.
type grammars = lru.Cache[[sha256.Size]byte, *constrain.Language]

// compiled returns the language of a grammar.
func (m *Model) compiled(ctx context.Context, g *Grammar, at *place) (*constrain.Language, error) {
	calls, _ := json.Marshal(g.Calls) // what it cannot write is refused below
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %v %v %q %q %q", g.Schema, g.Regex, g.Choice,
		calls, g.Recursion, at.ends, at.open, g.Avoid, at.before, at.after))
	if c, ok := m.grammars.Get(key); ok {
		return c, nil
	}
	owner, _ := ctx.Value(ownerKey{}).(string)
	back, err := compiling.Take(ctx, owner, 1)
	if err != nil {
		return nil, err
	}
	defer back()
	if c, ok := m.grammars.Get(key); ok { // another goroutine may have made it
		return c, nil
	}
	c := &constrain.Language{}
	if err := m.compile(ctx, c, g, at); err != nil {
		return nil, err
	}
	m.grammars.Put(key, c, owner, int64(c.Bytes()))
	return c, nil
}

// compile makes the automata of a grammar.
func (m *Model) compile(ctx context.Context, c *constrain.Language, g *Grammar, at *place) error {
	budget := grammar.NewBudget(ctx, schema.DefaultLimit)
	d, labels, err := g.compile(m, at, budget)
	if err != nil {
		return err
	}
	if at.open {
		if c.Text = d; g.Choice != nil {
			c.Text, err = grammar.Choices(g.Choice, budget)
		} else {
			d = d.WithTrailingSpace()
		}
		if err != nil {
			return refusal("choice", err)
		}
	}
	c.Tokens, err = d.Tokens(m.vocabulary(), grammar.TokenOptions{
		EndTokens:   at.ends,
		FillTokens:  at.ends,
		MayTruncate: g.Calls != nil && g.Calls.Text,
		Budget:      budget,
	})
	if err == nil && labels != nil {
		c.Choices = constrain.NewChoices(g.Choice, c.Tokens, labels)
	}
	return refusal(g.field(), err)
}

// Constraints restrict the tokens that a run may draw, in text. TOKENS are ids such as "3,17" or,
// where the model makes text, a special token's spelling or a text, meaning each of its tokens.
type Constraints struct {
	Ban  []string `json:"ban,omitempty"`  // TOKENS that are never drawn
	Bias []string `json:"bias,omitempty"` // TOKENS=VALUE adds VALUE to their logits

	// MinLength is the least length of a text: End is not drawn at the first MinLength positions.
	MinLength int `json:"min_length,omitempty"`
	// Cut shows a text only up to its first End after what was given.
	Cut bool   `json:"cut,omitempty"`
	End string `json:"end,omitempty"` // the token for MinLength and Cut, as Text.End reads it
	// Stop are texts; what is shown of a text ends before the first of them in what was made.
	Stop []string `json:"stop,omitempty"`

	Grammar
}

// constrain adds the bans and biases of c to a filter, and returns the rest as an Adjust, nil for
// none. length is the number of the sequence's positions, with those around the text.
func (m *Model) constrain(f *model.Filter, c Constraints, length int) (
	adjust func(position int, logits []float32), err error) {
	f.Ban = slices.Clone(f.Ban)
	for _, text := range c.Ban {
		tokens, err := tokenIDs(m.Text, m.Spec(), text)
		if err != nil {
			return nil, param.WithName("ban", err)
		}
		f.Ban = append(f.Ban, tokens...)
	}
	slices.Sort(f.Ban)
	f.Ban = slices.Compact(f.Ban)
	if len(c.Bias) > 0 {
		f.Bias = maps.Clone(f.Bias)
	}
	for _, text := range c.Bias {
		if err := m.bias(f, text); err != nil {
			return nil, param.WithName("bias", err)
		}
	}
	if c.MinLength == 0 && !c.Cut {
		return nil, nil
	}
	spec := m.Spec()
	length -= spec.SpecialCount()
	if c.MinLength < 0 || c.MinLength > length {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: fmt.Sprintf("0 to %d, the length", length)}
	}
	if m.Text == nil {
		return nil, &param.Error{Name: "min-length", Found: fmt.Sprint(c.MinLength),
			Want: "0: the model makes no text", Reason: param.Unsupported}
	}
	end, err := m.Text.End(c.End)
	if err != nil || c.MinLength == 0 {
		return nil, err
	}
	return func(position int, logits []float32) {
		if position < len(spec.BeforeText)+c.MinLength {
			logits[end] = float32(math.Inf(-1))
		}
	}, nil
}

// bias adds one "TOKENS=VALUE" of Constraints.Bias to a filter.
func (m *Model) bias(f *model.Filter, text string) error {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return fmt.Errorf("%q has no value, want TOKENS=VALUE", text)
	}
	value, err := strconv.ParseFloat(text[at+1:], 32)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 1) {
		return fmt.Errorf("the value of %q is %q, want a number", text, text[at+1:])
	}
	tokens, err := tokenIDs(m.Text, m.Spec(), text[:at])
	if err != nil {
		return err
	}
	if f.Bias == nil {
		f.Bias = map[int32]float32{}
	}
	for _, t := range tokens {
		f.Bias[t] += float32(value)
	}
	return nil
}

// listed matches a list of token ids.
var listed = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

// tokenIDs reads TOKENS as Constraints describes them; t is nil where the model makes no text.
func tokenIDs(t *Text, spec model.Spec, text string) ([]int32, error) {
	switch {
	case listed.MatchString(text):
	case t == nil:
		return nil, fmt.Errorf("tokens are %q, want ids such as 3,17", text)
	default:
		if id, ok := t.Special(text); ok && id != spec.Mask {
			return []int32{id}, nil
		}
		ids, err := t.Encode(text)
		if err == nil && len(ids) == 0 {
			err = fmt.Errorf("tokens are %q, want at least one", text)
		}
		return ids, err
	}
	var ids []int32
	for field := range strings.SplitSeq(text, ",") {
		id, err := strconv.Atoi(field)
		if most := spec.Outcomes - 1; err != nil || id > most {
			return nil, fmt.Errorf("token is %s, want 0 to %d", field, most)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

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
	from, name, done, to := b.AddState(), b.AddState(), b.AddState(), b.AddState()
	if c.Text {
		before, alone, err := aroundMark(form.BeforeName, budget)
		if err != nil {
			return nil, err
		}
		b.Embed(from, name, before)
		b.Embed(from, to, alone)
	} else {
		b.AddEmpty(b.AddText(from, form.BeforeName), name)
	}
	for i := range c.Functions {
		f := &c.Functions[i]
		arguments, err := f.arguments(budget.States()*9/10/len(c.Functions), budget)
		if err != nil {
			return nil, err
		}
		b.Embed(b.AddText(b.AddText(name, f.Name), form.BeforeArguments), done, arguments)
	}
	if c.Several && own {
		b.AddEmpty(b.AddText(done, form.BeforeNextName), name)
	}
	b.AddEmpty(b.AddText(done, form.AfterCalls), to)
	return b.Build(from, to)
}

// arguments returns the automaton of a function's arguments, which has about share states or, where
// it does not fit into them, as many as it needs.
func (f *Function) arguments(share int, budget *grammar.Budget) (*grammar.DFA, error) {
	s, err := schema.Compile(f.Parameters, schema.Options{MaxStates: share, Budget: budget})
	if _, ok := errors.AsType[*grammar.TooLargeError](err); ok {
		s, err = schema.Compile(f.Parameters, schema.Options{Budget: budget})
	}
	if r, ok := errors.AsType[*schema.UnsupportedError](err); ok {
		return nil, &schema.UnsupportedError{Feature: f.Name + "'s " + r.Feature, Pointer: r.Pointer}
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
