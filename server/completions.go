package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"unmask"
	"unmask/constrain"
	"unmask/generate"
	"unmask/internal/jsonline"
)

// streamForm is the form of a stream.
type streamForm string

const (
	notStreamed streamForm = ""

	// streamsSettled sends what no further step changes, in the shape of the client's API.
	streamsSettled streamForm = "settled"

	// streamsDiffusing sends the whole text so far at each step.
	streamsDiffusing streamForm = "diffusing"

	// streamsEvents sends the native events, whose data are a trace.
	streamsEvents streamForm = "events"
)

// streamOptions say how an answer is streamed.
type streamOptions struct {
	form streamForm

	// withSteps adds to each piece of settled text what its step opened.
	withSteps bool

	// withUsage adds the numbers of tokens at the end.
	withUsage bool
}

// readStreamOptions reads stream, stream_options and diffusing.
func readStreamOptions(f *fields) (options streamOptions) {
	if raw := f.value("stream"); raw != nil {
		const want = `true, false or "events"`
		switch string(raw) {
		case "true":
			options.form = streamsSettled
		case "false":
		case `"events"`:
			options.form = streamsEvents
		default:
			if jsonline.ValueKind(raw) == "a text" {
				f.fail(rangeFault("stream", truncate(string(raw)), want))
			} else {
				f.failType("stream", raw, want)
			}
		}
	}
	if f.flag("diffusing") && options.form == streamsSettled {
		options.form = streamsDiffusing
	}
	f.readOptionalObject("stream_options", func(o *fields) {
		options.withUsage = o.flag("include_usage")
		options.withSteps = o.flag("include_steps")
		o.requireNeutral("include_obfuscation", "false", "true")
		o.requireNeutral("continuous_usage_stats", "false") // vLLM's
	})
	return options
}

// readPrompts reads a text, token ids, or a list of at most max of either. Each is a request with a
// Prompt or with Tokens.
func readPrompts(f *fields, name string, m *servedModel, max int) (prompts []unmask.Request) {
	raw := f.value(name)
	if raw == nil {
		f.fail(missingFault(name, "a text, token ids, or a list of either"))
		return nil
	}
	list := []json.RawMessage{raw}
	if raw[0] != '"' {
		n := f.countList(name, raw)
		first := firstElement(raw)
		isIDs := n > 0 && jsonline.ValueKind(first) == "a number" // one prompt
		switch {
		case f.fault != nil:
			return nil
		case n == 0:
			f.fail(fieldFault("missing", name, "%s is an empty list, want a text or token ids", name))
		case n > max && !isIDs:
			f.fail(fieldFault("out_of_range", name, "%s has %d texts, want 1 to %d", name, n, max))
		case !isIDs:
			list = f.parseList(name, raw)
		}
	}

	for i, element := range list {
		if f.fault != nil {
			return nil
		}
		kind := jsonline.ValueKind(element)
		switch {
		case kind != jsonline.ValueKind(list[0]) || kind != "a text" && kind != "a list":
			f.fail(fieldFault("wrong_type", name,
				"%s %d is %s, want all texts or all lists of token ids", name, i, kind))
		case kind == "a text":
			prompts = append(prompts, unmask.Request{Prompt: f.parseText(name, element)})
		default:
			tokens := readTokenIDs(f, name, element, m, false)
			prompts = append(prompts, unmask.Request{Tokens: tokens})
		}
	}
	return prompts
}

// firstElement returns the first element of a list, nil of an empty one.
func firstElement(list []byte) json.RawMessage {
	for element := range jsonline.Elements(list) {
		return element
	}
	return nil
}

// readTokenIDs reads a list of token ids. Where holes are allowed null is the mask.
func readTokenIDs(f *fields, name string, list []byte, m *servedModel, allowHoles bool) []int32 {
	n := f.countList(name, list)
	if limit := m.spec.Length(); n > limit {
		f.fail(tooLongFault(name, n, limit))
	}
	if f.fault != nil {
		return nil
	}
	want := fmt.Sprintf("0 to %d", m.spec.Outcomes-1)
	if int(m.spec.Mask) < m.spec.Outcomes {
		want += fmt.Sprintf(", but not the mask %d", m.spec.Mask)
	}

	ids := make([]int32, 0, n)
	for element := range jsonline.Elements(list) {
		text := string(element)
		if allowHoles && text == "null" {
			ids = append(ids, m.spec.Mask)
			continue
		}
		if !isInteger(text) {
			f.fail(fieldFault("wrong_type", name, "%s has %s at index %d, want token ids", name,
				truncate(text), len(ids)))
			return nil
		}
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil || id < 0 || int(id) >= m.spec.Outcomes || int32(id) == m.spec.Mask {
			f.fail(fieldFault("unknown_token", name, "%s has token %s at index %d, want %s", name,
				truncate(text), len(ids), want))
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}

// tooLongFault returns the fault of a prompt with more tokens than the model has positions.
func tooLongFault(name string, tokens, limit int) *Fault {
	return fieldFault("context_length_exceeded", name,
		"%s is %d tokens, want at most %d: the prompt is too long", name, tokens, limit)
}

// readTextFields takes what a request for texts says, reads the fields that all routes of texts
// call the same, and refuses those of other servers that unmask lacks.
func (s *settings) readTextFields(f *fields, m *servedModel, t *textRequest) {
	f.decodeInto(&s.request, textFields...)
	s.request.Stop = t.stopTexts
	s.request.MaxTokens = t.maxTokens
	s.top = t.top
	s.readBias(f, m)
	s.readGrammar(f, t.format)
	f.requireNeutralFields()
}

// refuseTools refuses tools where an answer cannot be a call.
func refuseTools(f *fields) {
	f.requireNeutral("tools", "[]")
	f.requireNeutral("tool_choice", `"none"`, `"auto"`)
	f.requireNeutral("parallel_tool_calls", "false", "true")
}

// readCompletions reads POST /v1/completions.
func (s *Server) readCompletions(r *http.Request, f *fields, m *servedModel) (query,
	streamOptions) {
	t := textRequest{kind: "completions", idPrefix: "cmpl-", wire: completionWire}
	t.stream = readStreamOptions(f)
	t.logProbs = f.has("logprobs")
	t.topField = "logprobs"
	t.top = f.integerOrNull("logprobs", 0, generate.MaxTop, 0)
	t.readStopAndFormat(f)
	t.readMaxTokens(f, "max_tokens")
	return s.readPromptRequest(r, f, m, t)
}

// readPromptRequest reads a request for texts that go on with prompts.
func (s *Server) readPromptRequest(r *http.Request, f *fields, m *servedModel,
	t textRequest) (q query, options streamOptions) {
	set := readSettings(f)
	echo := f.flag("echo")
	set.readTextFields(f, m, &t)
	refuseTools(f)
	f.decodeInto(&set.request, "suffix")
	prompts := readPrompts(f, "prompt", m, maxPrompts)
	if f.fault == nil && len(prompts)*set.n > maxChoices {
		f.fail(rangeFault("n", set.n, fmt.Sprintf("1 to %d with %d prompts",
			maxChoices/len(prompts), len(prompts))))
	}
	if f.fault == nil && t.stream.form == streamsEvents && len(prompts) > 1 {
		f.fail(fieldFault("unsupported_parameter", "stream",
			`stream is "events" with %d prompts, want one prompt`, len(prompts)))
	}
	for i, p := range prompts {
		prompts[i] = set.request
		prompts[i].Prompt = p.Prompt
		prompts[i].Tokens = p.Tokens
	}
	noHole := fieldFault("context_length_exceeded", "prompt",
		"prompt leaves no position to fill, want a shorter one")
	names := t.libraryNames()
	names["tokens"] = "prompt"
	q.sequences = set.prepare(r.Context(), f, m, names, noHole, prompts...)
	if f.fault != nil {
		return q, options
	}

	for i, prepared := range q.sequences {
		form := m.textForm(&prompts[i/set.n], &prepared, t.logProbs)
		if echo {
			form.ShowPrompt()
		}
		if i%set.n == 0 { // the prompt of n choices counts once
			q.promptTokens += len(prepared.Known) - m.spec.CountMasked(prepared.Known) -
				m.spec.SpecialCount() - m.spec.TailCount(prepared.Known)
		}
		q.textForms = append(q.textForms, form)
	}
	set.checkTop(f, t.topField, q.sequences, m)
	q.kind = t.kind
	q.idPrefix = t.idPrefix
	q.model = m
	q.settings = set
	q.answerKey = q.textForms
	if t.wire != completionWire {
		q.answerKey = []any{q.textForms, t.wire}
	}
	q.wire = t.wire
	q.makeAnswer = answerTexts
	return q, t.stream
}

// choiceList is an answer that OpenAI's clients read, or a chunk of its stream.
type choiceList[Choice any] struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []Choice `json:"choices"`
	Usage       *usage   `json:"usage,omitempty"`
	Unmask      any      `json:"unmask,omitempty"`
}

// newChoiceList returns the answer of a call, or a chunk of it, without choices.
func newChoiceList[Choice any](c *call, object string) choiceList[Choice] {
	return choiceList[Choice]{ID: c.id(), Object: object, Created: c.Created.Unix(),
		Model: c.model.name, Fingerprint: c.model.fingerprint(), Choices: []Choice{}}
}

type completionChoice struct {
	Index    int       `json:"index"`
	Text     string    `json:"text"`
	LogProbs *logProbs `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`

	// Choices are the texts of guided_choice with their probabilities.
	Choices []constrain.Choice `json:"choices,omitempty"`
}

// completionWire is the wire of /v1/completions.
var completionWire = &openAIWire[completionChoice]{object: "text_completion",
	chunk: "text_completion", newChoice: newCompletionChoice}

// newCompletionChoice returns a choice of a completion. What belongs to its end comes with the end.
func newCompletionChoice(u *choiceUpdate) completionChoice {
	c := completionChoice{Index: u.index, Text: u.text}
	if u.rendered == nil {
		return c
	}
	c.Finish = &u.finish
	c.Choices = u.member.Choices
	if u.form.LogProbs {
		c.LogProbs = u.form.logProbs(u.member, u.rendered.Tokens())
	}
	return c
}
