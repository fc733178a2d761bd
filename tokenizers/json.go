package tokenizers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// object is a JSON object by exact names; encoding/json alone would fold their case.
type object map[string]json.RawMessage

// get reads the field name into dst and leaves dst alone if it is missing or null.
func (o object) get(name string, dst any) error {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkJSON says whether data is one JSON value, no deeper than maxDepth, with no name twice
// in an object.
func checkJSON(data []byte, maxDepth int) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		names map[string]bool // nil in an array
		value bool            // the next token of an object is a value
	}
	var open []level
	for {
		token, err := d.Token()
		if err == io.EOF && len(open) == 0 && d.InputOffset() > 0 {
			return nil
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		if len(open) > 0 {
			top := &open[len(open)-1]
			if name, ok := token.(string); ok && top.names != nil && !top.value {
				if top.names[name] {
					return fmt.Errorf("byte %d: name %.40q appears twice", d.InputOffset(), name)
				}
				top.names[name], top.value = true, true
				continue
			}
			top.value = false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxDepth {
				return fmt.Errorf("byte %d: nested deeper than %d", d.InputOffset(), maxDepth)
			}
			l := level{}
			if token == json.Delim('{') {
				l.names = map[string]bool{}
			}
			open = append(open, l)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			if len(open) > 0 {
				open[len(open)-1].value = false
			}
		}
		if len(open) == 0 {
			if rest := bytes.TrimLeft(data[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
				return fmt.Errorf("byte %d: %.10q after the value", len(data)-len(rest), rest)
			}
		}
	}
}
