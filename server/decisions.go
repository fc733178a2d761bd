package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/decide"
	"unmask/internal/jsonline"
	"unmask/model"
)

// Typed decisions: POST /v1/systemone as TypeSafe's clients ask for them (typesafe-sdk 0.7.5), and
// POST /v1/decisions as OpenAI's do (openai 3.57). Both are questions of package decide.

// maxQuestions is the most questions of a request.
const maxQuestions = 400

// deciding is a request for decisions.
type deciding struct {
	model     *servedModel
	state     decide.State
	questions []decide.Question
}

// ask adds a question, or notes why it cannot be asked.
func (q *deciding) ask(f *fields, name string, one decide.Question, err error) {
	if err != nil {
		fault := refused("questions", err)
		fault.Param, fault.Message = "questions", "question "+name+": "+fault.Message
		f.fail(fault)
	}
	q.questions = append(q.questions, one)
}

// decide answers a request by its questions' answers.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, f *fields, q *deciding,
	form func(list []decide.Answer, tokens int) any) *Fault {
	if n := len(q.questions); f.fault == nil && (n < 1 || n > maxQuestions) {
		f.fail(outOfRange("questions", fmt.Sprintf("%d of them", n),
			fmt.Sprintf("1 to %d", maxQuestions)))
	}
	return s.visit(w, r, f, q.model, func(ctx context.Context, turn model.Turn) ([]byte, error) {
		list, err := decide.Ask(ctx, q.model.Model, q.state, q.questions,
			decide.Options{Turn: turn, Calibration: q.model.calibration})
		if err != nil {
			return nil, err
		}
		tokens := 0
		for _, a := range list {
			tokens += a.Tokens
		}
		return encode(form(list, tokens)), nil
	})
}

// systemOne answers POST /v1/systemone. It takes any name of a model, as its clients have one that
// is nobody else's.
func (s *Server) systemOne(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	w.Header().Set("X-Typesafe-Request-Id", note(r).id)
	if name := f.text("model"); !slices.ContainsFunc(s.all(), func(m *servedModel) bool {
		return m.name == name
	}) {
		delete(f.object, "model")
	}
	q := deciding{model: s.model(f, wantsDecisions)}
	var err error
	if raw := f.value("state"); raw == nil {
		f.fail(missing("state", "a text, an object or a list"))
	} else if q.state, err = decide.ReadState(raw); err != nil {
		f.fail(refused("state", err))
	}
	list := map[string]json.RawMessage{}
	f.refuse(!f.has("questions"), missing("questions", "an object of questions"))
	f.decode("questions", &list, "an object of questions")
	names := sortedKeys(list)
	for _, name := range names {
		one, err := decide.ReadQuestion(list[name])
		q.ask(f, cut(name), one, err)
	}
	fault := s.decide(w, r, f, &q, func(list []decide.Answer, tokens int) any {
		answers := map[string]any{}
		for i := range list {
			answers[names[i]] = list[i].JSON(&q.questions[i])
		}
		return map[string]any{"model": q.model.name, "answers": answers,
			"usage": map[string]int{"input_tokens": tokens, "output_tokens": 0}}
	})
	if fault != nil && fault.Status == http.StatusBadRequest {
		fault.Status = http.StatusUnprocessableEntity
	}
	return fault
}

// openAIQuestion is a question of /v1/decisions.
type openAIQuestion struct {
	Type         string          `json:"type"`
	Name         *string         `json:"name"`
	Instructions json.RawMessage `json:"instructions"`
	Choices      []struct {
		Value       json.RawMessage `json:"value"` // a text, true or false
		Description string          `json:"description"`
	} `json:"choices"`
	Levels []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"levels"`
}

// read returns the question as the library has it.
func (o *openAIQuestion) read() (q decide.Question, err error) {
	if q.Instructions, err = textOfParts(o.Instructions); err != nil {
		return q, err
	}
	switch o.Type {
	case "predicate":
		q.Kind = decide.Boolean
	case "choice", "score":
		q.Kind = decide.Kind(o.Type)
	default:
		return q, outOfRange("type", fmt.Sprintf("%.40q", o.Type), "predicate, choice or score")
	}
	if q.Kind != decide.Choice && o.Choices != nil || q.Kind != decide.Score && o.Levels != nil {
		return q, bad("unsupported_parameter", "questions",
			"choices or levels of a %s, want choices of a choice and levels of a score", o.Type)
	}
	for _, c := range o.Choices {
		label := string(c.Value) // true and "true" are two choices
		if json.Unmarshal(c.Value, &label) != nil && label != "true" && label != "false" {
			return q, bad("wrong_type", "questions", "value is %.40s, want a text, true or false", label)
		}
		q.Options = append(q.Options, decide.Option{Label: label, Description: c.Description})
	}
	for _, l := range o.Levels {
		q.Options = append(q.Options, decide.Option(l))
	}
	return q, q.Check()
}

// decisions answers POST /v1/decisions.
func (s *Server) decisions(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	q := deciding{model: s.model(f, wantsDecisions)}
	f.value("prompt_cache_options")
	var err error
	if raw := f.value("input"); raw == nil {
		f.fail(missing("input", "a text or a list of messages"))
	} else if q.state, err = readInput(raw); err != nil {
		f.fail(refused("input", err))
	}
	var asked []openAIQuestion
	if raw := f.value("questions"); raw == nil {
		f.fail(missing("questions", "a list of questions"))
	} else if err := jsonline.DecodeStrict(raw, &asked); err != nil {
		f.fail(bad("wrong_type", "questions", "questions: %s", oneLine(err)))
	}
	for i := range asked {
		one, err := asked[i].read()
		q.ask(f, fmt.Sprint(i), one, err)
	}
	return s.decide(w, r, f, &q, func(list []decide.Answer, tokens int) any {
		var answers []any
		for i := range list {
			answers = append(answers, asked[i].answer(&q.questions[i], &list[i]))
		}
		return map[string]any{"object": "decision", "model": q.model.name, "answers": answers,
			"usage": map[string]any{"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens,
				"input_tokens_details":  map[string]int{"cached_tokens": 0, "cache_write_tokens": 0},
				"output_tokens_details": map[string]int{"reasoning_tokens": 0}}}
	})
}

// answer returns an answer as OpenAI's clients read it.
func (o *openAIQuestion) answer(q *decide.Question, a *decide.Answer) map[string]any {
	out := map[string]any{"type": o.Type, "name": o.Name, "unmask": a.Info()}
	var p []map[string]any
	switch q.Kind {
	case decide.Boolean:
		out["probability"] = a.P[1]
		return out
	case decide.Choice:
		for i, c := range o.Choices {
			p = append(p, map[string]any{"value": c.Value, "probability": a.P[i]})
		}
		out["choice"] = o.Choices[a.Best()].Value
	case decide.Score:
		for i, l := range o.Levels {
			p = append(p, map[string]any{"value": i, "label": l.Label, "probability": a.P[i]})
		}
		out["score"] = a.Score()
	}
	out["probabilities"], out["confidence"] = p, a.Confidence
	return out
}

// readInput returns the state of a text, of one message, or of a conversation, which is JSON then.
func readInput(raw json.RawMessage) (decide.State, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		text, err := textOfParts(raw)
		return decide.State{Text: text}, err
	}
	var out []json.RawMessage
	for i, item := range list {
		var m struct {
			Type    string          `json:"type"`
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		err := json.Unmarshal(item, &m)
		switch {
		case err == nil && (m.Type == "" || m.Type == "message") && m.Role != "":
			text, err := textOfParts(m.Content)
			if err != nil || len(list) == 1 {
				return decide.State{Text: text}, err
			}
			out = append(out, encode(struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			}{m.Role, text}))
		case err == nil && (strings.Contains(m.Type, "tool_call") ||
			strings.Contains(m.Type, "function_call")):
			out = append(out, item)
		default:
			return decide.State{}, bad("unsupported_parameter", "input",
				"input item %d has the type %.40q, want messages with a role, and calls of functions and tools",
				i, m.Type)
		}
	}
	return decide.ReadState(encode(out))
}

// textOfParts returns a text, or the texts of a list of parts, one a line.
func textOfParts(raw json.RawMessage) (string, error) {
	var text string
	var parts []struct {
		Type string          `json:"type"`
		Text string          `json:"text"`
		Data json.RawMessage `json:"data"`
	}
	switch {
	case raw == nil || json.Unmarshal(raw, &text) == nil:
		return text, nil
	case json.Unmarshal(raw, &parts) != nil:
		return "", bad("wrong_type", "input", "a text is %s, want a text or a list of parts",
			jsonline.ValueKind(raw))
	}
	var lines []string
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text":
		case "input_json":
			var err error
			if p.Text, err = decide.ValueText(p.Data); err != nil {
				return "", err
			}
		default:
			return "", bad("unsupported_parameter", "input", "a part has the type %.40q, want input_text or "+
				"input_json: models here read no pictures with questions", p.Type)
		}
		lines = append(lines, p.Text)
	}
	return strings.Join(lines, "\n"), nil
}
