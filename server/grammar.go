package server

import (
	"bytes"
	"encoding/json"

	"unmask/prompt"
)

// grammarFields reads the fields that say what a text must spell. They exclude each other.
type grammarFields struct {
	*fields
	grammar *prompt.Grammar

	// setBy is the field that sets the grammar, "" before one does.
	setBy string
}

// readGrammar reads what a text must spell, in OpenAI's form (response_format) and vLLM's
// (structured_outputs, guided_json, guided_regex and guided_choice). Fields of our own were read
// before.
func (s *settings) readGrammar(f *fields) {
	g := grammarFields{fields: f, grammar: &s.request.Grammar}
	switch {
	case g.grammar.Schema != nil:
		g.setBy = "schema"
	case g.grammar.Regex != "":
		g.setBy = "regex"
	case g.grammar.Choice != nil:
		g.setBy = "choice"
	}
	if raw := f.value("response_format"); raw != nil {
		g.readResponseFormat(raw)
	}
	for _, kind := range []string{"json", "regex", "choice"} {
		if raw := f.value("guided_" + kind); raw != nil {
			g.set("guided_"+kind, kind, raw)
		}
	}
	g.readStructuredOutputs()
	s.grammarField = g.setBy
}

// set sets the grammar by a field: a schema (json), an expression (regex) or texts (choice).
func (g *grammarFields) set(field, kind string, raw json.RawMessage) {
	if g.setBy != "" {
		g.fail(fieldFault("unsupported_parameter", field, "%s and %s together, want one of them",
			g.setBy, field))
		return
	}
	g.setBy = field
	switch kind {
	case "json":
		var text string
		if json.Unmarshal(raw, &text) == nil { // vLLM takes a schema as text too
			raw = json.RawMessage(text)
		}
		var schema bytes.Buffer
		if json.Compact(&schema, raw) != nil {
			g.failType(field, raw, "a JSON Schema")
			return
		}
		g.grammar.Schema = schema.Bytes()
	case "regex":
		g.grammar.Regex = g.parseText(field, raw)
	case "choice":
		if json.Unmarshal(raw, &g.grammar.Choice) != nil {
			g.failType(field, raw, "a list of texts")
		}
	}
}

// anyObject is the schema of type json_object.
const anyObject = `{"type":"object"}`

// readStructuredOutputs reads vLLM's structured_outputs.
func (g *grammarFields) readStructuredOutputs() {
	const field = "structured_outputs"
	var object map[string]json.RawMessage
	g.decode(field, &object, "an object")
	for _, kind := range sortedKeys(object) {
		value := object[kind]
		switch {
		case string(value) == "null":
		case kind == "json" || kind == "regex" || kind == "choice":
			g.set(field, kind, value)
		case kind == "json_object" && string(value) == "true":
			g.set(field, "json", json.RawMessage(anyObject))
		case kind != "json_object":
			g.fail(fieldFault("unsupported_parameter", field,
				"%s has %.40q, want json, regex, choice or json_object", field, kind))
		}
	}
}

// readResponseFormat reads OpenAI's response_format. Its schema may stand in json_schema, as OpenAI
// has it, or beside the type, as llama.cpp does.
func (g *grammarFields) readResponseFormat(raw json.RawMessage) {
	const field = "response_format"
	format := &fields{}
	wrapped := &fields{} // json_schema
	if json.Unmarshal(raw, &format.object) != nil {
		g.failType(field, raw, `an object such as {"type": "json_object"}`)
		return
	}
	formatType := format.text("type")
	schema := format.value("schema")
	if value := format.value("json_schema"); value != nil {
		if json.Unmarshal(value, &wrapped.object) != nil {
			format.failType("json_schema", value, "an object with a schema")
		}
		wrapped.text("name")
		wrapped.text("description")
		wrapped.flag("strict") // the answer always follows the schema
		wrappedSchema := wrapped.value("schema")
		if wrappedSchema != nil && schema != nil {
			format.fail(fieldFault("unsupported_parameter", "schema",
				"schema is there twice, want one"))
		} else if wrappedSchema != nil {
			schema = wrappedSchema
		}
	}

	switch {
	case format.fault != nil:
	case formatType == "text" && schema != nil:
		format.fail(fieldFault("unsupported_parameter", "schema",
			"schema with type text, want type json_schema"))
	case formatType == "text":
	case formatType == "json_schema" && schema == nil:
		format.fail(fieldFault("missing_parameter", "json_schema",
			"%s has no json_schema.schema, want one", field))
	case formatType == "json_object" && schema == nil:
		g.set(field, "json", json.RawMessage(anyObject))
	case formatType == "json_object" || formatType == "json_schema":
		g.set(field, "json", schema)
	default:
		format.fail(fieldFault("unsupported_parameter", "type",
			"%s has type %.40q, want text, json_object or json_schema", field, formatType))
	}
	for _, o := range []*fields{wrapped, format} {
		if fault := o.finish(); fault != nil {
			fault.Param = field
			g.fail(fault)
		}
	}
}
