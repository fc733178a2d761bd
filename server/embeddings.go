package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"

	"unmask/embed"
	"unmask/model"
	"unmask/param"
)

// maxInputs is the most texts of a request for embeddings, as OpenAI has it.
const maxInputs = 2048

// embedding is the vector of one text.
type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"` // numbers, or their little-endian bytes in base64
}

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	m := s.model(f, wantsVectors)
	for _, of := range [][2]string{{"add_special_tokens", "true"}, {"priority", "0"},
		{"embed_dtype", `"float32"`}, {"endianness", `"little"`}} { // of vLLM
		f.neutral(of[0], of[1])
	}
	f.raw("request_id")
	packed := f.word("encoding_format", "float", "base64") == "base64"
	o := embed.Options{Dimensions: f.maybe("dimensions", 1, 1<<20, 0), Prompt: f.text("prompt_name")}
	return s.embed(w, r, f, embedded{m, "input", false, o, func(vectors [][]float32, tokens int) any {
		var list []embedding
		for i, v := range vectors {
			one := embedding{"embedding", i, v}
			if packed {
				var b []byte
				for _, x := range v {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
				one.Vector = base64.StdEncoding.EncodeToString(b)
			}
			list = append(list, one)
		}
		return map[string]any{"object": "list", "data": list, "model": m.name,
			"usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}}
	}})
}

// ollamaEmbed answers Ollama's POST /api/embed, whose vectors have length 1, and the older
// /api/embeddings, whose one vector is as the model has it.
func (s *Server) ollamaEmbed(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	began, older := s.now(), r.URL.Path == "/api/embeddings"
	f.latest()
	f.value("keep_alive")
	f.maybeInner("options", func(o *fields) { o.known = sortedKeys(o.object) }) // none is of vectors
	e := embedded{model: s.model(f, wantsVectors), field: "prompt"}
	e.form = func(vectors [][]float32, _ int) any { return map[string]any{"embedding": vectors[0]} }
	if older {
		f.needed(e.field)
	} else {
		e.field, e.whole = "input", f.has("truncate") && !f.flag("truncate")
		e.o = embed.Options{Normalize: true, Dimensions: f.maybe("dimensions", 1, 1<<20, 0)}
		e.form = func(vectors [][]float32, tokens int) any {
			return map[string]any{"model": e.model.name, "embeddings": vectors, "load_duration": 0,
				"prompt_eval_count": tokens, "total_duration": s.now().Sub(began).Nanoseconds()}
		}
	}
	return s.embed(w, r, f, e)
}

// embedded is a request for vectors.
type embedded struct {
	model *servedModel
	field string // of the texts
	whole bool   // a text that would be cut is refused
	o     embed.Options
	form  func(vectors [][]float32, tokens int) any
}

// embed answers a request for vectors.
func (s *Server) embed(w http.ResponseWriter, r *http.Request, f *fields, q embedded) *Fault {
	var e *embed.Embedder
	var list []*embed.Text
	tokens := 0
	if inputs := readTexts(f, q.field, q.model, maxInputs); f.fault == nil {
		var err error
		e, err = q.model.embedder()
		for i := 0; i < len(inputs) && err == nil; i++ {
			var one *embed.Text
			if inputs[i].Tokens != nil {
				one, err = e.WrapTokens(inputs[i].Tokens, q.o)
			} else {
				one, err = e.Tokenize(inputs[i].Prompt, q.o)
			}
			if err == nil && q.whole && one.Truncated > 0 {
				err = &param.Error{Name: "text", Found: fmt.Sprintf("%d tokens too long", one.Truncated),
					Want: "it shorter, or truncate true", Reason: param.TooLong}
			}
			if err != nil && len(inputs) > 1 {
				err = fmt.Errorf("text %d: %w", i, err)
			}
			if list = append(list, one); err == nil {
				tokens += len(one.Tokens)
			}
		}
		if err != nil {
			names := map[string]string{"text": q.field, "prompt": "prompt_name"}
			f.fail(refused(q.field, err).renamed(names))
		}
	}
	return s.visit(w, r, f, q.model, func(ctx context.Context, turn model.Turn) ([]byte, error) {
		q.o.Turn = turn
		vectors, err := e.Embed(ctx, list, q.o)
		if err != nil {
			return nil, err
		}
		return encode(q.form(vectors, tokens)), nil
	})
}
