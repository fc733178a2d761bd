package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/tokenizers/chat"
)

// Kind is the type of a question.
type Kind string

// The kinds of questions.
const (
	Boolean Kind = "boolean" // whether a statement holds: the options are false and true
	Choice  Kind = "choice"  // one of some options
	Score   Kind = "score"   // a level of a scale, from 0
)

// Kinds are all kinds.
var Kinds = []Kind{Boolean, Choice, Score}

// Bounds of the number of options.
const (
	MaxOptions = 255
	MaxLevels  = 10
)

// Option is one of a question's answers.
type Option struct {
	Label       string
	Description string
}

// text returns how a prompt names the option.
func (o Option) text() string {
	if o.Description == "" {
		return o.Label
	}
	return o.Label + ": " + o.Description
}

// Question is a typed question. Its name is the asker's affair: models never see it.
type Question struct {
	Kind         Kind
	Instructions string
	Options      []Option // of a Boolean false and then true; nil for its usual ones
}

// Check returns an error for a question that cannot be asked.
func (q *Question) Check() error {
	least := 2
	most := MaxOptions
	switch q.Kind {
	case Boolean:
		if least, most = 2, 2; q.Options == nil {
			least = 0
		}
	case Score:
		most = MaxLevels
	case Choice:
	default:
		return &param.Error{
			Name:  "type",
			Found: param.Quote(string(q.Kind)),
			Want:  "boolean, choice or score",
		}
	}
	if n := len(q.Options); n < least || n > most {
		return &param.Error{
			Name:  "options",
			Found: fmt.Sprint(n),
			Want: fmt.Sprintf("%d to %d of them",
				least, most),
		}
	}
	described := false
	seen := map[string]bool{}
	for _, o := range q.Options {
		if seen[o.text()] && q.Kind == Choice {
			return &param.Error{
				Name:  "options",
				Found: param.Quote(o.text()) + " twice",
				Want:  "it once",
			}
		}
		seen[o.text()] = true
		described = described || o.Description != ""
	}
	if q.Instructions == "" && q.Kind == Boolean && !described {
		return &param.Error{
			Name:   "instructions",
			Found:  "missing",
			Reason: param.Missing,
			Want:   "a question, or descriptions of true or false",
		}
	}
	return nil
}

// usual are the descriptions of a Boolean's options without their own, as Laya was trained.
var usual = [2]Option{{"false", "no, the statement does not hold"},
	{"true", "yes, the statement holds"}}

// texts returns how a prompt names the options.
func (q *Question) texts() (list []string) {
	options := q.Options
	if q.Kind == Boolean && options == nil {
		options = usual[:]
	}
	for i, o := range options {
		switch {
		case q.Kind == Score:
			list = append(list, fmt.Sprintf("level %d: %s", i, o.text()))
			continue
		case q.Kind == Boolean && o.Label == "":
			o.Label = usual[i].Label
		}
		if q.Kind == Boolean && o.Description == "" {
			o.Description = usual[i].Description
		}
		list = append(list, o.text())
	}
	return list
}

// ReadQuestion reads a question of JSON: {"type": "noul" or "boolean", "choice" or "score",
// "instructions": a text or any other value, "criteria": descriptions}. The criteria are of a noul
// an object of true and false, which may be left out, as may "labels" for them; of a choice an
// object from labels to descriptions or null; of a score a list.
func ReadQuestion(text []byte) (q Question, err error) {
	var w struct {
		Type         string            `json:"type"`
		Instructions json.RawMessage   `json:"instructions"`
		Criteria     json.RawMessage   `json:"criteria"`
		Labels       map[string]string `json:"labels"`
	}
	if err := jsonline.DecodeStrict(text, &w); err != nil {
		return q, err
	}
	if q.Kind = Kind(w.Type); w.Type == "noul" {
		q.Kind = Boolean
	}
	if q.Instructions, err = ValueText(w.Instructions); err != nil {
		return q, err
	}
	list, isList, err := entries(w.Criteria)
	switch {
	case err != nil:
		return q, err
	case list != nil && isList != (q.Kind == Score):
		return q, &param.Error{
			Name:   "criteria",
			Found:  jsonline.ValueKind(w.Criteria),
			Want:   "a list of a score, an object of others",
			Reason: param.WrongType,
		}
	case q.Kind == Boolean && list != nil || w.Labels != nil:
		q.Options = []Option{{Label: strings.TrimSpace(w.Labels["false"])},
			{Label: strings.TrimSpace(w.Labels["true"])}}
		for _, o := range list {
			at := slices.Index([]string{"false", "true"}, o.Label)
			if at < 0 {
				return q, &param.Error{Name: "criteria", Found: param.Quote(o.Label), Want: "true and false"}
			}
			q.Options[at].Description = o.Description
		}
	default:
		q.Options = list
	}
	return q, q.Check()
}

// entries returns the entries of an object in their order, or those of a list as labels.
func entries(value json.RawMessage) (list []Option, isList bool, err error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, false, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	open, err := d.Token()
	if isList = open == json.Delim('['); err != nil || !isList && open != json.Delim('{') {
		return nil, false, &param.Error{
			Name:   "criteria",
			Found:  jsonline.ValueKind(value),
			Want:   "an object or a list",
			Reason: param.WrongType,
		}
	}
	for list = []Option{}; d.More(); {
		var label string
		var raw json.RawMessage
		if !isList {
			token, err := d.Token()
			if err != nil {
				return nil, false, err
			}
			label = token.(string) // the name of an entry
		}
		if err := d.Decode(&raw); err != nil {
			return nil, false, err
		}
		text, err := ValueText(raw)
		switch {
		case err != nil:
			return nil, false, err
		case isList && text == "":
			return nil, false, &param.Error{
				Name:   "criteria",
				Found:  "an empty level",
				Want:   "a description of each",
				Reason: param.WrongType,
			}
		case isList:
			list = append(list, Option{Label: text})
		default:
			list = append(list, Option{label, text})
		}
	}
	return list, isList, nil
}

// State is what questions are about.
type State struct {
	Text string
	List bool // it is a list, such as a conversation, whose end counts more than its beginning
}

// ReadState returns the state of a JSON value: a text as it is, anything else as JSON.
func ReadState(value json.RawMessage) (State, error) {
	text, err := ValueText(value)
	return State{Text: text, List: len(value) > 0 && value[0] == '['}, err
}

// asJSON writes a value as Python's json.dumps does, with non-ASCII text as it is.
const asJSON = `{{ tools | tojson }}`

// ValueText returns a text of JSON as it is and any other value as Python writes it, "" for null.
func ValueText(value json.RawMessage) (text string, err error) {
	if len(value) == 0 || string(value) == "null" || json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	t, err := chat.Parse(asJSON, nil)
	if err != nil {
		return "", err
	}
	parts, err := t.RenderJSON([]byte("[]"), chat.Options{Tools: value})
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), err
}

// AnswerInfo says how an answer was made.
type AnswerInfo struct {
	Mass        float64  `json:"mass"`
	Passes      int      `json:"passes"`
	Act         *float64 `json:"act_probability,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Temperature float64  `json:"temperature,omitempty"` // of the calibration
}

// Info returns what an answer has beside its probabilities.
func (a *Answer) Info() AnswerInfo {
	return AnswerInfo{a.Mass, a.Passes, a.Act, a.Notes, a.Temperature}
}

// JSON returns the answer to a question in the form that goes with Read.
func (a *Answer) JSON(q *Question) map[string]any {
	out := map[string]any{"unmask": a.Info()}
	p := map[string]float64{}
	legend := map[string]string{}
	for i, o := range q.Options {
		name := o.Label
		if q.Kind == Score {
			name = strconv.Itoa(i)
			legend[name] = o.Label
		}
		p[name] = a.P[i]
	}
	switch q.Kind {
	case Boolean:
		out["type"] = "noul"
		out["noul"] = a.P[1]
		return out
	case Choice:
		out["type"], out["choice"] = "choice", q.Options[a.Best()].Label
	case Score:
		out["type"], out["score"], out["legend"] = "score", a.Score(), legend
	}
	out["probabilities"] = p
	out["confidence"] = a.Confidence
	return out
}

// RightOption returns the option that a value of JSON names: true or false, a label, or a level's
// number.
func (q *Question) RightOption(value json.RawMessage) (int, error) {
	name := string(value)
	if q.Kind != Score {
		_ = json.Unmarshal(value, &name) // true and false are no texts
	}
	for i := range q.texts() {
		if q.Kind == Boolean && name == usual[i].Label || q.Kind == Score && name == strconv.Itoa(i) ||
			q.Kind == Choice && name == q.Options[i].Label {
			return i, nil
		}
	}
	return 0, &param.Error{
		Name:  "answer",
		Found: param.Quote(name),
		Want:  "true, false, a label or a level's number",
	}
}
