package server

import (
	"bytes"
	"encoding/json"
)

// grammar reads what a text must spell, in OpenAI's form (response_format) and vLLM's
// (structured_outputs, guided_json, guided_regex and guided_choice).
func (s *settings) grammar(f *fields) {
	g := &s.request.Grammar
	named := "" // the field that is set
	for name, is := range map[string]bool{"schema": g.Schema != nil, "regex": g.Regex != "",
		"choice": g.Choice != nil} {
		if is {
			named = name
		}
	}
	defer func() { s.form = named }()
	use := func(field string, set func()) {
		if named != "" {
			f.fail(bad("unsupported_parameter", field, "%s and %s together, want one of them", named,
				field))
			return
		}
		named = field
		set()
	}
	schemaOf := func(raw json.RawMessage) {
		var compact bytes.Buffer
		if text := ""; json.Unmarshal(raw, &text) == nil { // vLLM takes a schema as text too
			raw = json.RawMessage(text)
		}
		if json.Compact(&compact, raw) != nil {
			f.wrongType(named, raw, "a JSON Schema")
			return
		}
		g.Schema = compact.Bytes()
	}
	object := func(raw json.RawMessage) map[string]json.RawMessage {
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil {
			f.wrongType(named, raw, "an object")
		}
		return o
	}
	if raw := f.value("response_format"); raw != nil {
		s.responseFormat(f, raw, func(schema json.RawMessage) {
			use("response_format", func() { schemaOf(schema) })
		})
	}
	fill := func(field, kind string, raw json.RawMessage) {
		use(field, func() {
			switch kind {
			case "json":
				schemaOf(raw)
			case "regex":
				g.Regex = f.textOf(field, raw)
			case "choice":
				if json.Unmarshal(raw, &g.Choice) != nil {
					f.wrongType(field, raw, "a list of texts")
				}
			}
		})
	}
	for _, kind := range []string{"json", "regex", "choice"} {
		if raw := f.value("guided_" + kind); raw != nil {
			fill("guided_"+kind, kind, raw)
		}
	}
	raw := f.value("structured_outputs")
	if raw == nil {
		return
	}
	for _, kind := range sortedKeys(object(raw)) {
		value := object(raw)[kind]
		switch {
		case string(value) == "null":
		case kind == "json" || kind == "regex" || kind == "choice":
			fill("structured_outputs", kind, value)
		case kind == "json_object" && string(value) == "true":
			fill("structured_outputs", "json", json.RawMessage(anyObject))
		case kind != "json_object":
			f.fail(bad("unsupported_parameter", "structured_outputs",
				"structured_outputs has %.40q, want json, regex, choice or json_object", kind))
		}
	}
}

// anyObject is the schema of type json_object.
const anyObject = `{"type":"object"}`

// responseFormat reads OpenAI's response_format and passes its schema to use, if it has one.
func (s *settings) responseFormat(f *fields, raw json.RawMessage, use func(json.RawMessage)) {
	var format struct {
		Type   string `json:"type"`
		Schema *struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(raw, &format) != nil {
		f.wrongType("response_format", raw, `an object such as {"type": "json_object"}`)
		return
	}
	switch {
	case format.Type == "text":
	case format.Type == "json_object":
		use(json.RawMessage(anyObject))
	case format.Type == "json_schema" && format.Schema != nil && format.Schema.Schema != nil:
		use(format.Schema.Schema)
	case format.Type == "json_schema":
		f.fail(bad("missing_parameter", "response_format",
			"response_format has no json_schema.schema, want one"))
	default:
		f.fail(bad("unsupported_parameter", "response_format",
			"response_format has type %.40q, want text, json_object or json_schema", format.Type))
	}
}
