package unmask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"unmask/model"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// Text is the side of a model that reads and writes text. Its methods may be called concurrently.
type Text struct {
	tokenizers.Tokenizer // masked positions show as Hole

	spec model.Spec
	// tokens that the tokenizer's files put before and after every text, which count in its length
	first, last []int32
	// those that a text which goes on begins with instead (model.Loaded.BeginTokens)
	begins []int32
}

// encode returns the tokens of a text.
type encode func(text string) ([]int32, error)

// encoder returns the one that takes the spellings of special tokens as text, or as these tokens.
func (t *Text) encoder(special bool) encode {
	if special {
		return t.EncodeSpecial
	}
	return t.Encode
}

// Spellings returns the special tokens whose spellings a text has.
func (t *Text) Spellings(text string) (list []string) {
	ids, _ := t.EncodeSpecial(text) // text that cannot be encoded is refused elsewhere
	for _, id := range ids {
		name, known := t.Token(id)
		if id == t.spec.Mask && !strings.Contains(text, name) {
			name, known = tokenizers.WithoutMask(t.Tokenizer).Token(id)
		}
		if known && tokenizers.IsSpecial(t.Tokenizer, id) && strings.Contains(text, name) &&
			!slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// hole matches a number of tokens in brackets, "[20]", or a hole of unknown length, "[?]".
var hole = regexp.MustCompile(`\[([0-9]+|\?)\]`)

// anyLength stands for the number of a hole of unknown length, which begins with growingHole masks
// (Dream-org/DreamOn-v0-7B, README).
const (
	anyLength   = "?"
	growingHole = 4
)

// Infill returns the tokens [length] of a run that fills the holes of text, each written as a
// number of tokens in brackets: "Once upon a time there[3] girl named Lily.". A hole [?] has the
// length that the model finds, if model.Spec.Growth says that it can. Positions after the
// text are masked too; a length of 0 means that of the text.
func (t *Text) Infill(text string, length int) ([]int32, error) {
	return t.infill(text, length, t.Encode)
}

func (t *Text) infill(text string, length int, encode encode) ([]int32, error) {
	known := slices.Clone(t.first)
	at, last := 0, ""
	add := func(piece string) error {
		if piece == "" {
			return nil
		}
		ids, err := encode(piece)
		known = append(known, ids...)
		if err != nil && last != "" {
			return fmt.Errorf("after %s: %w", last, err)
		}
		return err
	}
	for _, h := range hole.FindAllStringSubmatchIndex(text, -1) {
		if err := add(text[at:h[0]]); err != nil {
			return nil, err
		}
		at, last = h[1], text[h[0]:h[1]]
		if text[h[2]:h[3]] == anyLength {
			if t.spec.Growth == nil {
				return nil, param.Refuse("infill", param.Unsupported,
					"hole is [?], want a number of tokens: this model cannot change a hole's length")
			}
			known = append(known, slices.Repeat([]int32{t.spec.Mask}, growingHole)...)
			continue
		}
		n, err := strconv.Atoi(text[h[2]:h[3]])
		if err != nil || n < 1 || n > t.longest() {
			return nil, param.Refuse("infill", param.OutOfRange, "hole is %s, want 1 to %d tokens", last,
				t.longest())
		}
		known = append(known, slices.Repeat([]int32{t.spec.Mask}, n)...)
		if len(known) > t.longest() { // with what follows it would only be longer
			_, err := t.room("infill", len(known), 0, 0, 0)
			return nil, err
		}
	}
	if at == 0 {
		return nil, param.Refuse("infill", param.NoHole,
			"no hole, want one such as [20], which is 20 tokens")
	}
	if err := add(text[at:]); err != nil {
		return nil, err
	}
	known = append(known, t.last...)
	if length == 0 && len(known) <= t.spec.Length() {
		length = len(known)
	}
	n, err := t.room("infill", len(known), length, 0, 0)
	if err != nil {
		return nil, err
	}
	return t.around(known, n, nil), nil
}

// longest returns the most tokens of a text, without those that the model has around every text.
func (t *Text) longest() int { return t.spec.Length() - t.spec.SpecialCount() }

// around returns the tokens of a text with n masks, and the tokens that the model has around every
// text, which do not count in its length.
func (t *Text) around(known []int32, n int, after []int32) []int32 {
	return slices.Concat(t.spec.BeforeText, known, slices.Repeat([]int32{t.spec.Mask}, n), after,
		t.spec.AfterText)
}

// inside returns a sequence without the tokens that the model has around every text: a chat
// template has its own.
func (t *Text) inside(tokens []int32) []int32 {
	return tokens[len(t.spec.BeforeText) : len(tokens)-len(t.spec.AfterText)]
}

// Tokens returns the tokens of a text with those that the tokenizer's files put around it, as a
// sequence begins with it.
func (t *Text) Tokens(text string) ([]int32, error) {
	known, err := t.begin(text, false, false)
	return t.around(append(known, t.last...), 0, nil), err
}

// eos returns the token that ends a text, by the tokenizer's files or the model's.
func (t *Text) eos() (id int32, ok bool) {
	if id, ok = tokenizers.Role(t.Tokenizer, "eos_token"); !ok && len(t.spec.EndTokens) > 0 {
		return t.spec.EndTokens[0], true
	}
	return id, ok
}

// End returns the token that ends a text. text is an id such as 198, the spelling of a special
// token, or a text of one token; "" means that of the model's files.
func (t *Text) End(text string) (int32, error) {
	if text == "" {
		if id, ok := t.eos(); ok {
			return id, nil
		}
		return 0, param.Refuse("end", param.NoSuchToken,
			"end: the model's files name no token that ends a text, want one")
	}
	ids, err := tokenIDs(t, t.spec, text)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%q is %d tokens, want one", text, len(ids))
	}
	if err != nil {
		return 0, param.WithName("end", err)
	}
	return ids[0], nil
}

// WithAnswer returns the tokens of what r begins with (Prompt, Messages, Tokens or nothing)
// followed by an answer, for package likelihood: the answer is tokens[from:to]. It is given as ids
// or, where they are nil, as text. Nothing is a prompt without text. Positions behind the answer
// are masked, if the model has sequences of one length only. A prompt and its answer are tokenized
// together, unless that would change the prompt's own tokens; blanks at the prompt's end belong to
// the answer. An answer to messages is tokenized alone.
func (m *Model) TokensWithAnswer(r Request, text string, ids []int32) (tokens []int32, from, to int,
	err error) {
	refused := func(err error) ([]int32, int, int, error) { return nil, 0, 0, err }
	t := m.Text
	if t == nil {
		return refused(param.Refuse("answer", param.Unsupported, "the model makes no text"))
	}
	if err := r.checkGiven(true); err != nil {
		return refused(err)
	}
	known, last := r.Tokens, []int32(nil)
	switch {
	case r.Messages != nil:
		known, _, err = m.messageTokens(&r)
	case r.Tokens == nil:
		// Blanks at its end are part of the answer's first token, as in the harnesses of LLaDA, Dream
		// and dLLM.
		at := len(strings.TrimRightFunc(r.Prompt, unicode.IsSpace))
		r.Prompt, text = r.Prompt[:at], r.Prompt[at:]+text
		known, err = t.begin(r.Prompt, r.Special, false)
		last = t.last
		err = param.WithName("prompt", err)
	}
	if err != nil {
		return refused(err)
	}
	if ids == nil {
		if ids, err = t.after(known, &r, text); err != nil {
			return refused(param.WithName("answer", err))
		}
	}
	most := t.longest() - len(known) - len(last)
	if len(ids) == 0 || len(ids) > most {
		e := &param.Error{Name: "answer", Found: fmt.Sprintf("%d tokens", len(ids)),
			Want: fmt.Sprintf("1 to %d", most), Reason: param.TooLong}
		if most < 1 {
			e.Want = fmt.Sprintf("a prompt of fewer than %d", len(known)+most)
		}
		return refused(e)
	}
	rest := 0
	if t.spec.Fixed {
		rest = most - len(ids)
	}
	from = len(known)
	if tokens = t.around(slices.Concat(known, ids), rest, last); r.Messages != nil {
		tokens = t.inside(tokens)
	} else {
		from += len(t.spec.BeforeText)
	}
	return tokens, from, from + len(ids), nil
}

// after returns the tokens of a text that follows a request's prompt, whose tokens are known.
func (t *Text) after(known []int32, r *Request, text string) ([]int32, error) {
	ids, err := t.Encode(text)
	if err != nil || r.Prompt == "" {
		return ids, err
	}
	whole, err := t.begin(r.Prompt+text, r.Special, false)
	if err == nil && len(whole) > len(known) && slices.Equal(whole[:len(known)], known) {
		ids = whole[len(known):]
	}
	return ids, err
}

// ReplyLength is the default length of an answer in tokens.
const ReplyLength = model.DefaultTextLength

// Chat reads the chat template beside the model's weights. It returns an error if the model makes
// no text, has no tokenizer, or has no template because it was not trained to chat.
func (m *Model) Chat() (*chat.Model, error) { return m.chat() }

func (m *Model) readChat() (*chat.Model, error) {
	switch {
	case m.Text == nil:
		return nil, noChat("the model makes no text")
	case m.Source == nil:
		return nil, noChat("the model has no chat template")
	case tokenizers.IsNumeric(m.Text.Tokenizer):
		return nil, noChat("the model has no tokenizer, want one beside its weights or in its " +
			"GGUF file")
	}
	c, err := chat.ForModel(m.Source.Files, m.Text.Tokenizer, m.Source.Template)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noChat("the model has no chat template, want chat_template.jinja or " +
			"tokenizer_config.json beside its weights")
	}
	if err != nil {
		return nil, err
	}
	c.Variables = m.vars
	return c, nil
}

// noChat refuses messages.
func noChat(why string) error { return param.Refuse("messages", param.Unsupported, "%s", why) }

// Variables are values for a chat template: bool, string, int or nil.
type Variables map[string]any

// UnmarshalJSON reads an object.
func (v *Variables) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	out := Variables{}
	for name, value := range raw {
		var err error
		if out[name], err = readVariable(name, value); err != nil {
			return err
		}
	}
	*v = out
	return nil
}

// Set adds NAME=VALUE, where a VALUE that is not a bool, a whole number or null is a text.
func (v *Variables) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%s has no value, want NAME=VALUE", param.Quote(text))
	}
	if *v == nil {
		*v = Variables{}
	}
	one, err := readVariable(name, []byte(value))
	if (*v)[name] = one; err != nil {
		(*v)[name] = value
	}
	return nil
}

func readVariable(name string, raw json.RawMessage) (any, error) {
	var text string
	switch n, err := strconv.Atoi(string(raw)); {
	case err == nil:
		return n, nil
	case string(raw) == "null":
		return nil, nil
	case string(raw) == "true", string(raw) == "false":
		return string(raw) == "true", nil
	case json.Unmarshal(raw, &text) == nil:
		return text, nil
	}
	return nil, &param.Error{Name: "chat_template_kwargs", Found: fmt.Sprintf("%s: %.40s", name, raw),
		Want: "true, false, a text, a whole number or null", Reason: param.WrongType}
}
