package unmask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/families/llama"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
	"unmask/tokenizers/chat"
)

// Prepare returns what r means for this model: its recipe complete, its text or picture as tokens,
// its constraints and conditions looked up. It knows
//
//   - defaults: parameters that r does not override are those of the model's published run or, if
//     it has none, of its kind; steps are then at most one for each masked position, and one for
//     a list of choices that differ in one token;
//   - lengths: without Length or MaxTokens, a text with holes has its own length. An answer to
//     messages and, for models of more than 1024 positions, what follows a prompt or nothing have
//     [ReplyLength] tokens, or as many as the model has positions left. Every other sequence has
//     the model's length.
//
// An error is a *param.Error that names the field, as a flag is named, or has such a cause; others
// are about the model or about files. ctx ends
// the compilation of a grammar and the encoding of prompts.
func (m *Model) Prepare(ctx context.Context, r Request) (generate.Request, error) {
	list, err := m.PrepareAll(ctx, []Request{r})
	if err != nil {
		return generate.Request{}, err
	}
	return list[0], nil
}

// PrepareAll is Prepare for a list of requests. Prompts of pictures are encoded together, and a
// picture that several requests share is encoded once.
func (m *Model) PrepareAll(ctx context.Context, list []Request) ([]generate.Request, error) {
	out := make([]generate.Request, len(list))
	pictures := map[*ImageInput][]int32{}
	for i := range list {
		var err error
		if out[i], err = m.prepare(ctx, &list[i], pictures); err != nil {
			return nil, inList(i, len(list), err)
		}
	}
	if err := m.setConditions(ctx, list, out); err != nil {
		return nil, err
	}
	for i := range list {
		var err error
		if out[i], err = out[i].Check(m.Denoiser); err == nil {
			out[i], err = m.redrawn(out[i], &list[i], pictures)
		}
		if err != nil {
			return nil, inList(i, len(list), err)
		}
	}
	return out, nil
}

// inList says which request of several an error is about.
func inList(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return &InputError{i, err}
}

// prepare returns a request without its condition.
func (m *Model) prepare(ctx context.Context, r *Request, pictures map[*ImageInput][]int32) (
	q generate.Request, err error) {
	if err := r.check(m); err != nil {
		return q, err
	}
	q.Seed, q.Index, q.Length = r.Seed, r.Index, r.Length
	if r.Image != nil {
		q.Known, err = m.imageTokens(r.Image, pictures)
	} else if m.Text != nil {
		q.Known, q.EndTokens, err = m.textTokens(r)
	} else if q.Known = r.Tokens; r.MaxTokens != 0 {
		err = &param.Error{Name: "max-tokens", Found: fmt.Sprint(r.MaxTokens),
			Want: "none: the model makes no text", Reason: param.Unsupported}
	}
	if err != nil {
		return q, err
	}
	spec := m.Spec()
	length, free := q.Length, spec.CountMasked(q.Known)
	if q.Known != nil {
		length = len(q.Known)
		if q.Length != 0 { // of the text, without the tokens that the model puts around it
			q.Length = length
		}
	} else if length == 0 {
		length = spec.DefaultLength()
	} else {
		free = length
	}
	base, err := m.recipe(r)
	if err != nil {
		return q, err
	}
	if !r.Grammar.IsZero() && r.Preset == "" {
		if base, err = m.spelling(base, r); err != nil {
			return q, err
		}
	}
	if m.Text != nil && m.Text.oneToken(r.Choice) {
		base = atOnce(base)
	}
	if q.Recipe, err = r.Overrides.Complete(base, m.Denoiser, free); err != nil {
		return q, err
	}
	q.Sampler = r.grow(q.Sampler, spec)
	if q.Adjust, err = m.constrain(&q.Filter, r.Constraints, length); err != nil {
		return q, err
	}
	if !r.Grammar.IsZero() {
		tokens := q.Known
		if tokens == nil {
			tokens = slices.Repeat([]int32{spec.Mask}, length)
		}
		if err = refusal(r.Grammar.field(), q.CheckGrammar(spec)); err == nil {
			q.Language, q.EndTokens, err = m.language(ctx, &r.Grammar, tokens, q.EndTokens)
		}
	}
	return q, err
}

// spelling returns the recipe for a grammar: the model's own or, where that cannot follow one and
// is not asked for, LLaDA's.
func (m *Model) spelling(own generate.Recipe, r *Request) (generate.Recipe, error) {
	spec := m.Spec()
	asked := r.Overrides["reuse"] == "causal" || spec.Growth != nil &&
		(r.goesOn() || strings.Contains(r.Infill, "["+anyLength+"]"))
	if asked || own.CheckGrammar(spec) == nil {
		return own, nil
	}
	return m.published(llama.LLaDARecipe)
}

// oneToken reports whether texts differ in one token.
func (t *Text) oneToken(texts []string) bool {
	var first []int32
	differs := -1
	for i, text := range texts {
		ids, err := t.Encode(text)
		if err != nil || i > 0 && len(ids) != len(first) {
			return false
		}
		if i == 0 {
			first = ids
		}
		for at := range ids {
			if ids[at] != first[at] {
				if differs >= 0 && differs != at {
					return false
				}
				differs = at
			}
		}
	}
	return len(texts) > 0
}

// atOnce returns a recipe that opens everything in one step: another step could only repeat what
// the first one computes of a choice.
func atOnce(r generate.Recipe) generate.Recipe {
	r.Steps, r.Cache = 1, 0
	if samplers.Is[samplers.Planner](r.Sampler) { // it opens as many as it likes
		probable := samplers.TakesMostProbable(r.Sampler)
		r.Sampler = samplers.ChooseThenSample{Order: samplers.Random{}}
		if probable {
			r.Sampler = samplers.Greedy{Inside: r.Sampler}
		}
	}
	return r
}

// checkGiven returns an error for a request that begins with several things.
func (r *Request) checkGiven(text bool) error {
	names := r.given(text)
	if len(names) < 2 {
		return nil
	}
	return param.Refuse(names[1], param.NoEffect, "%s together, want one of them",
		strings.Join(names, " and "))
}

// check returns an error for fields that exclude each other, and for those that the model has no
// use for.
func (r *Request) check(m *Model) error {
	noText := func(name, found string) error {
		return param.RefuseUnless(m.Text != nil || found == "", name, param.Quote(found),
			"none: the model makes no text", param.Unsupported)
	}
	err := cmp.Or(r.checkGiven(m.Text != nil), noText("infill", r.Infill), noText("suffix", r.Suffix),
		noText("messages", string(r.Messages)), noText("tools", string(r.Tools)),
		noText("stop", strings.Join(r.Stop, "")),
		param.RefuseUnless(r.Tools == nil || r.Messages != nil, "tools", "a list",
			"none without messages",
			param.NoEffect),
		param.RefuseUnless(r.End == "" || r.MinLength != 0 || r.Cut, "end", param.Quote(r.End),
			"it with min-length or cut", param.NoEffect),
		param.WithName("tokens", generate.CheckTokens("tokens", r.Tokens, m.Spec())),
		param.WithName("suffix-tokens",
			generate.CheckTokens("suffix-tokens", r.SuffixTokens, m.Spec())))
	for _, stop := range r.Stop {
		err = cmp.Or(err, param.RefuseUnless(stop != "" && utf8.ValidString(stop), "stop",
			param.Quote(stop), "texts in UTF-8 that are not empty", param.OutOfRange))
	}
	return err
}

// recipe returns the recipe that r overrides: its preset or, for a picture to inpaint, the model's
// preset for that.
func (m *Model) recipe(r *Request) (generate.Recipe, error) {
	name := r.Preset
	if _, ok := m.Presets["inpaint"]; ok && name == "" && r.Image != nil && r.Image.Strength == 0 {
		name = "inpaint"
	}
	if name == "" {
		return m.Defaults()
	}
	text, ok := m.Presets[name]
	if !ok {
		want := cmp.Or(param.JoinOr(slices.Sorted(maps.Keys(m.Presets))),
			"none: the model has no presets")
		return generate.Recipe{}, &param.Error{Name: "preset", Found: param.Quote(name), Want: want,
			Reason: param.NoSuch}
	}
	return m.published(text)
}

// textTokens returns the tokens that a text begins with, and those that end it.
func (m *Model) textTokens(r *Request) (tokens, ends []int32, err error) {
	t := m.Text
	name, reply := "length", 0 // what is left
	if m.Spec().DefaultLength() < m.Spec().Length() {
		reply = ReplyLength
	}
	var known, after []int32
	switch {
	case r.Infill != "":
		tokens, err = t.infill(r.Infill, r.Length, t.encoder(r.Special))
		return tokens, nil, param.WithName("infill", err)
	case r.Messages != nil:
		if known, ends, err = m.messageTokens(r); err != nil {
			return nil, nil, err
		}
		name, reply = "messages", ReplyLength
	case r.Tokens != nil:
		if (r.Length == 0 || r.Length == len(r.Tokens)) && r.MaxTokens == 0 && !r.goesOn() &&
			slices.Contains(r.Tokens, m.Spec().Mask) {
			return r.Tokens, nil, nil
		}
		name, known = "tokens", r.Tokens
	case r.Prompt != "" || r.goesOn():
		name = "prompt"
		if known, err = t.begin(r.Prompt, r.Special, r.goesOn()); err != nil {
			return nil, nil, param.WithName(name, err)
		}
	}
	if after = r.SuffixTokens; after == nil {
		if after, err = t.encoder(r.Special)(r.Suffix); err != nil {
			return nil, nil, param.WithName("suffix", err)
		}
	}
	if name == "prompt" && r.goesOn() && r.SuffixTokens == nil {
		after = append(after, t.last...)
	} else if name == "prompt" {
		known = append(known, t.last...)
	}
	room, err := t.room(name, len(known)+len(after), r.Length, r.MaxTokens, reply)
	if err != nil {
		return nil, nil, err
	}
	if t.spec.Growth != nil && r.goesOn() { // the model finds the length
		room = min(room, growingHole)
	}
	if tokens = t.around(known, room, after); r.Messages != nil {
		tokens = t.inside(tokens)
	}
	return tokens, ends, nil
}

// grow bounds the tokens that a hole of unknown length may become by the request's MaxTokens.
func (r *Request) grow(s samplers.Sampler, spec model.Spec) samplers.Sampler {
	if d, ok := s.(samplers.DreamOn); ok && spec.Growth != nil && r.goesOn() && r.MaxTokens != 0 {
		d.New = r.MaxTokens
		return d
	}
	return s
}

// messageTokens returns the tokens of a conversation, and those that end an answer.
func (m *Model) messageTokens(r *Request) (tokens, ends []int32, err error) {
	c, err := m.Chat()
	if err != nil {
		return nil, nil, err
	}
	o := chat.Options{Tools: r.Tools, Variables: r.Variables}
	if tokens, err = c.EncodeJSON(r.Messages, o); err == nil {
		err = c.Template.CheckMessages(r.Messages)
	}
	if err != nil {
		return nil, nil, &param.Error{Name: "messages", Err: err}
	}
	if mute, calls := withoutCalls(r.Messages); calls {
		if rest, err := c.EncodeJSON(mute, o); err == nil && slices.Equal(tokens, rest) {
			return nil, nil, param.Refuse("messages", param.Unsupported,
				"messages have tool_calls, want none: the model's chat template leaves them out")
		}
	}
	return tokens, c.EndTokens(), nil
}

// LeavesOut returns a note about what a model's chat template leaves out of conversations, of
// which some may be nil; "" for nothing.
func (m *Model) TemplateNote(conversations ...[]byte) string {
	type message struct{ Role string }
	n := 0
	for _, messages := range conversations {
		var list []message
		if json.Unmarshal(messages, &list) == nil && slices.Contains(list, message{"system"}) {
			n++
		}
	}
	c, err := m.Chat()
	if n == 0 || err != nil || c.WritesSystem() {
		return ""
	}
	note := "the model's chat template leaves system messages out"
	if len(conversations) > 1 {
		note += fmt.Sprintf(" (of %d of %d inputs)", n, len(conversations))
	}
	return note
}

// withoutCalls returns messages without their calls of tools, and whether there were any.
func withoutCalls(messages []byte) (mute []byte, calls bool) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(messages, &list) != nil {
		return messages, false
	}
	for _, m := range list {
		given := string(m["tool_calls"])
		calls = calls || given != "" && given != "null" && given != "[]"
		delete(m, "tool_calls")
	}
	mute, err := json.Marshal(list)
	return mute, calls && err == nil
}

// begin returns the tokens of a prompt, and those that belong before it.
func (t *Text) begin(prompt string, special, goesOn bool) ([]int32, error) {
	known, err := t.encoder(special)(prompt)
	if !goesOn {
		known = slices.Concat(t.begins, known)
	}
	return slices.Concat(t.first, known), err
}

// room returns the number of positions to fill beside `known` ones, which the field `name` gives:
// fill if it is set; otherwise the rest of a length; otherwise `usual` ones, 0 for all; but never
// more than are left.
func (t *Text) room(name string, known, length, fill, usual int) (int, error) {
	most := t.longest()
	if length < 0 || length > most {
		return 0, param.Refuse("length", param.OutOfRange,
			"length is %d, want 1 to %d, or 0 for %d", length, most, most)
	}
	if length > 0 {
		most = length
	}
	left := most - known
	if least := min(usual+fill, 1); left < least {
		return 0, &param.Error{Name: name, Found: fmt.Sprintf("%d tokens", known),
			Want: fmt.Sprintf("at most %d", most-least), Reason: param.TooLong}
	}
	refused := &param.Error{Name: "max-tokens", Found: fmt.Sprint(fill)}
	switch {
	case fill == 0 && (length > 0 || usual == 0 || usual > left || t.spec.Fixed):
		return left, nil
	case fill == 0:
		return usual, nil
	case length > 0:
		refused.Want, refused.Reason = "none beside a length", param.NoEffect
	case fill < 0:
		refused.Want = fmt.Sprintf("1 to %d", left)
	case fill < left && t.spec.Fixed:
		refused.Want = fmt.Sprintf("%d: this model has no other length", left)
		refused.Reason = param.Unsupported
	default:
		return min(fill, left), nil
	}
	return 0, refused
}

// setConditions sets the classes and encoded prompts of prepared requests.
func (m *Model) setConditions(ctx context.Context, list []Request, out []generate.Request) error {
	spec := m.Spec()
	var prompts []string
	for i := range list {
		r := &list[i]
		if err := r.checkSubject(m, out[i].Guidance.Scale != 0); err != nil {
			return inList(i, len(list), err)
		}
		switch {
		case m.Text == nil && spec.Prompt:
			prompts = append(prompts, r.Prompt)
		case r.Class != "":
			c, err := m.ClassCondition(r.Class)
			if err != nil {
				return inList(i, len(list), param.WithName("class", err))
			}
			out[i].Condition = c
		}
		if len(prompts) > 0 && (i+1 == len(list) || list[i+1].Negative != r.Negative) {
			made, err := m.PromptConditions(ctx, prompts, r.Negative)
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				return param.WithName("prompt", err)
			}
			for j, c := range made {
				out[i+1-len(made)+j].Condition = c
			}
			prompts = nil
		}
	}
	return nil
}

// checkSubject returns an error for a class or a prompt that the model does not take, and for one
// that it needs.
func (r *Request) checkSubject(m *Model, guided bool) error {
	spec := m.Spec()
	none := "none: the model reads no prompts"
	if spec.Classes > 0 {
		none += " but has a class"
	}
	refused := func(taken bool, name, found, want string) error {
		return param.RefuseUnless(taken || found == "", name, param.Quote(found), want, param.Unsupported)
	}
	return cmp.Or(
		refused(spec.Classes > 0, "class", r.Class, "none: the model has no classes"),
		refused(m.Text != nil || spec.Prompt, "prompt", r.Prompt, none),
		refused(spec.Prompt, "negative", r.Negative, none),
		refused(guided, "negative", r.Negative, "none without guidance"))
}
