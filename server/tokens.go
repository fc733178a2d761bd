package server

import (
	"net/http"

	"unmask/prompt"
	"unmask/tokenizers"
)

// tokenizing answers POST /v1/tokenize.
func (s *Server) tokenizing(f *fields) (any, *Fault) {
	m, tokens, fault := s.tokens(f, "text", (*prompt.Text).Tokens)
	if fault != nil {
		return nil, fault
	}
	return struct {
		Model  string   `json:"model"`
		Tokens []int32  `json:"tokens"`
		Pieces []string `json:"pieces"`
	}{m.name, tokens, append([]string{}, m.Text.Pieces(tokens)...)}, nil
}

// tokens returns the tokens of a text in a field that must be there.
func (s *Server) tokens(f *fields, name string, encode func(t *prompt.Text, text string) ([]int32,
	error)) (*servedModel, []int32, *Fault) {
	m, text := s.model(f, wantsText), f.needed(name)
	if fault := f.end(); fault != nil {
		return nil, nil, fault
	}
	tokens, err := encode(m.Text, text)
	if err != nil {
		return nil, nil, bad("out_of_range", name, "%s: %s", name, oneLine(err))
	}
	return m, append([]int32{}, tokens...), nil
}

// detokenizing answers POST /v1/detokenize. null is a hole.
func (s *Server) detokenizing(f *fields) (any, *Fault) {
	m := s.model(f, wantsText)
	tokens := f.ids("tokens", m)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	return struct {
		Model  string   `json:"model"`
		Text   string   `json:"text"`
		Pieces []string `json:"pieces"`
	}{m.name, m.Text.Decode(tokens), append([]string{}, m.Text.Pieces(tokens)...)}, nil
}

// tokenizingPrompt, detokenizingPrompt and tokenizerInfo answer as vLLM does, for evaluation
// harnesses that tokenize by the server: POST /tokenize, POST /detokenize and GET /tokenizer_info.
func (s *Server) tokenizingPrompt(f *fields) (any, *Fault) {
	plain := f.has("add_special_tokens") && !f.flag("add_special_tokens")
	m, tokens, fault := s.tokens(f, "prompt", func(t *prompt.Text, text string) ([]int32, error) {
		if id, ok := t.Special(text); ok { // as clients ask for the end token
			return []int32{id}, nil
		} else if plain {
			return t.Encode(text)
		}
		return t.Tokens(text)
	})
	if fault != nil {
		return nil, fault
	}
	return struct {
		Tokens []int32 `json:"tokens"`
		Count  int     `json:"count"`
		Most   int     `json:"max_model_len"`
	}{tokens, len(tokens), m.spec.Length()}, nil
}

func (s *Server) detokenizingPrompt(f *fields) (any, *Fault) {
	m := s.model(f, wantsText)
	tokens := f.ids("tokens", m)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	return map[string]string{"prompt": m.Text.Decode(tokens)}, nil
}

func (s *Server) tokenizerInfo(*http.Request) (any, *Fault) {
	f := &fields{}
	m := s.model(f, wantsText)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	out := struct {
		Class string  `json:"tokenizer_class"`
		Begin *string `json:"bos_token"`
		End   *string `json:"eos_token"`
		Pad   *string `json:"pad_token"`
		Most  int     `json:"model_max_length"`
	}{Class: "unmask", Most: m.spec.Length()}
	for role, text := range map[string]**string{"bos_token": &out.Begin, "eos_token": &out.End,
		"pad_token": &out.Pad} {
		id, ok := tokenizers.Role(m.Text.Tokenizer, role)
		if role == "eos_token" && !ok && len(m.spec.EndTokens) > 0 {
			id, ok = m.spec.EndTokens[0], true
		}
		if name, known := m.Text.Token(id); ok && known {
			*text = &name
		}
	}
	return out, nil
}

// ids reads a list of token ids that must be there, in which null is the mask. m is nil where the
// model is not known.
func (f *fields) ids(name string, m *servedModel) []int32 {
	raw := f.value(name)
	switch {
	case m == nil || f.fault != nil:
		return nil
	case raw == nil:
		f.fail(missing(name, "a list of token ids"))
		return nil
	}
	return readIDs(f, name, f.list(name, raw), m, true)
}
