// Package tasks measures answers: of word problems, choices, JSON, puzzles and lines of people, by
// sampler and number of steps.
package tasks

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"unmask"
	"unmask/internal/jsonline"
	"unmask/param"
)

// Item is one task, a line of a file: a request, and the answer that is right.
type Item struct {
	ID   string `json:"id,omitempty"` // "" for the number of the line among the items, from 0
	Kind string `json:"kind"`         // one of Kinds

	// Answer is what is right. number: a number, or a text that ends with one after ####. exact: a
	// text, or a list of texts of which any is right. choice: the index of the right choice, from
	// 0, or its text. json: a value; without one, any that Schema allows. waiting-line: the names
	// in order. sudoku, latin-square and python have none.
	Answer json.RawMessage `json:"answer,omitempty"`

	Choices []string `json:"choices,omitempty"` // of choice: texts that may follow the prompt
	Puzzle  string   `json:"puzzle,omitempty"`  // a row a line, "." for what is missing
	Line    []string `json:"line,omitempty"`    // of waiting-line to shuffle: the names as given

	// Input has the fields of an unmask.Request: prompt, messages or infill, schema, max_tokens ...
	Input unmask.Input `json:"input"`
}

// Kinds are the kinds of tasks.
var Kinds = []string{"number", "exact", "choice", "json", "sudoku", "latin-square", "waiting-line",
	"python"}

// itemFields are the names of an item's fields in a line; all others are those of its Input.
var itemFields = []string{"id", "kind", "answer", "choices", "puzzle", "line"}

// MarshalJSON writes the fields of the request beside the others.
func (it Item) MarshalJSON() ([]byte, error) {
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(it.Input, &merged); err != nil {
		return nil, err
	}
	type plainItem Item // without this method
	itemJSON, err := json.Marshal(plainItem(it))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(itemJSON, &merged); err != nil {
		return nil, err
	}
	delete(merged, "input")
	return json.Marshal(merged)
}

// UnmarshalJSON reads a line. What is not a field of the item belongs to its request, whose own
// fields are checked when it is applied.
func (it *Item) UnmarshalJSON(data []byte) error {
	request := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &request); err != nil {
		return errors.New("no JSON object, want one")
	}
	item := map[string]json.RawMessage{}
	for _, name := range itemFields {
		if value, ok := request[name]; ok {
			item[name] = value
			delete(request, name)
		}
	}
	input, err := json.Marshal(request)
	if err != nil {
		return err
	}
	itemJSON, err := json.Marshal(item)
	if err != nil {
		return err
	}
	type plainItem Item // without this method
	*it = Item{}
	if err := jsonline.DecodeStrict(itemJSON, (*plainItem)(it)); err != nil {
		return err
	}
	it.Input = input
	return it.checkAnswer()
}

// checkAnswer returns an error for an item that has no right answer.
func (it *Item) checkAnswer() error {
	r, _, err := it.Input.ApplyTo(unmask.Request{})
	if err != nil {
		return err
	}
	missing := func(name, want string) error {
		return &param.Error{Name: name, Found: "missing", Want: want, Reason: param.OutOfRange}
	}
	switch {
	case !slices.Contains(Kinds, it.Kind):
		return &param.Error{
			Name:   "kind",
			Found:  param.Quote(it.Kind),
			Want:   param.JoinOr(Kinds),
			Reason: param.NoSuch,
		}
	case r.Prompt == "" && r.Messages == nil && r.Infill == "":
		return missing("prompt", "a prompt, messages or infill")
	case it.Kind == "choice" && len(it.Choices) < 2:
		return missing("choices", "two or more")
	case it.Kind == "choice" && r.Infill != "":
		return &param.Error{
			Name:   "infill",
			Found:  "given",
			Want:   "a prompt or messages with choices",
			Reason: param.Unsupported,
		}
	}
	switch it.Kind {
	case "sudoku", "latin-square":
		_, err = readGrid(it.Puzzle, it.Kind == "sudoku")
	case "json":
		if it.Answer == nil && r.Schema == nil {
			return missing("answer", "a value, or a schema")
		}
	case "number":
		_, err = answerNumber(it.Answer)
	case "exact", "waiting-line":
		_, err = answerTexts(it.Answer)
	case "choice":
		_, err = it.rightChoice()
	}
	return err
}

const maxLine = 16 << 20 // bytes

// ReadItems reads a file of items, one JSON object a line. Blank lines are skipped.
func ReadItems(r io.Reader) (items []Item, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	ids := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var it Item
		if err := json.Unmarshal(line, &it); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		it.ID = cmp.Or(it.ID, fmt.Sprint(len(items)))
		if ids[it.ID] {
			return nil, fmt.Errorf("line %d: id is %s, want one that no other line has", n,
				param.Quote(it.ID))
		}
		ids[it.ID] = true
		items = append(items, it)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("there are 0 lines, want at least 1")
	}
	return items, nil
}
