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
	// Boolean asks whether a statement holds: the options are false and true.
	Boolean Kind = "boolean"

	// Choice asks for one of some options.
	Choice Kind = "choice"

	// Score asks for a level of a scale. Levels are numbered from 0.
	Score Kind = "score"
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

// Question is a typed question. It has no name, because models never see one: callers who ask
// several questions keep their names themselves.
type Question struct {
	Kind         Kind
	Instructions string

	// Options are those of a Boolean in the order false, true; nil for its default ones.
	Options []Option
}

// optionBounds returns the smallest and the largest number of options of a question; ok is false
// for a kind that does not exist.
func (q *Question) optionBounds() (fewest, largest int, ok bool) {
	switch q.Kind {
	case Boolean:
		if q.Options == nil {
			return 0, 2, true
		}
		return 2, 2, true
	case Choice:
		return 2, MaxOptions, true
	case Score:
		return 2, MaxLevels, true
	}
	return 0, 0, false
}

// Check returns an error for a question that cannot be asked.
func (q *Question) Check() error {
	fewest, largest, ok := q.optionBounds()
	if !ok {
		return &param.Error{
			Name:  "type",
			Found: param.Quote(string(q.Kind)),
			Want:  "boolean, choice or score",
		}
	}
	if n := len(q.Options); n < fewest || n > largest {
		return &param.Error{
			Name:  "options",
			Found: fmt.Sprint(n),
			Want:  fmt.Sprintf("%d to %d of them", fewest, largest),
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

// booleanOptions describe the options of a Boolean without its own, in the words that Laya was
// trained with.
var booleanOptions = [2]Option{
	{"false", "no, the statement does not hold"},
	{"true", "yes, the statement holds"},
}

// optionTexts returns how a prompt names the options.
func (q *Question) optionTexts() (list []string) {
	options := q.Options
	if q.Kind == Boolean && options == nil {
		options = booleanOptions[:]
	}
	for i, o := range options {
		switch q.Kind {
		case Score:
			list = append(list, fmt.Sprintf("level %d: %s", i, o.text()))
			continue
		case Boolean:
			if o.Label == "" {
				o.Label = booleanOptions[i].Label
			}
			if o.Description == "" {
				o.Description = booleanOptions[i].Description
			}
		}
		list = append(list, o.text())
	}
	return list
}

// ReadQuestion reads a question of JSON, in the form of Laya's program:
//
//	{"type": "noul", "instructions": ..., "criteria": ...}
//
// The type is noul (or boolean), choice or score. Instructions are a text, or any other value,
// which is then shown as JSON. The criteria describe the options: for a noul an object with true
// and false, which may be missing, as may "labels" for the two; for a choice an object from labels
// to descriptions or null; for a score a list.
func ReadQuestion(text []byte) (q Question, err error) {
	var fields struct {
		Type         string            `json:"type"`
		Instructions json.RawMessage   `json:"instructions"`
		Criteria     json.RawMessage   `json:"criteria"`
		Labels       map[string]string `json:"labels"`
	}
	if err := jsonline.DecodeStrict(text, &fields); err != nil {
		return q, err
	}
	q.Kind = Kind(fields.Type)
	if fields.Type == "noul" {
		q.Kind = Boolean
	}
	q.Instructions, err = ValueText(fields.Instructions)
	if err != nil {
		return q, err
	}

	criteria, isList, err := readCriteria(fields.Criteria)
	if err != nil {
		return q, err
	}
	// The levels of a score are a list; the labels of a choice may be one, as d1's program takes them.
	if criteria != nil && isList != (q.Kind == Score) && !(isList && q.Kind == Choice) {
		return q, &param.Error{
			Name:   "criteria",
			Found:  jsonline.ValueKind(fields.Criteria),
			Want:   "a list of a score or choice, an object of others",
			Reason: param.WrongType,
		}
	}

	q.Options = criteria
	if q.Kind == Boolean && criteria != nil || fields.Labels != nil {
		q.Options, err = readBooleanOptions(fields.Labels, criteria)
		if err != nil {
			return q, err
		}
	}
	return q, q.Check()
}

// readBooleanOptions returns the options of a noul: false, then true, in whatever order the
// criteria name them.
func readBooleanOptions(labels map[string]string, criteria []Option) ([]Option, error) {
	names := []string{"false", "true"}
	options := make([]Option, len(names))
	for i, name := range names {
		options[i].Label = strings.TrimSpace(labels[name])
	}
	for _, o := range criteria {
		i := slices.Index(names, o.Label)
		if i < 0 { // d1's program takes these names too
			i = slices.Index([]string{"no", "yes"}, o.Label)
		}
		if i < 0 {
			return options, &param.Error{
				Name:  "criteria",
				Found: param.Quote(o.Label),
				Want:  "true and false",
			}
		}
		options[i].Description = o.Description
	}
	return options, nil
}

// readCriteria returns the entries of an object in their order, or those of a list as labels. It
// reads token by token, because a Go map would lose the order, in which options are asked.
func readCriteria(value json.RawMessage) (list []Option, isList bool, err error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, false, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	open, err := d.Token()
	isList = open == json.Delim('[')
	if err != nil || !isList && open != json.Delim('{') {
		return nil, false, &param.Error{
			Name:   "criteria",
			Found:  jsonline.ValueKind(value),
			Want:   "an object or a list",
			Reason: param.WrongType,
		}
	}

	list = []Option{}
	for d.More() {
		var o Option
		if isList {
			o, err = readLevel(d)
		} else {
			o, err = readEntry(d)
		}
		if err != nil {
			return nil, false, err
		}
		list = append(list, o)
	}
	return list, isList, nil
}

// readLevel reads an element of a list: a description of a level.
func readLevel(d *json.Decoder) (o Option, err error) {
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return o, err
	}
	o.Label, err = ValueText(value)
	if err == nil && o.Label == "" {
		err = &param.Error{
			Name:   "criteria",
			Found:  "an empty level",
			Want:   "a description of each",
			Reason: param.WrongType,
		}
	}
	return o, err
}

// readEntry reads an entry of an object: a label and its description.
func readEntry(d *json.Decoder) (o Option, err error) {
	name, err := d.Token()
	if err != nil {
		return o, err
	}
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return o, err
	}
	o.Label = name.(string)
	o.Description, err = ValueText(value)
	return o, err
}

// State is the text that questions are about.
type State struct {
	Text string

	// List reports whether the state is a list, such as a conversation: where it is too long for the
	// network, its beginning is dropped and not its end.
	List bool

	// value is the JSON value that Text is made of; nil for a text.
	value json.RawMessage
}

// ReadState returns the state of a JSON value: a text as it is, anything else as JSON. An error
// is that of its rendering.
func ReadState(value json.RawMessage) (State, error) {
	text, err := ValueText(value)
	s := State{Text: text, List: len(value) > 0 && value[0] == '['}
	if len(value) > 0 && value[0] != '"' && string(value) != "null" {
		s.value = value
	}
	return s, err
}

// jsonTemplate writes a value as Python's json.dumps does, with non-ASCII text as it is. Networks
// were trained on that form, which has spaces that Go's encoder does not write.
const jsonTemplate = `{{ tools | tojson }}`

// ValueText returns a text of JSON as it is and any other value as Python writes it, "" for null.
func ValueText(value json.RawMessage) (text string, err error) {
	if len(value) == 0 || string(value) == "null" || json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	t, err := chat.Parse(jsonTemplate, nil)
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

// AnswerInfo reports how an answer was made.
type AnswerInfo struct {
	By     Form     `json:"by,omitempty"`
	Mass   float64  `json:"mass"`
	Passes int      `json:"passes"`
	Act    *float64 `json:"act_probability,omitempty"`
	Notes  []string `json:"notes,omitempty"`

	// Temperature is that of the calibration.
	Temperature float64 `json:"temperature,omitempty"`
}

// Info returns what an answer has beside its probabilities.
func (a *Answer) Info() AnswerInfo {
	return AnswerInfo{
		By:          a.Form,
		Mass:        a.Mass,
		Passes:      a.Passes,
		Act:         a.Act,
		Notes:       a.Notes,
		Temperature: a.Temperature,
	}
}

// JSON returns the answer to a question, in the form of Laya's program, as ReadQuestion reads
// questions in that form.
func (a *Answer) JSON(q *Question) map[string]any {
	out := map[string]any{"unmask": a.Info()}
	if q.Kind == Boolean {
		out["type"] = "noul"
		out["noul"] = a.P[1]
		return out
	}

	probabilities := map[string]float64{}
	legend := map[string]string{}
	for i, o := range q.Options {
		name := o.Label
		if q.Kind == Score {
			name = strconv.Itoa(i)
			legend[name] = o.Label
		}
		probabilities[name] = a.P[i]
	}
	switch q.Kind {
	case Choice:
		out["type"] = "choice"
		out["choice"] = q.Options[a.Best()].Label
	case Score:
		out["type"] = "score"
		out["score"] = a.Score()
		out["legend"] = legend
	}
	out["probabilities"] = probabilities
	out["confidence"] = a.Confidence
	return out
}

// RightOption returns the option that a value of JSON names: true or false, a label, or a level's
// number. Another value is a *param.Error.
func (q *Question) RightOption(value json.RawMessage) (int, error) {
	name := string(value)
	if q.Kind != Score {
		_ = json.Unmarshal(value, &name) // true and false are not texts: name stays as it is
	}
	for i := range q.optionTexts() {
		isNamed := false
		switch q.Kind {
		case Boolean:
			isNamed = name == booleanOptions[i].Label
		case Choice:
			isNamed = name == q.Options[i].Label
		case Score:
			isNamed = name == strconv.Itoa(i)
		}
		if isNamed {
			return i, nil
		}
	}
	return 0, &param.Error{
		Name:  "answer",
		Found: param.Quote(name),
		Want:  "true, false, a label or a level's number",
	}
}
