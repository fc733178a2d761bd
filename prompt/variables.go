package prompt

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"unmask/param"
)

// Variables are values for a chat template: bool, string, int or nil.
type Variables map[string]any

// UnmarshalJSON reads an object.
func (v *Variables) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	variables := Variables{}
	for name, value := range raw {
		parsed, err := parseVariable(name, value)
		if err != nil {
			return err
		}
		variables[name] = parsed
	}
	*v = variables
	return nil
}

// Set adds NAME=VALUE, where a VALUE that is not a bool, a whole number or null is a text. A text
// without = or without a name is an error.
func (v *Variables) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%s has no value, want NAME=VALUE", param.Quote(text))
	}
	if *v == nil {
		*v = Variables{}
	}
	parsed, err := parseVariable(name, []byte(value))
	if err != nil {
		parsed = value
	}
	(*v)[name] = parsed
	return nil
}

// parseVariable returns the value of a variable from its JSON.
func parseVariable(name string, raw json.RawMessage) (any, error) {
	if number, err := strconv.Atoi(string(raw)); err == nil {
		return number, nil
	}
	switch string(raw) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	return nil, &param.Error{
		Name:   "chat_template_kwargs",
		Found:  fmt.Sprintf("%s: %.40s", name, raw),
		Want:   "true, false, a text, a whole number or null",
		Reason: param.WrongType,
	}
}
