package unmask

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/model"
	"unmask/param"
	"unmask/tokenizers/chat"
)

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
	for _, text := range c.Ban {
		tokens, err := tokenIDs(m.Text, m.Spec(), text)
		if err != nil {
			return nil, param.About("ban", err)
		}
		f.Ban = append(slices.Clip(f.Ban), tokens...)
	}
	if len(c.Bias) > 0 {
		f.Bias = maps.Clone(f.Bias)
	}
	for _, text := range c.Bias {
		if err := m.bias(f, text); err != nil {
			return nil, param.About("bias", err)
		}
	}
	if c.MinLength == 0 && !c.Cut {
		return nil, nil
	}
	spec := m.Spec()
	length -= spec.Around()
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
		if position < len(spec.Before)+c.MinLength {
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
