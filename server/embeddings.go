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
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, f *fields) {
	m := s.model(f, wantsVectors)
	packed := f.word("encoding_format", "float", "base64") == "base64"
	o := embed.Options{Dimensions: f.maybe("dimensions", 1, 1<<20, 0), Prompt: f.text("prompt_name")}
	var list []*embed.Text
	tokens := 0
	if inputs := readTexts(f, "input", m, maxInputs); f.fault == nil {
		e, err := m.embedder()
		for i := 0; i < len(inputs) && err == nil; i++ {
			var one *embed.Text
			if inputs[i].Tokens != nil {
				one, err = e.ReadTokens(inputs[i].Tokens)
			} else {
				one, err = e.Read(inputs[i].Prompt, o)
			}
			if err != nil && len(inputs) > 1 {
				err = fmt.Errorf("text %d: %w", i, err)
			}
			if list = append(list, one); err == nil {
				tokens += len(one.Tokens)
			}
		}
		if err != nil {
			names := map[string]string{"text": "input", "prompt": "prompt_name"}
			f.fail(refused("input", err).renamed(names))
		}
	}
	s.visit(w, r, f, m, 0, func(ctx context.Context, turn model.Turn) ([]byte, error) {
		o.Turn = turn
		e, err := m.embedder()
		if err != nil {
			return nil, err
		}
		vectors, err := e.Embed(ctx, list, o)
		if err != nil {
			return nil, err
		}
		out := struct {
			Object string      `json:"object"`
			Data   []embedding `json:"data"`
			Model  string      `json:"model"`
			Usage  any         `json:"usage"`
		}{"list", nil, m.name, map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}}
		for i, v := range vectors {
			one := embedding{"embedding", i, v}
			if packed {
				var b []byte
				for _, x := range v {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
				one.Vector = base64.StdEncoding.EncodeToString(b)
			}
			out.Data = append(out.Data, one)
		}
		return encode(out), nil
	})
}
