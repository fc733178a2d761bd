package server

import (
	"bytes"
	"encoding/json"
	"slices"

	"unmask/generate"
	"unmask/param"
	"unmask/prompt"
)

// textRequest is a request for texts, whichever API it came by. The reader of each route fills it
// from the fields of its API, and what comes after knows no API but this. Fields that all APIs call
// the same, such as seed and temperature, are not here: readSettings reads them.
type textRequest struct {
	// kind and idPrefix are those of the query.
	kind     string
	idPrefix string

	// wire is the shape in which the client gets the answer.
	wire wire

	stream streamOptions

	// logProbs reports whether the answer has the log-probabilities of its tokens.
	logProbs bool

	// top is how many of the most probable tokens of each position the answer has. topField is the
	// client's field that says so.
	top      int
	topField string

	// stopTexts end an answer. stopField is the client's field that has them.
	stopTexts []string
	stopField string

	// maxTokens bounds the tokens of an answer, 0 for as many as there is room for. maxTokensField
	// is the client's field that says so.
	maxTokens      int
	maxTokensField string

	format responseFormat
}

// responseFormat is the JSON that an answer must be.
type responseFormat struct {
	// field is the client's field that says so.
	field string

	// schema is a JSON Schema, nil where any text will do.
	schema json.RawMessage
}

// chatRequest is a request for the answer to a conversation.
type chatRequest struct {
	textRequest

	// modelName is the name of a model, "" where the client leaves the choice to the server.
	modelName string

	// messages are the conversation, and messagesField is the client's field that has it.
	messages      []message
	messagesField string

	tools toolRequest
}

// toolRequest is what a request says of functions that the model may call.
type toolRequest struct {
	functions []prompt.Function

	// shown are the functions as chat templates show them to a model: the list that
	// /v1/chat/completions has, as JSON.
	shown json.RawMessage

	choice toolChoice

	// several reports whether an answer may have more than one call.
	several bool
}

// toolChoice says whether an answer is a call.
type toolChoice struct {
	mode toolMode

	// function is the name of the function to call, if mode is callsFunction.
	function string

	// found is what the client sent, for an error.
	found string
}

// toolMode is a kind of toolChoice.
type toolMode int

const (
	// mayCall leaves it to the model whether it answers with text or with calls.
	mayCall toolMode = iota

	neverCalls
	mustCall
	callsFunction
)

// readStopAndFormat reads stop and response_format by the names that they have in OpenAI's API and
// in our own.
func (t *textRequest) readStopAndFormat(f *fields) {
	t.readStopTexts(f, "stop")
	t.readResponseFormat(f, "response_format", f.value("response_format"))
}

// libraryNames returns the client's names of fields of an unmask.Request, for errors.
func (t *textRequest) libraryNames() map[string]string {
	return map[string]string{
		"length":     t.maxTokensField,
		"max_tokens": t.maxTokensField,
		"stop":       t.stopField,
	}
}

// eitherName returns the name by which a request has a field. The client's API calls it clientName,
// but the name in /v1/chat/completions is read too. A client that sends both by mistake learns the
// right one.
func (f *fields) eitherName(clientName, chatName string) string {
	if f.has(chatName) && !f.has(clientName) {
		return chatName
	}
	if f.has(clientName) {
		f.refuseBeside(clientName, chatName)
	}
	return clientName
}

// refuseBeside refuses a field of /v1/chat/completions in a request that says the same by
// clientName.
func (f *fields) refuseBeside(clientName, chatName string) {
	f.failIf(f.has(chatName), fieldFault("unknown_parameter", chatName,
		"unknown field %s, did you mean %s?", param.Quote(chatName), clientName))
}

// readLogProbs reads logprobs and top_logprobs as /v1/chat/completions has them.
func (t *textRequest) readLogProbs(f *fields) {
	t.logProbs = f.flag("logprobs")
	t.readTopLogProbs(f)
	if t.top > 0 && !t.logProbs {
		f.fail(rangeFault("top_logprobs", t.top, "0, or logprobs true"))
	}
}

// readTopLogProbs reads top_logprobs.
func (t *textRequest) readTopLogProbs(f *fields) {
	t.topField = "top_logprobs"
	t.top = f.integerOrNull("top_logprobs", 0, generate.MaxTop, 0)
}

// Bounds of stop.
const (
	maxStops     = 4
	maxStopBytes = 64
)

// readStopTexts reads the texts that end an answer.
func (t *textRequest) readStopTexts(f *fields, name string) {
	t.stopField = name
	if slices.Contains(placeholders["stop"], string(f.value(name))) {
		return
	}
	t.stopTexts = f.texts(name)
	f.failIf(len(t.stopTexts) > maxStops, fieldFault("out_of_range", name,
		"%s has %d texts, want at most %d", name, len(t.stopTexts), maxStops))
	for i, text := range t.stopTexts {
		f.failIf(len(text) < 1 || len(text) > maxStopBytes, fieldFault("out_of_range", name,
			"%s %d is %d bytes, want 1 to %d", name, i, len(text), maxStopBytes))
	}
}

// readMaxTokens reads the bound on an answer's tokens that is called name.
func (t *textRequest) readMaxTokens(f *fields, name string) {
	t.setMaxTokens(f, name, f.value(name))
}

// setMaxTokens sets the bound on an answer's tokens to raw, the value of a field, or to that of
// OpenAI's newer field.
func (t *textRequest) setMaxTokens(f *fields, name string, raw json.RawMessage) {
	t.maxTokensField = name
	t.maxTokens = f.parseMaxTokens(name, raw)
	const newer = "max_completion_tokens"
	if n := f.parseMaxTokens(newer, f.value(newer)); n > 0 {
		t.maxTokens = n
	}
}

// parseMaxTokens returns the bound on an answer's tokens that raw is, 0 where the client leaves it
// open. Clients have defaults beyond a model's length, so more than there is room for means all
// that there is.
func (f *fields) parseMaxTokens(name string, raw json.RawMessage) int {
	if raw == nil || slices.Contains(placeholders["max_tokens"], string(raw)) {
		return 0
	}
	return f.parseInteger(name, raw, 1, maxFirst)
}

// anyObject is the schema of type json_object.
const anyObject = `{"type":"object"}`

// readResponseFormat reads OpenAI's response_format. Its schema may stand in json_schema, as OpenAI
// has it, or beside the type, as llama.cpp and Anthropic do.
func (t *textRequest) readResponseFormat(f *fields, field string, raw json.RawMessage) {
	format := t.readFormatObject(f, field, raw)
	if format == nil {
		return
	}
	formatType := format.text("type")
	schema := format.value("schema")
	wrapped := &fields{} // json_schema
	if value := format.value("json_schema"); value != nil {
		if json.Unmarshal(value, &wrapped.object) != nil {
			format.failType("json_schema", value, "an object with a schema")
		}
		wrapped.readSchemaNames()
		wrappedSchema := wrapped.value("schema")
		if wrappedSchema != nil && schema != nil {
			format.fail(fieldFault("unsupported_parameter", "schema",
				"schema is there twice, want one"))
		} else if wrappedSchema != nil {
			schema = wrappedSchema
		}
	}
	t.format.set(format, formatType, schema)
	f.finishFormat(field, wrapped, format)
}

// readFlatFormat reads the format of /v1/responses, which has what response_format has in
// json_schema beside its type.
func (t *textRequest) readFlatFormat(f *fields, field string, raw json.RawMessage) {
	format := t.readFormatObject(f, field, raw)
	if format == nil {
		return
	}
	formatType := format.text("type")
	if formatType == "json_schema" {
		format.readSchemaNames()
	}
	t.format.set(format, formatType, format.value("schema"))
	f.finishFormat(field, format)
}

// readFormatObject returns the fields of a format, nil where there is none.
func (t *textRequest) readFormatObject(f *fields, field string, raw json.RawMessage) *fields {
	if raw == nil {
		return nil
	}
	t.format.field = field
	format := &fields{}
	if json.Unmarshal(raw, &format.object) != nil {
		f.failType(field, raw, `an object such as {"type": "json_object"}`)
		return nil
	}
	return format
}

// readSchemaNames reads what stands beside a schema and changes no answer.
func (f *fields) readSchemaNames() {
	f.text("name")
	f.text("description")
	f.flag("strict") // the answer always follows the schema
}

// set sets the format by its type and its schema, which is nil where there is none.
func (r *responseFormat) set(format *fields, formatType string, schema json.RawMessage) {
	switch {
	case format.fault != nil:
	case formatType == "text" && schema != nil:
		format.fail(fieldFault("unsupported_parameter", "schema",
			"schema with type text, want type json_schema"))
	case formatType == "text":
	case formatType == "json_schema" && schema == nil:
		format.fail(fieldFault("missing_parameter", "json_schema",
			"%s has no json_schema.schema, want one", r.field))
	case formatType == "json_object" && schema == nil:
		r.schema = json.RawMessage(anyObject)
	case formatType == "json_object" || formatType == "json_schema":
		r.schema = schema
	default:
		format.fail(fieldFault("unsupported_parameter", "type",
			"%s has type %.40q, want text, json_object or json_schema", r.field, formatType))
	}
}

// finishFormat fails with the first fault of the objects of a format, as one of its field.
func (f *fields) finishFormat(field string, objects ...*fields) {
	for _, object := range objects {
		if fault := object.finish(); fault != nil {
			fault.Param = field
			f.fail(fault)
		}
	}
}

// readChatTools reads tools, tool_choice and parallel_tool_calls as /v1/chat/completions has them.
func (t *toolRequest) readChatTools(f *fields) {
	f.readObjects("tools", maxTools, func(o *fields) {
		o.oneOf("type", "function")
		if !o.has("function") {
			o.fail(missingFault("function", "an object with a name"))
		}
		o.readOptionalObject("function", func(o *fields) { t.readFunction(o, "parameters") })
	})
	t.shown = bytes.Clone(f.value("tools")) // what waits keeps no body
	t.readSeveral(f)
	t.readChatChoice(f)
}

// readFlatTools reads tools that have the fields of a function beside their type, toolType. Their
// parameters are in schemaField. The fields in neutral change no answer.
func (t *toolRequest) readFlatTools(f *fields, toolType, schemaField string, neutral ...string) {
	type shownTool struct { // in the order in which templates show it
		Type     string `json:"type"`
		Function struct {
			Name        json.RawMessage `json:"name,omitempty"`
			Description json.RawMessage `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
			Strict      json.RawMessage `json:"strict,omitempty"`
		} `json:"function"`
	}
	var shown []shownTool
	f.readObjects("tools", maxTools, func(o *fields) {
		o.oneOf("type", toolType)
		o.accept(neutral...)
		tool := shownTool{Type: "function"}
		tool.Function.Name = o.value("name")
		tool.Function.Description = o.value("description")
		tool.Function.Parameters = o.value(schemaField)
		tool.Function.Strict = o.value("strict")
		shown = append(shown, tool)

		// A client that sends tools as /v1/chat/completions has them learns that they have an
		// unknown field, rather than that they have no name.
		if fault := o.finish(); fault != nil {
			o.fail(fault)
			return
		}
		t.readFunction(o, schemaField)
	})
	if f.fault == nil {
		t.shown = encodeJSON(shown)
	}
}

// readFunction reads a function, whose parameters are in schemaField.
func (t *toolRequest) readFunction(o *fields, schemaField string) {
	function := prompt.Function{Name: o.text("name")}
	if o.fault == nil && !toolName.MatchString(function.Name) {
		o.fail(rangeFault("name", param.Quote(function.Name),
			"1 to 64 letters, digits, underscores and dashes"))
	}
	o.text("description")
	o.flag("strict") // the arguments always follow the schema
	function.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if schema := o.value(schemaField); schema != nil {
		function.Parameters = bytes.Clone(schema)
		if schema[0] != '{' {
			o.failType(schemaField, schema, "a JSON Schema")
		}
	}
	sameName := func(other prompt.Function) bool { return other.Name == function.Name }
	if slices.ContainsFunc(t.functions, sameName) {
		o.fail(fieldFault("out_of_range", "name", "name %s is there twice, want once",
			param.Quote(function.Name)))
	}
	t.functions = append(t.functions, function)
}

// readSeveral reads parallel_tool_calls.
func (t *toolRequest) readSeveral(f *fields) {
	t.several = true
	if len(t.functions) == 0 {
		f.requireNeutral("parallel_tool_calls", "false", "true")
	} else if f.has("parallel_tool_calls") {
		t.several = f.flag("parallel_tool_calls")
	}
}

// readChatChoice reads tool_choice as /v1/chat/completions has it.
func (t *toolRequest) readChatChoice(f *fields) {
	raw := f.value("tool_choice")
	if t.choice.readWord(raw) {
		return
	}
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(raw, &choice) != nil {
		choice.Type = ""
	}
	t.choice.setFunction(f, raw, choice.Type, choice.Function.Name)
}

// readFlatChoice reads tool_choice as /v1/responses has it, with the function's name beside the
// type.
func (t *toolRequest) readFlatChoice(f *fields) {
	raw := f.value("tool_choice")
	if t.choice.readWord(raw) {
		return
	}
	var choice struct {
		Type string
		Name string
	}
	if json.Unmarshal(raw, &choice) != nil {
		choice.Type = ""
	}
	t.choice.setFunction(f, raw, choice.Type, choice.Name)
}

// readWord reads a tool_choice that is one of OpenAI's words or absent, and reports whether it is.
func (c *toolChoice) readWord(raw json.RawMessage) bool {
	c.found = truncate(string(raw))
	switch string(raw) {
	case "", `"auto"`:
		c.mode = mayCall
	case `"none"`:
		c.mode = neverCalls
	case `"required"`:
		c.mode = mustCall
	default:
		return false
	}
	return true
}

// setFunction sets a choice by an object of OpenAI's: its type must be function.
func (c *toolChoice) setFunction(f *fields, raw json.RawMessage, choiceType, name string) {
	if choiceType != "function" {
		f.failType("tool_choice", raw, `"required", "none" or one function`)
	}
	c.mode = callsFunction
	c.function = name
}
