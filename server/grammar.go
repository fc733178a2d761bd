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
	switch {
	case g.Schema != nil:
		named = "schema"
	case g.Regex != "":
		named = "regex"
	case g.Choice != nil:
		named = "choice"
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

// responseFormat reads OpenAI's response_format and passes its schema to use, if it has one. The
// schema may stand in json_schema, as OpenAI has it, or beside the type, as llama.cpp does.
func (s *settings) responseFormat(f *fields, raw json.RawMessage, use func(json.RawMessage)) {
	const name = "response_format"
	o, inner := &fields{}, &fields{}
	if json.Unmarshal(raw, &o.object) != nil {
		f.wrongType(name, raw, `an object such as {"type": "json_object"}`)
		return
	}
	kind, schema := o.text("type"), o.value("schema")
	if given := o.value("json_schema"); given != nil {
		if json.Unmarshal(given, &inner.object) != nil {
			o.wrongType("json_schema", given, "an object with a schema")
		}
		inner.text("name")
		inner.text("description")
		inner.flag("strict") // the answer always follows the schema
		if of := inner.value("schema"); of != nil && schema == nil {
			schema = of
		} else if of != nil {
			o.fail(bad("unsupported_parameter", "schema", "schema is there twice, want one"))
		}
	}
	switch {
	case o.fault != nil:
	case kind == "text" && schema != nil:
		o.fail(bad("unsupported_parameter", "schema", "schema with type text, want type json_schema"))
	case kind == "text":
	case kind == "json_schema" && schema == nil:
		o.fail(bad("missing_parameter", "json_schema", "%s has no json_schema.schema, want one", name))
	case kind == "json_object" && schema == nil:
		use(json.RawMessage(anyObject))
	case kind == "json_object" || kind == "json_schema":
		use(schema)
	default:
		o.fail(bad("unsupported_parameter", "type",
			"%s has type %.40q, want text, json_object or json_schema", name, kind))
	}
	for _, of := range []*fields{inner, o} {
		if fault := of.end(); fault != nil {
			fault.Param = name
			f.fail(fault)
		}
	}
}
