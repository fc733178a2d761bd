package chat

import (
	"slices"
	"strings"

	"unmask/tokenizers"
)

// CallForm is how an assistant's message spells calls of functions: First, a name, Arguments and
// the arguments as a JSON object; for each further call Next in the place of First; and Last.
type CallForm struct{ BeforeName, BeforeArguments, BeforeNextName, AfterCalls string }

// PlainCalls is a line of JSON for each call, for models whose template spells no calls.
var PlainCalls = CallForm{BeforeName: `{"name": "`, BeforeArguments: `", "arguments": `,
	BeforeNextName: "}\n" + `{"name": "`, AfterCalls: "}"}

// Call is a call of a function. While its text grows, Arguments is a beginning of them.
type Call struct{ Name, Arguments string }

// CallForm returns how messages spell calls. own reports whether this is the template's form, of a
// template that also shows the functions; otherwise it is PlainCalls.
func (m *Model) CallForm() (form CallForm, own bool) {
	if m.calls == nil {
		return PlainCalls, false
	}
	return *m.calls, true
}

// readCalls finds the template's form of calls in a conversation that has two, nil if the template
// leaves functions or calls out, or spells calls in another way.
func (m *Model) readCalls() *CallForm {
	const (
		name, other = "unmask_f", "unmask_g"
		arguments   = `{"unmask_a": "unmask_b"}`
		function    = `{"type":"function","function":{"description":"d","name":"`
		parameters  = `","parameters":{"type":"object","properties":{"unmask_a":{"type":"string"}}}}}`
		call        = `{"id":"c","type":"function","function":{"name":"`
		question    = `{"role":"user","content":"?"}`
	)
	render := func(messages string, o Options) string {
		out, err := m.Template.render([]byte("["+messages+"]"), o)
		if err != nil {
			return ""
		}
		return out.s
	}
	blind := render(question, Options{})
	o := Options{Tools: []byte("[" + function + name + parameters + "," + function + other +
		parameters + "]")}
	asked := render(question, o)
	o.Complete = true
	answered := render(question+`,{"role":"assistant","content":"","tool_calls":[`+call+name+
		`","arguments":`+arguments+`}},`+call+other+`","arguments":`+arguments+`}}]},`+question, o)
	rest, ok := strings.CutPrefix(answered, asked)
	if !ok || asked == blind || asked == "" {
		return nil
	}
	var parts [4]string
	for i, mark := range []string{name, arguments, other, arguments} {
		if parts[i], rest, ok = strings.Cut(rest, mark); !ok {
			return nil
		}
	}
	f := &CallForm{BeforeName: parts[0], BeforeArguments: parts[1], BeforeNextName: parts[2]}
	end := -1 // of the message
	for _, stop := range m.stops {
		text, _ := m.Tokenizer.Token(stop)
		if at := strings.Index(rest, text); text != "" && at >= 0 && (end < 0 || at < end) {
			end = at
		}
	}
	if end < 0 || parts[3] != f.BeforeArguments {
		return nil
	}
	if f.AfterCalls = rest[:end]; !f.readable() || f.special(m.Tokenizer) {
		return nil
	}
	return f
}

// readable reports whether Read finds the calls in every text of the form.
func (f *CallForm) readable() bool {
	inName := func(c byte) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c|32 >= 'a' && c|32 <= 'z'
	}
	return f.BeforeName != "" && f.BeforeArguments != "" && !inName(f.BeforeArguments[0]) &&
		f.BeforeNextName != "" && !strings.HasPrefix(f.AfterCalls, f.BeforeNextName)
}

// special reports whether special tokens spell a part of the form.
func (f *CallForm) special(t tokenizers.Tokenizer) bool {
	ids, err := t.EncodeSpecial(f.BeforeName + f.BeforeArguments + f.BeforeNextName + f.AfterCalls)
	return err != nil || slices.ContainsFunc(ids, func(id int32) bool {
		return tokenizers.IsSpecial(t, id)
	})
}

// SplitCalls divides a message's text, which may still grow, into what precedes its calls and the
// calls whose names are complete.
func (f *CallForm) SplitCalls(text string) (content string, calls []Call) {
	at := strings.Index(text, f.BeforeName)
	if at < 0 {
		return text, nil
	}
	content, rest, next := text[:at], text[at:], f.BeforeName
	for {
		after, ok := strings.CutPrefix(rest, next)
		if !ok {
			return content, calls
		}
		name, arguments, ok := strings.Cut(after, f.BeforeArguments)
		if !ok {
			return content, calls
		}
		n := objectEnd(arguments)
		calls = append(calls, Call{name, arguments[:n]})
		rest, next = arguments[n:], f.BeforeNextName
	}
}

// objectEnd returns where the JSON object ends with which a text begins, the text's length if it
// does not end there.
func objectEnd(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
