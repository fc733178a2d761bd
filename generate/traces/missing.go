package traces

import (
	"encoding/json"

	"unmask/internal/jsonline"
)

// missing is the error of a key that a line of a trace lacks.
type missing struct{ key, want string }

// Error implements error.
func (m *missing) Error() string { return m.key + " is missing, want " + m.want }

// unmarshal decodes a line into v and reports the first of keys that it lacks.
func unmarshal(line []byte, v any, keys ...string) error {
	if err := json.Unmarshal(line, v); err != nil {
		return err
	}
	if key := jsonline.Missing(line, keys...); key != "" {
		return &missing{key, wants[key]}
	}
	return nil
}

// wants says what the keys of a trace are.
var wants = map[string]string{"known": "a list of pieces", "opened": "a list of pieces",
	"sample": "a number", "step": "a number", "steps": "a number", "position": "a number",
	"token": "a number"}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Piece) UnmarshalJSON(data []byte) error {
	type fields Piece // without this method
	return unmarshal(data, (*fields)(p), "position", "token")
}
