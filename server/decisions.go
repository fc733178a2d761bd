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

// decisionRequest is a request for decisions.
type decisionRequest struct {
	model     *servedModel
	state     decide.State
	questions []decide.Question
}

// addQuestion adds a question, or fails with why it cannot be asked. label says which it is.
func (q *decisionRequest) addQuestion(f *fields, label string, question decide.Question,
	err error) {
	if err != nil {
		fault := faultOf("questions", err)
		fault.Param = "questions"
		fault.Message = "question " + label + ": " + fault.Message
		f.fail(fault)
	}
	q.questions = append(q.questions, question)
}

// decide answers a request by its questions' answers, of which newAnswer makes a JSON value.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, f *fields, q *decisionRequest,
	newAnswer func(answers []decide.Answer, tokens int) any) *Fault {
	if n := len(q.questions); f.fault == nil && (n < 1 || n > maxQuestions) {
		f.fail(rangeFault("questions", fmt.Sprintf("%d of them", n),
			fmt.Sprintf("1 to %d", maxQuestions)))
	}
	return s.answerInTurns(w, r, f, q.model, func(ctx context.Context,
		turn model.Turn) ([]byte, error) {
		answers, err := decide.Ask(ctx, q.model.Model, q.state, q.questions,
			decide.Options{Turn: turn, Calibration: q.model.calibration})
		if err != nil {
			return nil, err
		}
		tokens := 0
		for _, a := range answers {
			tokens += a.Tokens
		}
		return encodeJSON(newAnswer(answers, tokens)), nil
	})
}

// handleSystemOne answers POST /v1/systemone. It takes any name of a model, as its clients have one
// that is nobody else's.
func (s *Server) handleSystemOne(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	w.Header().Set("X-Typesafe-Request-Id", notesOf(r).id)
	name := f.text("model")
	isNamed := func(m *servedModel) bool { return m.name == name }
	if !slices.ContainsFunc(s.allModels(), isNamed) {
		delete(f.object, "model")
	}
	q := decisionRequest{model: s.model(f, needsDecisions)}
	if raw := f.value("state"); raw == nil {
		f.fail(missingFault("state", "a text, an object or a list"))
	} else {
		var err error
		q.state, err = decide.ReadState(raw)
		if err != nil {
			f.fail(faultOf("state", err))
		}
	}
	f.failIf(!f.has("questions"), missingFault("questions", "an object of questions"))
	questions := map[string]json.RawMessage{}
	f.decode("questions", &questions, "an object of questions")
	names := sortedKeys(questions)
	for _, name := range names {
		question, err := decide.ReadQuestion(questions[name])
		q.addQuestion(f, truncate(name), question, err)
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
		fault.Status = http.StatusUnprocessableEntity // as its clients expect
	}
	return fault
}

// openAIQuestion is a question of /v1/decisions.
type openAIQuestion struct {
	Type         string          `json:"type"`
	Name         *string         `json:"name"`
	Instructions json.RawMessage `json:"instructions"`
	Choices      []struct {
		// Value is a text, true or false.
		Value       json.RawMessage `json:"value"`
		Description string          `json:"description"`
	} `json:"choices"`
	Levels []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"levels"`
}

// convert returns the question as the library has it.
func (o *openAIQuestion) convert() (q decide.Question, err error) {
	q.Instructions, err = joinTextParts(o.Instructions)
	if err != nil {
		return q, err
	}
	switch o.Type {
	case "predicate":
		q.Kind = decide.Boolean
	case "choice", "score":
		q.Kind = decide.Kind(o.Type)
	default:
		return q, rangeFault("type", fmt.Sprintf("%.40q", o.Type), "predicate, choice or score")
	}
	if q.Kind != decide.Choice && o.Choices != nil || q.Kind != decide.Score && o.Levels != nil {
		return q, fieldFault("unsupported_parameter", "questions",
			"choices or levels of a %s, want choices of a choice and levels of a score", o.Type)
	}
	for _, c := range o.Choices {
		label := string(c.Value) // so that true and "true" are two choices
		if json.Unmarshal(c.Value, &label) != nil && label != "true" && label != "false" {
			return q, fieldFault("wrong_type", "questions",
				"value is %.40s, want a text, true or false", label)
		}
		q.Options = append(q.Options, decide.Option{Label: label, Description: c.Description})
	}
	for _, l := range o.Levels {
		q.Options = append(q.Options, decide.Option(l))
	}
	return q, q.Check()
}

// handleDecisions answers POST /v1/decisions.
func (s *Server) handleDecisions(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	q := decisionRequest{model: s.model(f, needsDecisions)}
	f.accept("prompt_cache_options")
	if raw := f.value("input"); raw == nil {
		f.fail(missingFault("input", "a text or a list of messages"))
	} else {
		var err error
		q.state, err = readInput(raw)
		if err != nil {
			f.fail(faultOf("input", err))
		}
	}
	var questions []openAIQuestion
	if raw := f.value("questions"); raw == nil {
		f.fail(missingFault("questions", "a list of questions"))
	} else if err := jsonline.DecodeStrict(raw, &questions); err != nil {
		f.fail(fieldFault("wrong_type", "questions", "questions: %s", oneLine(err)))
	}
	for i := range questions {
		question, err := questions[i].convert()
		q.addQuestion(f, fmt.Sprint(i), question, err)
	}

	return s.decide(w, r, f, &q, func(list []decide.Answer, tokens int) any {
		var answers []any
		for i := range list {
			answers = append(answers, questions[i].newAnswer(&q.questions[i], &list[i]))
		}
		return map[string]any{
			"object":  "decision",
			"model":   q.model.name,
			"answers": answers,
			"usage": map[string]any{
				"input_tokens":          tokens,
				"output_tokens":         0,
				"total_tokens":          tokens,
				"input_tokens_details":  map[string]int{"cached_tokens": 0, "cache_write_tokens": 0},
				"output_tokens_details": map[string]int{"reasoning_tokens": 0},
			},
		}
	})
}

// newAnswer returns an answer as OpenAI's clients read it.
func (o *openAIQuestion) newAnswer(q *decide.Question, a *decide.Answer) map[string]any {
	out := map[string]any{"type": o.Type, "name": o.Name, "unmask": a.Info()}
	var probabilities []map[string]any
	switch q.Kind {
	case decide.Boolean:
		out["probability"] = a.P[1]
		return out
	case decide.Choice:
		for i, c := range o.Choices {
			probabilities = append(probabilities,
				map[string]any{"value": c.Value, "probability": a.P[i]})
		}
		out["choice"] = o.Choices[a.Best()].Value
	case decide.Score:
		for i, l := range o.Levels {
			probabilities = append(probabilities,
				map[string]any{"value": i, "label": l.Label, "probability": a.P[i]})
		}
		out["score"] = a.Score()
	}
	out["probabilities"] = probabilities
	out["confidence"] = a.Confidence
	return out
}

// readInput returns the state of a text, of one message, or of a conversation, which is JSON then.
func readInput(raw json.RawMessage) (decide.State, error) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		text, err := joinTextParts(raw)
		return decide.State{Text: text}, err
	}

	var conversation []json.RawMessage
	for i, item := range items {
		var m struct {
			Type    string          `json:"type"`
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		err := json.Unmarshal(item, &m)
		isMessage := err == nil && (m.Type == "" || m.Type == "message") && m.Role != ""
		isCall := err == nil && (strings.Contains(m.Type, "tool_call") ||
			strings.Contains(m.Type, "function_call"))
		switch {
		case isMessage:
			text, err := joinTextParts(m.Content)
			if err != nil || len(items) == 1 {
				return decide.State{Text: text}, err
			}
			conversation = append(conversation, encodeJSON(struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			}{m.Role, text}))
		case isCall:
			conversation = append(conversation, item)
		default:
			return decide.State{}, fieldFault("unsupported_parameter", "input",
				"input item %d has the type %.40q, want messages with a role, and calls of functions "+
					"and tools", i, m.Type)
		}
	}
	return decide.ReadState(encodeJSON(conversation))
}

// joinTextParts returns a text, or the texts of a list of parts, one a line.
func joinTextParts(raw json.RawMessage) (string, error) {
	var text string
	if raw == nil || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string          `json:"type"`
		Text string          `json:"text"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", fieldFault("wrong_type", "input",
			"a text is %s, want a text or a list of parts", jsonline.ValueKind(raw))
	}

	var lines []string
	for _, p := range parts {
		line := p.Text
		switch p.Type {
		case "input_text", "output_text":
		case "input_json":
			var err error
			line, err = decide.ValueText(p.Data)
			if err != nil {
				return "", err
			}
		default:
			return "", fieldFault("unsupported_parameter", "input",
				"a part has the type %.40q, want input_text or input_json: models here read no "+
					"pictures with questions", p.Type)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
