package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"

	"unmask"
	"unmask/embed"
	"unmask/model"
	"unmask/param"
)

// maxInputs is the most texts of a request for embeddings, as OpenAI has it.
const maxInputs = 2048

// maxDimensions bounds the dimensions of a vector.
const maxDimensions = 1 << 20

// embedding is the vector of one text.
type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`

	// Vector has numbers, or their little-endian bytes in base64.
	Vector any `json:"embedding"`

	// Truncated counts the tokens that were dropped from the text, and Unknown its words and
	// characters that the vocabulary lacks.
	Truncated int `json:"truncated,omitempty"`
	Unknown   int `json:"unknown,omitempty"`
}

// handleEmbeddings answers POST /v1/embeddings.
func (s *Server) handleEmbeddings(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	m := s.model(f, needsVectors)
	// These are vLLM's.
	f.requireNeutral("add_special_tokens", "true")
	f.requireNeutral("priority", "0")
	f.requireNeutral("embed_dtype", `"float32"`)
	f.requireNeutral("endianness", `"little"`, `"native"`) // of all machines that unmask runs on
	f.requireNeutral("add_generation_prompt", "false")
	f.requireNeutral("continue_final_message", "false")
	for _, name := range []string{"truncate_prompt_tokens", "truncation_side", "mm_processor_kwargs",
		"additional_data", "chat_template", "chat_template_kwargs", "normalize", "softmax",
		"activation", "use_activation"} {
		f.requireNeutral(name)
	}
	f.accept("request_id", "cache_salt")
	asBase64 := f.oneOf("encoding_format", "float", "base64") == "base64"
	options := embed.Options{
		Dimensions: f.integerOrNull("dimensions", 1, maxDimensions, 0),
		Prompt:     f.text("prompt_name"),
	}
	return s.embed(w, r, f, embedRequest{model: m, field: "input", options: options,
		newAnswer: func(vectors [][]float32, texts []*embed.Text) map[string]any {
			var list []embedding
			for i, v := range vectors {
				e := embedding{Object: "embedding", Index: i, Vector: v, Truncated: texts[i].Truncated,
					Unknown: texts[i].Unknown}
				if asBase64 {
					e.Vector = encodeVector(v)
				}
				list = append(list, e)
			}
			tokens := countTokens(texts)
			return map[string]any{"object": "list", "data": list, "model": m.name,
				"usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}}
		}})
}

// encodeVector returns the little-endian bytes of a vector in base64.
func encodeVector(v []float32) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// handleOllamaEmbed answers Ollama's POST /api/embed, whose vectors have length 1.
func (s *Server) handleOllamaEmbed(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	began := s.now()
	m := s.readOllamaEmbedModel(f)
	refuseLong := f.has("truncate") && !f.flag("truncate")
	if string(f.object["dimensions"]) == "0" {
		delete(f.object, "dimensions") // Ollama's value for none
	}
	options := embed.Options{
		Normalize:  true,
		Dimensions: f.integerOrNull("dimensions", 1, maxDimensions, 0),
	}
	return s.embed(w, r, f, embedRequest{model: m, field: "input", refuseLong: refuseLong,
		options: options, newAnswer: func(vectors [][]float32, texts []*embed.Text) map[string]any {
			return map[string]any{"model": m.name, "embeddings": vectors, "load_duration": 0,
				"prompt_eval_count": countTokens(texts), "total_duration": s.now().Sub(began).Nanoseconds()}
		}})
}

// handleOllamaEmbeddings answers Ollama's older POST /api/embeddings, whose one vector is as the
// model has it.
func (s *Server) handleOllamaEmbeddings(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	m := s.readOllamaEmbedModel(f)
	f.requiredText("prompt")
	return s.embed(w, r, f, embedRequest{model: m, field: "prompt",
		newAnswer: func(vectors [][]float32, _ []*embed.Text) map[string]any {
			return map[string]any{"embedding": vectors[0]}
		}})
}

// readOllamaEmbedModel reads what Ollama's routes of vectors have in common, and returns the model.
func (s *Server) readOllamaEmbedModel(f *fields) *servedModel {
	f.accept("keep_alive")
	f.readOptionalObject("options", (*fields).acceptAll) // none of them changes a vector
	return s.findOllamaModel(f, needsVectors)
}

// embedRequest is a request for vectors.
type embedRequest struct {
	model *servedModel

	// field is that of the texts.
	field string

	// refuseLong reports whether a text that would be truncated is refused.
	refuseLong bool

	options   embed.Options
	newAnswer func(vectors [][]float32, texts []*embed.Text) map[string]any
}

// countTokens returns the number of tokens of texts, with those around them.
func countTokens(texts []*embed.Text) int {
	tokens := 0
	for _, t := range texts {
		tokens += len(t.Tokens)
	}
	return tokens
}

// textNotes say which texts were not read as they are.
func textNotes(texts []*embed.Text) (notes []string) {
	var truncated, unknown textCount
	for i, t := range texts {
		truncated.add(i, t.Truncated)
		unknown.add(i, t.Unknown)
	}
	if truncated.texts > 0 {
		notes = append(notes, fmt.Sprintf("truncated: %d tokens beyond the model's %s",
			truncated.tokens, truncated.place()))
	}
	if unknown.texts > 0 {
		notes = append(notes, fmt.Sprintf("unknown: %d tokens for what the vocabulary lacks %s",
			unknown.tokens, unknown.place()))
	}
	return notes
}

// textCount counts tokens of some kind, and the texts that have any.
type textCount struct {
	tokens int
	texts  int
	first  int // index of the first of these texts
}

// add counts the tokens of the text at an index.
func (c *textCount) add(index, tokens int) {
	if tokens == 0 {
		return
	}
	if c.texts == 0 {
		c.first = index
	}
	c.tokens += tokens
	c.texts++
}

// place says which texts were counted.
func (c *textCount) place() string {
	if c.texts == 1 {
		return fmt.Sprintf("in text %d", c.first)
	}
	return fmt.Sprintf("in %d texts, the first of them text %d", c.texts, c.first)
}

// embed answers a request for vectors.
func (s *Server) embed(w http.ResponseWriter, r *http.Request, f *fields, q embedRequest) *Fault {
	var e *embed.Embedder
	var texts []*embed.Text
	inputs := readPrompts(f, q.field, q.model, maxInputs)
	if f.fault == nil {
		var err error
		e, err = q.model.embedder()
		for i := 0; i < len(inputs) && err == nil; i++ {
			var text *embed.Text
			text, err = s.tokenizeInTurn(r, &q, e, inputs[i])
			if err != nil && len(inputs) > 1 {
				err = fmt.Errorf("text %d: %w", i, err)
			}
			if err == nil {
				texts = append(texts, text)
			}
		}
		if err != nil {
			names := map[string]string{"text": q.field, "prompt": "prompt_name"}
			f.fail(faultOf(q.field, err).renameParam(names))
		}
	}

	return s.answerInTurns(w, r, f, q.model, func(ctx context.Context,
		turn model.Turn) ([]byte, error) {
		q.options.Turn = turn
		vectors, err := e.Embed(ctx, texts, q.options)
		if err != nil {
			return nil, err
		}
		answer := q.newAnswer(vectors, texts)
		if notes := textNotes(texts); notes != nil {
			answer["unmask"] = map[string]any{"notes": notes}
			for _, note := range notes {
				w.Header().Add("Unmask-Note", note)
			}
		}
		return encodeJSON(answer), nil
	})
}

// longText is the number of bytes of a text from which on it is read into tokens in turn.
const longText = 64 << 10

// tokenizeInTurn returns the tokens of an input. Of long texts one is read at a time, owners in
// turn: what is made of a text on the way is many times as long as the text. It ends when the
// client leaves.
func (s *Server) tokenizeInTurn(r *http.Request, q *embedRequest, e *embed.Embedder,
	input unmask.Request) (*embed.Text, error) {
	if len(input.Prompt) > longText {
		giveBack, err := s.longTexts.Take(r.Context(), keyName(r), 1)
		if err != nil {
			return nil, err
		}
		defer giveBack()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return q.tokenize(r.Context(), e, input.Prompt, input.Tokens)
}

// tokenize returns the tokens of a text or, if there are any, of token ids.
func (q *embedRequest) tokenize(ctx context.Context, e *embed.Embedder, text string,
	ids []int32) (t *embed.Text, err error) {
	if ids != nil {
		t, err = e.WrapTokens(ids, q.options)
	} else {
		t, err = e.Tokenize(ctx, text, q.options)
	}
	if err == nil && q.refuseLong && t.Truncated > 0 {
		err = &param.Error{Name: "text", Found: fmt.Sprintf("%d tokens too long", t.Truncated),
			Want: "it shorter, or truncate true", Reason: param.TooLong}
	}
	return t, err
}
