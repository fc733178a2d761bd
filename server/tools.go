package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"unmask/param"
)

// maxTools bounds the functions of a request.
const maxTools = 128

// toolName is what OpenAI takes as a function's name.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// tool is a function that an answer may call.
type tool struct {
	name       string
	parameters json.RawMessage // JSON Schema of its arguments
}

// tools reads tools and tool_choice. If the answer is to be a call, it becomes the settings'
// grammar, and the functions are returned as the chat template has them.
func (s *settings) tools(f *fields) (given json.RawMessage) {
	raw := f.value("tools")
	list := readTools(f, raw)
	choice := f.value("tool_choice")
	f.neutral("parallel_tool_calls", "false") // an answer is one call
	if f.fault != nil || string(choice) == `"none"` || len(list) == 0 && string(choice) == `"auto"` {
		return nil
	}
	const want = `"required", "none" or one function, as in {"type": "function", "function": ` +
		`{"name": "f"}}`
	switch {
	case choice == nil && len(list) == 0:
		return nil
	case choice == nil:
		f.fail(bad("unsupported_parameter", "tool_choice", "tool_choice is left out with tools, want %s",
			want))
	case len(list) == 0:
		f.fail(bad("unsupported_parameter", "tool_choice", "tool_choice is %s without tools, want tools",
			cut(string(choice))))
	case string(choice) == `"required"`:
	case choice[0] == '"':
		f.fail(bad("unsupported_parameter", "tool_choice", "tool_choice is %s, want %s",
			cut(string(choice)), want))
	default:
		list = chosenTool(f, choice, list)
	}
	if f.fault != nil {
		return nil
	}
	if !s.request.Grammar.IsZero() {
		f.fail(bad("unsupported_parameter", "tool_choice",
			"tool_choice asks for a call beside another grammar, want one of them"))
		return nil
	}
	s.request.Grammar.Schema = callSchema(list)
	return raw
}

// readTools reads the list of functions, nil where it is absent.
func readTools(f *fields, raw json.RawMessage) (list []tool) {
	if raw == nil {
		return nil
	}
	all := f.list("tools", raw)
	if len(all) > maxTools {
		f.fail(bad("out_of_range", "tools", "tools has %d functions, want at most %d", len(all),
			maxTools))
	}
	for i, one := range all {
		if f.fault != nil {
			return nil
		}
		o := &fields{}
		t := tool{}
		if json.Unmarshal(one, &o.object) != nil {
			o.wrongType("function", one, "an object")
		} else {
			t = readTool(o)
		}
		if slices.ContainsFunc(list, func(other tool) bool { return other.name == t.name }) {
			o.fail(bad("out_of_range", "function", "function %s is there twice, want once",
				param.Quote(t.name)))
		}
		if fault := o.end(); fault != nil {
			at := fmt.Sprintf("tools[%d]", i)
			fault.Param, fault.Message = at+"."+fault.Param, at+": "+fault.Message
			f.fail(fault)
			return nil
		}
		list = append(list, t)
	}
	return list
}

func readTool(o *fields) (t tool) {
	o.word("type", "function")
	raw := o.value("function")
	of := &fields{}
	if o.fault != nil {
		return t
	}
	if raw == nil {
		o.fail(bad("missing", "function", "function is missing, want an object with a name"))
		return t
	}
	if json.Unmarshal(raw, &of.object) != nil {
		o.wrongType("function", raw, "an object with a name")
		return t
	}
	t.name = of.text("name")
	if of.fault == nil && !toolName.MatchString(t.name) {
		of.fail(outOfRange("name", param.Quote(t.name),
			"1 to 64 letters, digits, underscores and dashes"))
	}
	of.text("description")
	of.flag("strict") // the arguments always follow the schema
	t.parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	if schema := of.value("parameters"); schema != nil {
		if t.parameters = schema; schema[0] != '{' {
			of.wrongType("parameters", schema, "a JSON Schema")
		}
	}
	if fault := of.end(); fault != nil {
		o.fail(fault)
	}
	return t
}

// chosenTool returns the function that an object in tool_choice names.
func chosenTool(f *fields, raw json.RawMessage, list []tool) []tool {
	var choice struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(raw, &choice) != nil || choice.Type != "function" {
		f.wrongType("tool_choice", raw, `"required", "none" or one function`)
		return nil
	}
	for _, t := range list {
		if t.name == choice.Function.Name {
			return []tool{t}
		}
	}
	f.fail(outOfRange("tool_choice", param.Quote(choice.Function.Name), "the name of one of tools"))
	return nil
}

// callSchema returns the schema of a call of one of some functions: its name and its arguments.
// References within the schema of a function's arguments go on to mean what they meant.
func callSchema(list []tool) json.RawMessage {
	var calls, definitions bytes.Buffer
	for i, t := range list {
		if i > 0 {
			calls.WriteByte(',')
			definitions.WriteByte(',')
		}
		at := "#/$defs/" + t.name
		fmt.Fprintf(&calls, `{"type":"object","properties":{"name":{"const":%q},"arguments":`+
			`{"$ref":%q}},"required":["name","arguments"],"additionalProperties":false}`, t.name, at)
		var compact bytes.Buffer
		_ = json.Compact(&compact, t.parameters) // it was decoded before
		own := strings.NewReplacer(`"$ref":"#"`, `"$ref":"`+at+`"`, `"$ref":"#/`, `"$ref":"`+at+`/`)
		fmt.Fprintf(&definitions, `%q:%s`, t.name, own.Replace(compact.String()))
	}
	return json.RawMessage(`{"anyOf":[` + calls.String() + `],"$defs":{` + definitions.String() + `}}`)
}

// toolCall is a call in an answer. Index is only in streams.
type toolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// call makes a message the call that its text spells, and its finish tool_calls. A text that a stop
// cut short stays as it is.
func (c *chatChoice) call(made *call, message *chatMessage, text string) {
	var spelt struct {
		Name      string
		Arguments json.RawMessage
	}
	if json.Unmarshal([]byte(text), &spelt) != nil {
		return
	}
	_, id, _ := strings.Cut(made.id(), "-")
	finish := "tool_calls"
	message.Content, c.Finish = nil, &finish
	message.ToolCalls = []toolCall{{ID: fmt.Sprintf("call_%s_%d", id, c.Index), Type: "function",
		Function: functionCall{spelt.Name, string(spelt.Arguments)}}}
}

// callDelta makes the last chunk of a choice its call or, where there is none, its text.
func (c *chatChoice) callDelta(made *call, text string) {
	c.Delta.Content = &text
	c.call(made, c.Delta, text)
	for i := range c.Delta.ToolCalls {
		c.Delta.ToolCalls[i].Index = &i
	}
}

// messageCall is a call that an assistant made. Templates write its arguments as JSON, so that they
// are no text here.
type messageCall struct {
	ID       string `json:"id,omitempty"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// readCalls reads the tool_calls of a message.
func readCalls(o *fields) (calls []messageCall) {
	raw := o.value("tool_calls")
	if raw == nil {
		return nil
	}
	var given []toolCall
	if json.Unmarshal(raw, &given) != nil {
		o.wrongType("tool_calls", raw, "a list of calls of functions")
		return nil
	}
	for _, one := range given {
		call := messageCall{ID: one.ID, Type: "function"}
		call.Function.Name = one.Function.Name
		call.Function.Arguments = json.RawMessage(one.Function.Arguments)
		if one.Type != call.Type || !toolName.MatchString(one.Function.Name) ||
			!json.Valid(call.Function.Arguments) {
			o.fail(bad("out_of_range", "tool_calls", "tool_calls has %s, want a function's name and "+
				"arguments in JSON", param.Quote(one.Function.Name)))
			return nil
		}
		calls = append(calls, call)
	}
	return calls
}
