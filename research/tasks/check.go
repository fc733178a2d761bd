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

// IsRight reports whether a text is the right answer. A choice is checked by its index, see task,
// and a program is not checked, because it would have to run: for these kinds it is false.
func (it *Item) IsRight(text string) (bool, error) {
	switch it.Kind {
	case "number":
		want, err := answerNumber(it.Answer)
		got := lastNumber(text)
		return err == nil && got != nil && got.Cmp(want) == 0, err
	case "exact":
		want, err := answerTexts(it.Answer)
		return slices.Contains(want, strings.TrimSpace(text)), err
	case "json":
		return it.isRightJSON(text)
	case "sudoku", "latin-square":
		puzzle, err := readGrid(it.Puzzle, it.Kind == "sudoku")
		return err == nil && puzzle.isSolvedBy(text), err
	case "waiting-line":
		return it.isRightLine(text)
	}
	return false, nil
}

var numeral = regexp.MustCompile(`[-+]?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)([eE][-+]?\d+)?`)

// lastNumber returns the number after the last ####, or the last number of the text; nil if there
// is none. Thousands may be separated by commas, and 1e3 is 1000. The last one counts because a
// model reasons before it answers.
func lastNumber(text string) *big.Rat {
	if mark := strings.LastIndex(text, "####"); mark >= 0 {
		return parseRational(numeral.FindString(text[mark:]))
	}
	numbers := numeral.FindAllString(text, -1)
	if len(numbers) == 0 {
		return nil
	}
	return parseRational(numbers[len(numbers)-1])
}

// parseRational returns an exact number, nil for a text that is none. Floats would make 0.1 and
// 1/10 different answers.
func parseRational(text string) *big.Rat {
	x, _ := new(big.Rat).SetString(strings.ReplaceAll(text, ",", ""))
	return x
}

// answerNumber returns the number of an answer.
func answerNumber(answer json.RawMessage) (*big.Rat, error) {
	text := string(answer)
	if len(answer) > 0 && answer[0] == '"' {
		if err := json.Unmarshal(answer, &text); err != nil {
			return nil, err
		}
	}
	if x := lastNumber(text); x != nil {
		return x, nil
	}
	return nil, wrongAnswer("answer", answer, "a number, or a text that ends with one")
}

// answerTexts returns an answer that is a text or a list of texts, without spaces around them.
func answerTexts(answer json.RawMessage) (texts []string, err error) {
	var single string
	if json.Unmarshal(answer, &single) == nil {
		texts = []string{single}
	} else if json.Unmarshal(answer, &texts) != nil || len(texts) == 0 {
		return nil, wrongAnswer("answer", answer, "a text or a list of texts")
	}
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	return texts, nil
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
	return 0, wrongAnswer("answer", it.Answer, fmt.Sprintf("0 to %d, or the text of a choice",
		len(it.Choices)-1))
}

// wrongAnswer is the error of an item's field that its kind does not allow.
func wrongAnswer(name string, found json.RawMessage, want string) error {
	text := fmt.Sprintf("%.40s", found)
	if found == nil {
		text = "missing"
	}
	return &param.Error{Name: name, Found: text, Want: want, Reason: param.WrongType}
}

// isRightJSON reports whether a text is one JSON value, which the schema allows and which equals
// the answer, where there are such. Numbers are compared by value, and objects without an order.
func (it *Item) isRightJSON(text string) (bool, error) {
	got, err := decodeJSON([]byte(text))
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

		// The automaton knows one way to write each value. Any other is as right, such as another order
		// of keys.
		written, err := s.Write([]byte(text))
		if err != nil || !s.Match(written) {
			return false, nil
		}
	}
	if it.Answer == nil {
		return true, nil
	}
	want, err := decodeJSON(it.Answer)
	return err == nil && reflect.DeepEqual(got, want), err
}

// decodeJSON returns one JSON value, with numbers in lowest terms.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return normalizeNumbers(v), nil
}

// normalizeNumbers returns a value with its numbers as texts that are equal where the numbers are.
func normalizeNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if x := parseRational(v.String()); x != nil {
			return x.RatString()
		}
	case []any:
		for i := range v {
			v[i] = normalizeNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normalizeNumbers(v[name])
		}
	}
	return v
}

// isRightLine reports whether a text has the names of the answer in order, separated by commas or
// line breaks; where Line is given, in any order but that one.
func (it *Item) isRightLine(text string) (bool, error) {
	want, err := answerTexts(it.Answer)
	if err != nil {
		return false, err
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".")
	isSeparator := func(r rune) bool { return r == ',' || r == '\n' }
	var got []string
	for name := range strings.FieldsFuncSeq(text, isSeparator) {
		got = append(got, strings.TrimSpace(name))
	}
	if it.Line == nil {
		return slices.Equal(got, want), nil
	}
	isShuffled := !slices.Equal(got, it.Line)
	hasAllNames := slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	return isShuffled && hasAllNames, nil
}
