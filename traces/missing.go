package traces

import "encoding/json"

// missing is the error of a key that a line of a trace lacks.
type missing struct{ key, want string }

// Error implements error.
func (m *missing) Error() string { return m.key + " is missing, want " + m.want }

// unmarshal decodes a line into v and reports the first of keys that it lacks: json leaves what is
// missing, or null, at 0.
func unmarshal(line []byte, v any, keys ...string) error {
	if err := json.Unmarshal(line, v); err != nil {
		return err
	}
	var there map[string]*present
	if err := json.Unmarshal(line, &there); err != nil {
		return err
	}
	for _, key := range keys {
		if there[key] == nil {
			return &missing{key, wants[key]}
		}
	}
	return nil
}

// wants says what the keys of a trace are.
var wants = map[string]string{"known": "a list of pieces", "opened": "a list of pieces",
	"sample": "a number", "step": "a number", "steps": "a number", "position": "a number",
	"token": "a number"}

// present is any value but null.
type present struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*present) UnmarshalJSON([]byte) error { return nil }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Piece) UnmarshalJSON(data []byte) error {
	type fields Piece // without this method
	return unmarshal(data, (*fields)(p), "position", "token")
}
