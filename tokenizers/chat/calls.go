package chat

import (
	"slices"
	"strings"

	"unmask/tokenizers"
)

// CallForm is how an assistant's message spells calls of functions: BeforeName, a name,
// BeforeArguments and the arguments as a JSON object. Each further call begins with BeforeNextName
// in the place of BeforeName, and AfterCalls ends the last.
type CallForm struct {
	BeforeName      string
	BeforeArguments string
	BeforeNextName  string
	AfterCalls      string
}

// PlainCalls is a line of JSON for each call, for models whose template spells no calls.
var PlainCalls = CallForm{
	BeforeName:      `{"name": "`,
	BeforeArguments: `", "arguments": `,
	BeforeNextName:  "}\n" + `{"name": "`,
	AfterCalls:      "}",
}

// Call is a call of a function. While its text grows, Arguments is a beginning of them.
type Call struct{ Name, Arguments string }

// CallForm returns how messages spell calls. fromTemplate reports whether this is the form of a
// template that also shows the functions; otherwise it is PlainCalls.
func (m *Model) CallForm() (form CallForm, fromTemplate bool) {
	if m.callForm == nil {
		return PlainCalls, false
	}
	return *m.callForm, true
}

// findCallForm finds the template's form of calls in a conversation that has two, nil if the
// template leaves functions or calls out, or spells calls in another way. No file of a model says
// how it was trained to call functions, but its template shows it.
func (m *Model) findCallForm() *CallForm {
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

	// Marks that no template has in it stand for the names and arguments, so that what the template
	// puts around them can be cut at the marks.
	withoutTools := render(question, Options{})
	o := Options{Tools: []byte("[" + function + name + parameters + "," + function + other +
		parameters + "]")}
	beforeAnswer := render(question, o)
	o.Complete = true
	withAnswer := render(question+`,{"role":"assistant","content":"","tool_calls":[`+call+name+
		`","arguments":`+arguments+`}},`+call+other+`","arguments":`+arguments+`}}]},`+question, o)
	unread, ok := strings.CutPrefix(withAnswer, beforeAnswer)
	if !ok || beforeAnswer == withoutTools || beforeAnswer == "" {
		return nil
	}
	var parts [4]string
	for i, mark := range []string{name, arguments, other, arguments} {
		parts[i], unread, ok = strings.Cut(unread, mark)
		if !ok {
			return nil
		}
	}
	f := &CallForm{BeforeName: parts[0], BeforeArguments: parts[1], BeforeNextName: parts[2]}

	// The calls end where the message does: at the first of the tokens that end an answer.
	end := -1
	for _, id := range m.endTokens {
		text, _ := m.Tokenizer.Token(id)
		if i := strings.Index(unread, text); text != "" && i >= 0 && (end < 0 || i < end) {
			end = i
		}
	}
	if end < 0 || parts[3] != f.BeforeArguments {
		return nil
	}
	f.AfterCalls = unread[:end]
	if !f.isUnambiguous() || f.hasSpecialTokens(m.Tokenizer) {
		return nil
	}
	return f
}

// isUnambiguous reports whether SplitCalls finds the calls in every text of the form.
func (f *CallForm) isUnambiguous() bool {
	inName := func(c byte) bool {
		return c == '_' || c == '-' || c >= '0' && c <= '9' || c|32 >= 'a' && c|32 <= 'z'
	}
	return f.BeforeName != "" && f.BeforeArguments != "" && !inName(f.BeforeArguments[0]) &&
		f.BeforeNextName != "" && !strings.HasPrefix(f.AfterCalls, f.BeforeNextName)
}

// hasSpecialTokens reports whether special tokens spell a part of the form. A text that a model
// wrote does not show them, so that its calls could not be found.
func (f *CallForm) hasSpecialTokens(t tokenizers.Tokenizer) bool {
	ids, err := t.EncodeSpecial(f.BeforeName + f.BeforeArguments + f.BeforeNextName + f.AfterCalls)
	return err != nil || slices.ContainsFunc(ids, func(id int32) bool {
		return tokenizers.IsSpecial(t, id)
	})
}

// SplitCalls divides a message's text, which may still grow, into what precedes its calls and the
// calls whose names are complete.
func (f *CallForm) SplitCalls(text string) (content string, calls []Call) {
	start := strings.Index(text, f.BeforeName)
	if start < 0 {
		return text, nil
	}
	content = text[:start]
	unread := text[start:]
	beforeName := f.BeforeName
	for {
		fromName, ok := strings.CutPrefix(unread, beforeName)
		if !ok {
			return content, calls
		}
		name, arguments, ok := strings.Cut(fromName, f.BeforeArguments)
		if !ok {
			return content, calls
		}
		n := objectEnd(arguments)
		calls = append(calls, Call{name, arguments[:n]})
		unread = arguments[n:]
		beforeName = f.BeforeNextName
	}
}

// objectEnd returns where the JSON object at the start of a text ends: the text's length if the
// object goes on.
func objectEnd(text string) int {
	depth := 0
	quoted := false // a brace within a string opens and closes nothing
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
			depth--
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
