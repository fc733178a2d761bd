package server

import (
	"net/http"

	"unmask/prompt"
	"unmask/tokenizers"
)

// answerTokenize answers POST /v1/tokenize.
func (s *Server) answerTokenize(r *http.Request, f *fields) (any, *Fault) {
	m, tokens, fault := s.tokenizeField(r, f, "text", (*prompt.Text).Tokens)
	if fault != nil {
		return nil, fault
	}
	return struct {
		Model  string   `json:"model"`
		Tokens []int32  `json:"tokens"`
		Pieces []string `json:"pieces"`
	}{m.name, tokens, append([]string{}, m.Text.Pieces(tokens)...)}, nil
}

// tokenizeField returns the tokens of the text in a field that must be there, never nil, and the
// model whose they are.
func (s *Server) tokenizeField(r *http.Request, f *fields, name string,
	tokenize func(t *prompt.Text, text string) ([]int32, error)) (*servedModel, []int32, *Fault) {
	m := s.model(f, needsText)
	text := f.requiredText(name)
	if fault := f.finish(); fault != nil {
		return nil, nil, fault
	}
	tokens, err := tokenize(m.Text.WithContext(r.Context()), text)
	if err != nil {
		return nil, nil, fieldFault("out_of_range", name, "%s: %s", name, oneLine(err))
	}
	return m, append([]int32{}, tokens...), nil
}

// answerDetokenize answers POST /v1/detokenize. null is a hole.
func (s *Server) answerDetokenize(_ *http.Request, f *fields) (any, *Fault) {
	m, tokens, fault := s.readTokens(f)
	if fault != nil {
		return nil, fault
	}
	return struct {
		Model  string   `json:"model"`
		Text   string   `json:"text"`
		Pieces []string `json:"pieces"`
	}{m.name, m.Text.Decode(tokens), append([]string{}, m.Text.Pieces(tokens)...)}, nil
}

// readTokens reads the tokens of a text for a model.
func (s *Server) readTokens(f *fields) (*servedModel, []int32, *Fault) {
	m := s.model(f, needsText)
	tokens := f.tokenIDs("tokens", m)
	if fault := f.finish(); fault != nil {
		return nil, nil, fault
	}
	return m, tokens, nil
}

// answerVLLMTokenize answers POST /tokenize as vLLM does, for evaluation harnesses that tokenize by
// the server.
func (s *Server) answerVLLMTokenize(r *http.Request, f *fields) (any, *Fault) {
	withoutSpecial := f.has("add_special_tokens") && !f.flag("add_special_tokens")
	tokenize := func(t *prompt.Text, text string) ([]int32, error) {
		if id, ok := t.Special(text); ok { // clients ask so for the end token
			return []int32{id}, nil
		}
		if withoutSpecial {
			return t.Encode(text)
		}
		return t.Tokens(text)
	}
	m, tokens, fault := s.tokenizeField(r, f, "prompt", tokenize)
	if fault != nil {
		return nil, fault
	}
	return struct {
		Tokens    []int32 `json:"tokens"`
		Count     int     `json:"count"`
		MaxLength int     `json:"max_model_len"`
	}{tokens, len(tokens), m.spec.Length()}, nil
}

// answerVLLMDetokenize answers POST /detokenize as vLLM does.
func (s *Server) answerVLLMDetokenize(_ *http.Request, f *fields) (any, *Fault) {
	m, tokens, fault := s.readTokens(f)
	if fault != nil {
		return nil, fault
	}
	return map[string]string{"prompt": m.Text.Decode(tokens)}, nil
}

// answerTokenizerInfo answers GET /tokenizer_info as vLLM does.
func (s *Server) answerTokenizerInfo(*http.Request) (any, *Fault) {
	f := &fields{}
	m := s.model(f, needsText)
	if fault := f.finish(); fault != nil {
		return nil, fault
	}
	return struct {
		Class     string  `json:"tokenizer_class"`
		Begin     *string `json:"bos_token"`
		End       *string `json:"eos_token"`
		Pad       *string `json:"pad_token"`
		MaxLength int     `json:"model_max_length"`
	}{
		Class:     "unmask",
		Begin:     m.roleTokenText("bos_token"),
		End:       m.roleTokenText("eos_token"),
		Pad:       m.roleTokenText("pad_token"),
		MaxLength: m.spec.Length(),
	}, nil
}

// roleTokenText returns the text of the token that has a role, such as bos_token, nil where there
// is none.
func (m *servedModel) roleTokenText(role string) *string {
	id, ok := tokenizers.Role(m.Text.Tokenizer, role)
	if role == "eos_token" && !ok && len(m.spec.EndTokens) > 0 {
		id = m.spec.EndTokens[0]
		ok = true
	}
	if !ok {
		return nil
	}
	text, known := m.Text.Token(id)
	if !known {
		return nil
	}
	return &text
}

// tokenIDs reads a list of token ids that must be there, in which null is the mask. m is nil where
// the model is not known.
func (f *fields) tokenIDs(name string, m *servedModel) []int32 {
	raw := f.value(name)
	if m == nil || f.fault != nil {
		return nil
	}
	if raw == nil {
		f.fail(missingFault(name, "a list of token ids"))
		return nil
	}
	return readTokenIDs(f, name, raw, m, true)
}
