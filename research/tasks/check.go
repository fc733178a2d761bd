package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"unmask"
	"unmask/grammar/schema"
	"unmask/param"
)

// IsRight reports whether a text is the right answer. A choice is checked by its index, see Task,
// and a program is not checked: for these kinds Right returns false.
func (it *Item) IsRight(text string) (bool, error) {
	switch it.Kind {
	case "number":
		want, err := number(it.Answer)
		got := lastNumber(text)
		return err == nil && got != nil && got.Cmp(want) == 0, err
	case "exact":
		want, err := texts(it.Answer)
		return slices.Contains(want, strings.TrimSpace(text)), err
	case "json":
		return it.rightJSON(text)
	case "sudoku", "latin-square":
		puzzle, err := readGrid(it.Puzzle, it.Kind == "sudoku")
		return err == nil && puzzle.solvedBy(text), err
	case "waiting-line":
		return it.rightLine(text)
	}
	return false, nil
}

var numeral = regexp.MustCompile(`[-+]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)([eE][-+]?\d+)?`)

// lastNumber returns the number after the last ####, or the last number of the text; nil if there
// is none. Thousands may be separated by commas, and 1e3 is 1000.
func lastNumber(text string) *big.Rat {
	if at := strings.LastIndex(text, "####"); at >= 0 {
		return rational(numeral.FindString(text[at:]))
	}
	all := numeral.FindAllString(text, -1)
	if len(all) == 0 {
		return nil
	}
	return rational(all[len(all)-1])
}

func rational(text string) *big.Rat {
	x, _ := new(big.Rat).SetString(strings.ReplaceAll(text, ",", "")) // nil where there is none
	return x
}

// number returns the number of an answer.
func number(answer json.RawMessage) (*big.Rat, error) {
	text := string(answer)
	if len(answer) > 0 && answer[0] == '"' {
		if err := json.Unmarshal(answer, &text); err != nil {
			return nil, err
		}
	}
	if x := lastNumber(text); x != nil {
		return x, nil
	}
	return nil, wrong("answer", answer, "a number, or a text that ends with one")
}

// texts returns an answer that is a text or a list of texts, without spaces around them.
func texts(answer json.RawMessage) (list []string, err error) {
	var one string
	if json.Unmarshal(answer, &one) == nil {
		list = []string{one}
	} else if json.Unmarshal(answer, &list) != nil || len(list) == 0 {
		return nil, wrong("answer", answer, "a text or a list of texts")
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list, nil
}

// rightChoice returns the index of the right choice.
func (it *Item) rightChoice() (int, error) {
	var i int
	var text string
	switch {
	case json.Unmarshal(it.Answer, &i) == nil && i >= 0 && i < len(it.Choices):
		return i, nil
	case json.Unmarshal(it.Answer, &text) == nil && slices.Contains(it.Choices, text):
		return slices.Index(it.Choices, text), nil
	}
	return 0, wrong("answer", it.Answer, fmt.Sprintf("0 to %d, or the text of a choice",
		len(it.Choices)-1))
}

func wrong(name string, found json.RawMessage, want string) error {
	text := fmt.Sprintf("%.40s", found)
	if found == nil {
		text = "missing"
	}
	return &param.Error{Name: name, Found: text, Want: want, Reason: param.WrongType}
}

// rightJSON reports whether a text is one JSON value, which the schema allows and which equals the
// answer, where there are such. Numbers are compared by value, and objects without an order.
func (it *Item) rightJSON(text string) (bool, error) {
	got, err := value([]byte(text))
	if err != nil {
		return false, nil
	}
	r, _, err := it.Input.ApplyTo(unmask.Request{})
	if err != nil {
		return false, err
	}
	if r.Schema != nil {
		s, err := schema.Compile(r.Schema, schema.Options{})
		if err != nil {
			return false, err
		}
		written, err := s.Write([]byte(text))
		if err != nil || !s.Match(written) {
			return false, nil
		}
	}
	if it.Answer == nil {
		return true, nil
	}
	want, err := value(it.Answer)
	return err == nil && reflect.DeepEqual(got, want), err
}

// value returns one JSON value, with numbers in lowest terms.
func value(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return exact(v), nil
}

// exact returns a value with its numbers as texts that are equal where the numbers are.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if x := rational(v.String()); x != nil {
			return x.RatString()
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(v[name])
		}
	}
	return v
}

// rightLine reports whether a text has the names of the answer in order, separated by commas or
// line breaks; where Line is given, in any order but that one.
func (it *Item) rightLine(text string) (bool, error) {
	want, err := texts(it.Answer)
	if err != nil {
		return false, err
	}
	var got []string
	for name := range strings.FieldsFuncSeq(strings.TrimRight(strings.TrimSpace(text), "."),
		func(r rune) bool { return r == ',' || r == '\n' }) {
		got = append(got, strings.TrimSpace(name))
	}
	if it.Line == nil {
		return slices.Equal(got, want), nil
	}
	return !slices.Equal(got, it.Line) &&
		slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))), nil
}
