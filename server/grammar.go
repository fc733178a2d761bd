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

// readGrammar sets what a text must spell. format is OpenAI's form of it; vLLM's fields
// (structured_outputs, guided_json, guided_regex and guided_choice) are read here, and fields of
// our own were read before.
func (s *settings) readGrammar(f *fields, format responseFormat) {
	g := grammarFields{fields: f, grammar: &s.request.Grammar}
	switch {
	case g.grammar.Schema != nil:
		g.setBy = "schema"
	case g.grammar.Regex != "":
		g.setBy = "regex"
	case g.grammar.Choice != nil:
		g.setBy = "choice"
	}
	if format.schema != nil {
		g.set(format.field, "json", format.schema)
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
