package server

import (
	"bytes"
	"encoding/json"

	"unmask/prompt"
)

// spelling reads the fields that say what a text must spell.
type spelling struct {
	*fields
	of    *prompt.Grammar
	named string // the field that sets it
}

// grammar reads what a text must spell, in OpenAI's form (response_format) and vLLM's
// (structured_outputs, guided_json, guided_regex and guided_choice).
func (s *settings) grammar(f *fields) {
	g := spelling{fields: f, of: &s.request.Grammar}
	switch {
	case g.of.Schema != nil:
		g.named = "schema"
	case g.of.Regex != "":
		g.named = "regex"
	case g.of.Choice != nil:
		g.named = "choice"
	}
	if raw := f.value("response_format"); raw != nil {
		g.responseFormat(raw)
	}
	for _, kind := range []string{"json", "regex", "choice"} {
		if raw := f.value("guided_" + kind); raw != nil {
			g.set("guided_"+kind, kind, raw)
		}
	}
	g.structuredOutputs()
	s.form = g.named
}

// set sets the grammar by a field: a schema (json), an expression (regex) or texts (choice).
func (g *spelling) set(field, kind string, raw json.RawMessage) {
	if g.named != "" {
		g.fail(bad("unsupported_parameter", field, "%s and %s together, want one of them", g.named,
			field))
		return
	}
	g.named = field
	switch kind {
	case "json":
		var compact bytes.Buffer
		if text := ""; json.Unmarshal(raw, &text) == nil { // vLLM takes a schema as text too
			raw = json.RawMessage(text)
		}
		if json.Compact(&compact, raw) != nil {
			g.wrongType(field, raw, "a JSON Schema")
			return
		}
		g.of.Schema = compact.Bytes()
	case "regex":
		g.of.Regex = g.textOf(field, raw)
	case "choice":
		if json.Unmarshal(raw, &g.of.Choice) != nil {
			g.wrongType(field, raw, "a list of texts")
		}
	}
}

// anyObject is the schema of type json_object.
const anyObject = `{"type":"object"}`

// structuredOutputs reads vLLM's structured_outputs.
func (g *spelling) structuredOutputs() {
	const name = "structured_outputs"
	var object map[string]json.RawMessage
	g.decode(name, &object, "an object")
	for _, kind := range sortedKeys(object) {
		value := object[kind]
		switch {
		case string(value) == "null":
		case kind == "json" || kind == "regex" || kind == "choice":
			g.set(name, kind, value)
		case kind == "json_object" && string(value) == "true":
			g.set(name, "json", json.RawMessage(anyObject))
		case kind != "json_object":
			g.fail(bad("unsupported_parameter", name,
				"%s has %.40q, want json, regex, choice or json_object", name, kind))
		}
	}
}

// responseFormat reads OpenAI's response_format. Its schema may stand in json_schema, as OpenAI has
// it, or beside the type, as llama.cpp does.
func (g *spelling) responseFormat(raw json.RawMessage) {
	const name = "response_format"
	o, inner := &fields{}, &fields{}
	if json.Unmarshal(raw, &o.object) != nil {
		g.wrongType(name, raw, `an object such as {"type": "json_object"}`)
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
		g.set(name, "json", json.RawMessage(anyObject))
	case kind == "json_object" || kind == "json_schema":
		g.set(name, "json", schema)
	default:
		o.fail(bad("unsupported_parameter", "type",
			"%s has type %.40q, want text, json_object or json_schema", name, kind))
	}
	for _, of := range []*fields{inner, o} {
		if fault := of.end(); fault != nil {
			fault.Param = name
			g.fail(fault)
		}
	}
}
