package unmask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"unmask/families/llama"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/prompt"
	"unmask/samplers"
)

// Prepare returns what r means for this model: its recipe complete, its text or picture as tokens,
// its constraints and conditions looked up. It knows
//
//   - defaults: parameters that r does not override are those of the model's published run or, if
//     it has none, of its kind; steps are then at most one for each masked position, and one for
//     a list of choices that differ in one token;
//   - lengths: without Length or Canvas, a text with holes has its own length. An answer to
//     messages and, for models of more than 1024 positions, what follows a prompt or nothing begin
//     on AnswerLength positions, or as many as MaxTokens or the model leave. What follows a prompt
//     of a model without an end token is no answer, and fills MaxTokens positions. Every other
//     sequence has the model's length.
//
// An error is a *param.Error that names the field, as a flag is named, or has such a cause; others
// are about the model or about files. ctx ends the tokenizing of texts, the compilation of a
// grammar and the encoding of prompts.
func (m *Model) Prepare(ctx context.Context, r Request) (generate.Request, error) {
	list, err := m.PrepareAll(ctx, []Request{r})
	if err != nil {
		return generate.Request{}, err
	}
	return list[0], nil
}

// PrepareAll is Prepare for a list of requests. Prompts of pictures are encoded together, and a
// picture that several requests share is encoded once. The error is Prepare's of the first request
// that has one, with its number.
func (m *Model) PrepareAll(ctx context.Context, list []Request) ([]generate.Request, error) {
	prepared := make([]generate.Request, len(list))
	pictures := map[*ImageInput][]int32{}
	for i := range list {
		q, err := m.prepareSequence(ctx, &list[i], pictures)
		if err != nil {
			return nil, inList(i, len(list), err)
		}
		prepared[i] = q
	}

	if err := m.setConditions(ctx, list, prepared); err != nil {
		return nil, err
	}

	for i := range list {
		q, err := prepared[i].Check(m.Denoiser)
		if err == nil {
			q, err = m.redraw(q, &list[i], pictures)
		}
		if err != nil {
			return nil, inList(i, len(list), err)
		}
		prepared[i] = q
	}
	return prepared, nil
}

// inList says which request of several an error is about.
func inList(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return &InputError{i, err}
}

// prepareSequence returns a prepared request without its condition. pictures has the codes of
// pictures that were encoded before.
func (m *Model) prepareSequence(ctx context.Context, r *Request,
	pictures map[*ImageInput][]int32) (generate.Request, error) {
	q := generate.Request{Seed: r.Seed, Index: r.Index, Length: r.Length}
	if err := r.check(m); err != nil {
		return q, err
	}
	if err := m.setKnown(ctx, &q, r, pictures); err != nil {
		return q, err
	}

	spec := m.Spec()
	length := q.Length
	masked := spec.CountMasked(q.Known)
	switch {
	case q.Known != nil:
		length = len(q.Known)
		if q.Length != 0 { // it was that of the text, without the tokens that the model adds
			q.Length = length
		}
	case length == 0:
		length = spec.DefaultLength()
	default:
		masked = length
	}

	if err := m.setRecipe(&q, r, masked); err != nil {
		return q, err
	}
	adjust, err := r.Constraints.ApplyTo(&q.Filter, m.Text, spec, length)
	if err != nil {
		return q, err
	}
	q.Adjust = adjust
	if !r.Grammar.IsZero() {
		err := m.setLanguage(ctx, &q, r, length)
		canvas := m.canvasForChoices(ctx, &q, r)
		if err != nil {
			canvas = max(canvas, m.canvasForGrammar(&q, r))
			if canvas == 0 {
				return q, err
			}
		}
		if canvas != 0 {
			longer := *r
			longer.MaxTokens = 0
			longer.Canvas = canvas
			return m.prepareSequence(ctx, &longer, pictures)
		}
	}
	m.setGrowth(&q, r)
	return q, nil
}

// setKnown sets what is known of a sequence at the start, and the tokens that end it.
func (m *Model) setKnown(ctx context.Context, q *generate.Request, r *Request,
	pictures map[*ImageInput][]int32) (err error) {
	switch {
	case r.Image != nil:
		q.Known, err = m.imageTokens(r.Image, pictures)
	case m.Text != nil:
		q.Known, q.EndTokens, err = m.textTokens(ctx, r)
	case r.MaxTokens != 0:
		return refuseWithoutText("max-tokens", r.MaxTokens)
	case r.Canvas != 0:
		return refuseWithoutText("canvas", r.Canvas)
	default:
		q.Known = r.Tokens
	}
	return err
}

// maxCanvases bounds an answer without a bound of its own, in usual lengths.
const maxCanvases = 8

// answerBound returns the most tokens of an answer that may grow.
func (m *Model) answerBound(r *Request) int {
	if r.MaxTokens > 0 {
		return r.MaxTokens
	}
	return maxCanvases * m.AnswerLength
}

// canvasForGrammar returns how many positions an answer needs whose canvas is too short for each
// text of its grammar: those of the shortest one and the usual number beside them, as far as there
// is room. 0 means that more positions would not help.
func (m *Model) canvasForGrammar(q *generate.Request, r *Request) int {
	if !m.mayGrow(r) || r.Infill != "" || q.Language == nil || q.Language.Tokens == nil {
		return 0
	}
	shortest := int(q.Language.MinTokens[q.Language.Start])
	if shortest <= m.Spec().CountMasked(q.Known) {
		return 0
	}
	return m.longerCanvas(q, r, shortest+m.AnswerLength)
}

// canvasForChoices returns how many positions an answer needs for the longest of its choices, as
// far as there is room, since a choice that does not fit could never be drawn. 0 means that all
// fit, or that more positions are not to be had.
func (m *Model) canvasForChoices(ctx context.Context, q *generate.Request, r *Request) int {
	if r.Grammar.Choice == nil || !m.mayGrow(r) || r.Infill != "" {
		return 0
	}
	masks := m.Spec().CountMasked(q.Known)
	text := m.Text.WithContext(ctx)
	longest := 0
	for _, choice := range r.Grammar.Choice {
		if len(choice)+1 <= masks {
			continue // it fits: each of its tokens spells a byte at least, and an end follows
		}
		tokens, err := text.Encode(choice)
		if err != nil {
			return 0 // it was refused where its language was made
		}
		longest = max(longest, len(tokens)+1)
	}
	return m.longerCanvas(q, r, longest)
}

// longerCanvas returns the number of positions that are wanted for an answer, as far as its bound
// and the network have room; 0 if that is no more than it has.
func (m *Model) longerCanvas(q *generate.Request, r *Request, wanted int) int {
	spec := m.Spec()
	masks := spec.CountMasked(q.Known)
	canvas := min(wanted, m.answerBound(r), spec.Length()-len(q.Known)+masks)
	if canvas <= masks {
		return 0
	}
	return canvas
}

// setGrowth lets an answer grow where it has no end on its first positions, or does not fit on
// them.
func (m *Model) setGrowth(q *generate.Request, r *Request) {
	spec := m.Spec()
	if m.Text == nil || r.Infill != "" || r.isWhole(spec) || !m.mayGrow(r) {
		return
	}
	start, end := maskedSpan(q.Known, spec.Mask)
	tail := spec.TailCount(q.Known)
	if start == end || end != len(q.Known)-tail { // something is known behind the answer
		return
	}
	longest := min(start+m.answerBound(r)+tail, spec.Length())
	if longest <= len(q.Known) {
		return
	}
	q.MaxLength = longest
	if r.Grammar.EndsItself() {
		q.HasEnd = func([]int32) bool { return true }
		return
	}
	request := *r
	answer := m.AnswerOf(&request, q)
	q.HasEnd = func(tokens []int32) bool { return answer.Render(tokens).Finish == "stop" }
}

// refuseWithoutText returns the refusal of a number of tokens for a model that makes no text.
func refuseWithoutText(name string, tokens int) error {
	return &param.Error{
		Name:   name,
		Found:  fmt.Sprint(tokens),
		Want:   "none: the model makes no text",
		Reason: param.Unsupported,
	}
}

// setRecipe sets the recipe of a sequence with a number of masked positions: the published one or
// the model's default, with what the request overrides.
func (m *Model) setRecipe(q *generate.Request, r *Request, masked int) error {
	base, err := m.baseRecipe(r)
	if err != nil {
		return err
	}
	if !r.Grammar.IsZero() && r.Preset == "" {
		base, err = m.grammarRecipe(base, r)
		if err != nil {
			return err
		}
	}
	if m.Text != nil && m.Text.DifferInOneToken(r.Choice) {
		base = withOneStep(base)
	}
	q.Recipe, err = r.Overrides.Complete(base, m.Denoiser, masked)
	if err != nil {
		return err
	}
	q.Sampler = r.boundHole(q.Sampler, m.Spec())
	return nil
}

// setLanguage compiles the grammar of a sequence of some length.
func (m *Model) setLanguage(ctx context.Context, q *generate.Request, r *Request,
	length int) error {
	g := &r.Grammar
	spec := m.Spec()
	if err := g.AsRefusal(q.CheckGrammar(spec)); err != nil {
		return err
	}
	if m.languages == nil {
		return param.Refuse("schema", param.Unsupported,
			"schema, regex or choice, want none: the model makes no text")
	}
	tokens := q.Known
	if tokens == nil {
		tokens = slices.Repeat([]int32{spec.Mask}, length)
	}
	var cut []int32
	if r.Cut {
		end, err := m.Text.End(r.End)
		if err != nil {
			return err
		}
		cut = []int32{end}
	}
	var err error
	q.Language, q.EndTokens, err = m.languages.Compile(ctx, g, tokens, q.EndTokens, cut)
	return err
}

// baseRecipe returns the recipe that r overrides: its preset or, for a picture to inpaint, the
// model's preset for that.
func (m *Model) baseRecipe(r *Request) (generate.Recipe, error) {
	name := r.Preset
	_, hasInpaint := m.Presets["inpaint"]
	if name == "" && hasInpaint && r.Image != nil && r.Image.Strength == 0 {
		name = "inpaint"
	}
	if name == "" {
		return m.Defaults()
	}
	text, ok := m.Presets[name]
	if !ok {
		want := param.JoinOr(slices.Sorted(maps.Keys(m.Presets)))
		if want == "" {
			want = "none: the model has no presets"
		}
		return generate.Recipe{}, &param.Error{
			Name:   "preset",
			Found:  param.Quote(name),
			Want:   want,
			Reason: param.NoSuch,
		}
	}
	return m.parsePublished(text)
}

// SamplerNotes returns a note for each sampler that requests name and that leaves out a temperature
// or a filter of the model's recipe.
func (m *Model) SamplerNotes(requests ...Request) (notes []string) {
	for i := range requests {
		r := &requests[i]
		base, err := m.baseRecipe(r)
		if err != nil {
			continue // Prepare refuses it
		}
		dropped := r.Overrides.Dropped(base)
		if len(dropped) == 0 {
			continue
		}
		note := fmt.Sprintf("sampler %s begins from its own defaults, without %s of the model's recipe",
			param.Quote(r.Overrides["sampler"]), strings.Join(dropped, " "))
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// grammarRecipe returns the recipe for a grammar: base or, where that cannot follow a grammar,
// LLaDA's. Base stays where the request asks for what cannot follow one, so that it is refused by
// that name and not replaced behind the user's back.
func (m *Model) grammarRecipe(base generate.Recipe, r *Request) (generate.Recipe, error) {
	spec := m.Spec()
	hasUnknownHole := strings.Contains(r.Infill, prompt.UnknownHole)
	if r.Overrides["reuse"] == "causal" {
		return base, nil
	}
	if spec.Growth != nil && (r.hasSuffix() || hasUnknownHole) {
		return base, nil
	}
	if base.CheckGrammar(spec) == nil {
		return base, nil
	}
	return m.parsePublished(llama.LLaDARecipe)
}

// withOneStep returns a recipe that opens everything in one step: another step could only repeat
// what the first one computes of a choice.
func withOneStep(r generate.Recipe) generate.Recipe {
	r.Steps = 1
	r.Cache = 0
	if samplers.Is[samplers.Planner](r.Sampler) { // it opens as many as it likes
		probable := samplers.TakesMostProbable(r.Sampler)
		r.Sampler = samplers.ChooseThenSample{Order: samplers.Random{}}
		if probable {
			r.Sampler = samplers.Greedy{Inside: r.Sampler}
		}
	}
	return r
}

// boundHole bounds the tokens that a hole of unknown length may become by the request's MaxTokens.
func (r *Request) boundHole(s samplers.Sampler, spec model.Spec) samplers.Sampler {
	growing, ok := s.(samplers.DreamOn)
	if !ok || spec.Growth == nil || !r.hasSuffix() || r.MaxTokens == 0 {
		return s
	}
	growing.New = r.MaxTokens
	return growing
}

// checkStart returns an error for a request that begins with several things.
func (r *Request) checkStart(isText bool) error {
	names := r.startFields(isText)
	if len(names) < 2 {
		return nil
	}
	return param.Refuse(names[1], param.NoEffect, "%s together, want one of them",
		strings.Join(names, " and "))
}

// check returns an error for fields that exclude each other, and for those that the model has no
// use for.
func (r *Request) check(m *Model) error {
	if err := r.checkStart(m.Text != nil); err != nil {
		return err
	}
	if m.Text == nil {
		if err := r.checkNoText(); err != nil {
			return err
		}
	}
	if r.Tools != nil && r.Messages == nil {
		return &param.Error{
			Name:   "tools",
			Found:  "a list",
			Want:   "none without messages",
			Reason: param.NoEffect,
		}
	}
	if r.End != "" && r.MinLength == 0 && !r.Cut {
		return &param.Error{
			Name:   "end",
			Found:  param.Quote(r.End),
			Want:   "it with min-length or cut",
			Reason: param.NoEffect,
		}
	}
	if r.Canvas != 0 && (r.MaxTokens != 0 || r.Infill != "") {
		return &param.Error{
			Name:   "canvas",
			Found:  fmt.Sprint(r.Canvas),
			Want:   "none with max-tokens or holes",
			Reason: param.NoEffect,
		}
	}
	if err := generate.CheckTokens("tokens", r.Tokens, m.Spec()); err != nil {
		return param.WithName("tokens", err)
	}
	if err := generate.CheckTokens("suffix-tokens", r.SuffixTokens, m.Spec()); err != nil {
		return param.WithName("suffix-tokens", err)
	}
	for _, stop := range r.Stop {
		if stop == "" || !utf8.ValidString(stop) {
			return &param.Error{
				Name:   "stop",
				Found:  param.Quote(stop),
				Want:   "texts in UTF-8 that are not empty",
				Reason: param.OutOfRange,
			}
		}
	}
	return nil
}

// checkNoText returns an error for a field that means nothing to a model that makes no text.
func (r *Request) checkNoText() error {
	fields := []struct{ name, value string }{
		{"infill", r.Infill},
		{"suffix", r.Suffix},
		{"messages", string(r.Messages)},
		{"tools", string(r.Tools)},
		{"stop", strings.Join(r.Stop, "")},
	}
	for _, field := range fields {
		if field.value != "" {
			return &param.Error{
				Name:   field.name,
				Found:  param.Quote(field.value),
				Want:   "none: the model makes no text",
				Reason: param.Unsupported,
			}
		}
	}
	return nil
}

// textTokens returns the tokens that a text begins with, and those that end it.
func (m *Model) textTokens(ctx context.Context, r *Request) (tokens, endTokens []int32,
	err error) {
	t := m.Text.WithContext(ctx)
	if r.Infill != "" {
		tokens, err = t.InfillWith(t.Encoder(r.Special), r.Infill, r.Length)
		return tokens, nil, param.WithName("infill", err)
	}
	if r.isWhole(m.Spec()) {
		return r.Tokens, nil, nil
	}

	prefix, endTokens, field, err := m.beforeHole(ctx, t, r)
	if err != nil {
		return nil, nil, err
	}
	prefix, suffix, err := r.afterHole(t, prefix, field)
	if err != nil {
		return nil, nil, err
	}
	tail := m.Spec().TailBehind(slices.Concat(prefix, suffix))
	suffix = slices.Concat(suffix, tail)

	room := prompt.Room{
		Field:  field,
		Taken:  len(prefix) + len(suffix),
		Length: r.Length,
		Fill:   r.MaxTokens,
	}
	if r.Messages != nil || m.Spec().DefaultLength() < m.Spec().Length() {
		room.Usual = m.AnswerLength
	}
	if m.mayGrow(r) { // more positions than usual only where the answer has no end on these
		room.Fill = min(room.Fill, room.Usual)
	}
	if r.Canvas != 0 {
		room.Fill = r.Canvas
		room.FillField = "canvas"
	}
	masks, err := t.FillCount(room)
	if err != nil {
		return nil, nil, err
	}
	if m.Spec().Growth != nil && r.hasSuffix() { // the model finds the length
		masks = min(masks, prompt.GrowingHole)
	}
	tokens = t.Surround(prefix, masks, suffix)
	if r.Messages != nil {
		tokens = t.WithoutSurroundings(tokens)
	}
	return tokens, endTokens, nil
}

// mayGrow reports whether what is filled in is an answer, which an end token ends, and not a hole
// or a text of some length.
func (m *Model) mayGrow(r *Request) bool {
	spec := m.Spec()
	if spec.Fixed || r.Length != 0 || r.Canvas != 0 || r.hasSuffix() {
		return false
	}
	return r.Messages != nil || len(spec.EndTokens) > 0 && spec.DefaultLength() < spec.Length()
}

// isWhole reports whether the request's Tokens are a whole sequence, masks among them, which
// nothing else changes.
func (r *Request) isWhole(spec model.Spec) bool {
	if r.Messages != nil || r.MaxTokens != 0 || r.Canvas != 0 || r.hasSuffix() {
		return false
	}
	hasLength := r.Length != 0 && r.Length != len(r.Tokens)
	return !hasLength && slices.Contains(r.Tokens, spec.Mask)
}

// beforeHole returns the tokens before the positions to fill, those that end the text, and the
// field of the request that gives the former.
func (m *Model) beforeHole(ctx context.Context, t *prompt.Text, r *Request) (prefix,
	endTokens []int32, field string, err error) {
	switch {
	case r.Messages != nil:
		prefix, endTokens, err = m.messageTokens(ctx, r)
		return prefix, endTokens, "messages", err
	case r.Tokens != nil:
		return r.Tokens, nil, "tokens", nil
	case r.Prompt != "" || r.hasSuffix():
		prefix, err = t.Begin(r.Prompt, r.Special, !r.hasSuffix())
		return prefix, nil, "prompt", param.WithName("prompt", err)
	}
	return nil, nil, "length", nil
}

// afterHole returns the tokens around the positions to fill: those before, with what the
// tokenizer's files put after a prompt, and those after.
func (r *Request) afterHole(t *prompt.Text, prefix []int32,
	field string) (prefixWithLast, suffix []int32, err error) {
	suffix = r.SuffixTokens
	if suffix == nil {
		suffix, err = t.Encoder(r.Special)(r.Suffix)
		if err != nil {
			return nil, nil, param.WithName("suffix", err)
		}
	}
	if field != "prompt" {
		return prefix, suffix, nil
	}
	if r.hasSuffix() && r.SuffixTokens == nil {
		return prefix, append(suffix, t.Last()...), nil
	}
	return append(prefix, t.Last()...), suffix, nil
}

// setConditions sets the classes and encoded prompts of prepared requests. Prompts of neighbours
// that share a negative prompt are encoded in one call.
func (m *Model) setConditions(ctx context.Context, list []Request, out []generate.Request) error {
	spec := m.Spec()
	var prompts []string
	for i := range list {
		r := &list[i]
		if err := r.checkSubject(m, out[i].Guidance.Scale != 0); err != nil {
			return inList(i, len(list), err)
		}
		switch {
		case r.Condition != nil:
			out[i].Condition = r.Condition
		case m.Text == nil && spec.Prompt:
			prompts = append(prompts, r.Prompt)
		case r.Class != "":
			condition, err := m.ClassCondition(r.Class)
			if err != nil {
				return inList(i, len(list), param.WithName("class", err))
			}
			out[i].Condition = condition
		}

		isLast := i+1 == len(list) || list[i+1].Negative != r.Negative || list[i+1].Condition != nil
		if len(prompts) == 0 || !isLast {
			continue
		}
		conditions, err := m.PromptConditions(ctx, prompts, r.Negative)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			return param.WithName("prompt", err)
		}
		first := i + 1 - len(conditions)
		for j, condition := range conditions {
			out[first+j].Condition = condition
		}
		prompts = nil
	}
	return nil
}

// checkSubject returns an error for a class or a prompt that the model does not take.
func (r *Request) checkSubject(m *Model, isGuided bool) error {
	spec := m.Spec()
	noPrompt := "none: the model reads no prompts"
	if spec.Classes > 0 {
		noPrompt += " but has a class"
	}
	subjects := []struct {
		isTaken           bool
		name, value, want string
	}{
		{spec.Classes > 0, "class", r.Class, "none: the model has no classes"},
		{m.Text != nil || spec.Prompt, "prompt", r.Prompt, noPrompt},
		{spec.Prompt, "negative", r.Negative, noPrompt},
		{isGuided, "negative", r.Negative, "none without guidance"},
	}
	for _, subject := range subjects {
		if !subject.isTaken && subject.value != "" {
			return &param.Error{
				Name:   subject.name,
				Found:  param.Quote(subject.value),
				Want:   subject.want,
				Reason: param.Unsupported,
			}
		}
	}
	return nil
}
