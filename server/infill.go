package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/internal/jsonline"
)

// holeNames are the fields of /v1/infill that a request has by other names.
var holeNames = map[string]string{"infill": "text"}

// infill reads POST /v1/infill: parts, text or tokens.
func (s *Server) infill(r *http.Request, f *fields, m *servedModel) (q query, st streaming) {
	set := readSettings(f)
	st = readStream(f)
	textOnly(f, &set, m)
	noTools(f)
	logs := f.has("logprobs")
	f.maybe("logprobs", 0, 1, 0)
	set.readHoles(f, m)
	f.refuse(st.form == "openai" || st.form == "diffusing",
		bad("unsupported_parameter", "stream", `stream is true, want "events" or false: holes `+
			"may be anywhere"))
	q.sequences = set.prepare(r.Context(), f, m, holeNames,
		bad("no_hole", "parts", "there is no hole, want one at least"), set.request)
	if f.fault != nil {
		return q, st
	}
	length := len(q.sequences[0].Known)
	free := m.spec.CountMasked(q.sequences[0].Known)
	used := usage{Prompt: length - free, Completion: set.n * free, Total: length - free + set.n*free}
	form := textForm{m.AnswerOf(&set.request, &q.sequences[0]), logs, m}
	q.kind, q.prefix, q.model, q.set, q.form = "infill", "infill-", m, set, form
	q.answers = func(made *call) (*answer, *Fault) { return infillAnswer(made, &form, used) }
	return q, st
}

// readHoles reads what is known and where the holes are.
func (s *settings) readHoles(f *fields, m *servedModel) {
	parts, text, ids := f.value("parts"), f.value("text"), f.value("tokens")
	given := slices.DeleteFunc([]json.RawMessage{parts, text, ids}, func(raw json.RawMessage) bool {
		return raw == nil
	})
	f.refuse(len(given) != 1,
		bad("missing", "parts", "parts, text and tokens: %d of them are given, want one", len(given)))
	switch {
	case f.fault != nil:
	case text != nil:
		if s.request.Infill = f.textOf("text", text); s.request.Infill == "" && f.fault == nil {
			f.fail(bad("no_hole", "text", "text is empty, want one with a hole such as [20]"))
		}
		return
	case parts != nil:
		s.request.Tokens = readParts(f, f.list("parts", parts), m)
	default:
		s.request.Tokens = readIDs(f, "tokens", f.list("tokens", ids), m, true)
	}
	f.refuse(!slices.Contains(s.request.Tokens, m.spec.Mask),
		bad("no_hole", "parts", "there is no hole, want one at least"))
}

// readParts reads texts and numbers of masked positions.
func readParts(f *fields, parts []json.RawMessage, m *servedModel) (tokens []int32) {
	length := m.spec.Length()
	for i, one := range parts {
		switch {
		case jsonline.ValueKind(one) == "a text":
			ids, err := m.Text.Encode(f.textOf("parts", one))
			if err != nil {
				f.fail(bad("out_of_range", "parts", "part %d: %s", i, oneLine(err)))
				return nil
			}
			tokens = append(tokens, ids...)
		case isWhole(string(one)):
			var n int
			if json.Unmarshal(one, &n) != nil || n < 1 || n > length {
				f.fail(outOfRange("parts", cut(string(one)),
					fmt.Sprintf("holes of 1 to %d tokens, at index %d", length, i)))
				return nil
			}
			tokens = append(tokens, slices.Repeat([]int32{m.spec.Mask}, n)...)
		default:
			f.fail(bad("wrong_type", "parts", "part %d is %s, want a text or a number of tokens", i,
				jsonline.ValueKind(one)))
			return nil
		}
		if len(tokens) > length {
			f.fail(tooLong("parts", len(tokens), length))
			return nil
		}
	}
	return tokens
}

type infillChoice struct {
	Index  int     `json:"index"`
	Text   string  `json:"text"`
	Tokens []int32 `json:"tokens"`
	Holes  []hole  `json:"holes"`
	// of choice: each text with its probability
	Choices []constrain.Choice `json:"choices,omitempty"`
}

// hole is a run of positions that were filled.
type hole struct {
	Start    int       `json:"start"`
	Length   int       `json:"length"`
	Text     string    `json:"text"`
	LogProbs *logProbs `json:"logprobs"`
}

// infillAnswer makes the answer of finished sequences.
func infillAnswer(made *call, form *textForm, used usage) (*answer, *Fault) {
	a := newChoices[infillChoice](made, "infill")
	a.Usage, a.Unmask = &used, made.info()
	for i, m := range made.Members {
		t := form.Render(m.Tokens)
		pieces, tokens := t.Pieces(), t.Tokens()
		c := infillChoice{Index: i, Text: t.Text, Tokens: m.Tokens, Holes: []hole{},
			Choices: m.Choices}
		for at := 0; at < len(m.Free); at++ {
			if !m.Free[at] {
				continue
			}
			from := at
			for at < len(m.Free) && m.Free[at] {
				at++
			}
			h := hole{Start: from, Length: at - from,
				Text: strings.Join(pieces[min(from, len(pieces)):min(at, len(pieces))], "")}
			if form.LogProbs {
				h.LogProbs = form.logProbs(m, tokens[min(from, len(tokens)):min(at, len(tokens))])
			}
			c.Holes = append(c.Holes, h)
		}
		a.Choices = append(a.Choices, c)
	}
	return &answer{body: encode(a), parts: used}, nil
}
