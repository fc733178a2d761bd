package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask/constrain"
	"unmask/internal/jsonline"
)

// infillNames are the fields of /v1/infill that a request has by other names.
var infillNames = map[string]string{"infill": "text"}

// readInfill reads POST /v1/infill: parts, text or tokens.
func (s *Server) readInfill(r *http.Request, f *fields, m *servedModel) (q query,
	options streamOptions) {
	set := readSettings(f)
	options = readStreamOptions(f)
	var t textRequest
	t.readStopAndFormat(f)
	set.readTextFields(f, m, &t)
	refuseTools(f)
	logProbs := f.has("logprobs")
	f.integerOrNull("logprobs", 0, 1, 0)
	set.readHoles(r.Context(), f, m)
	f.failIf(options.form == streamsSettled || options.form == streamsDiffusing,
		fieldFault("unsupported_parameter", "stream",
			`stream is true, want "events" or false: holes may be anywhere`))
	noHole := fieldFault("no_hole", "parts", "there is no hole, want one at least")
	q.sequences = set.prepare(r.Context(), f, m, infillNames, noHole, set.request)
	if f.fault != nil {
		return q, options
	}

	length := len(q.sequences[0].Known)
	masked := m.spec.CountMasked(q.sequences[0].Known)
	used := usage{Prompt: length - masked, Completion: set.n * masked}
	used.Total = used.Prompt + used.Completion
	form := textForm{m.AnswerOf(&set.request, &q.sequences[0]), logProbs, m}
	q.kind = "infill"
	q.idPrefix = "infill-"
	q.model = m
	q.settings = set
	q.answerKey = form
	q.makeAnswer = func(c *call) (*answer, *Fault) { return answerInfill(c, &form, used) }
	return q, options
}

// readHoles reads what is known and where the holes are.
func (s *settings) readHoles(ctx context.Context, f *fields, m *servedModel) {
	parts := f.value("parts")
	text := f.value("text")
	ids := f.value("tokens")
	count := 0
	for _, raw := range []json.RawMessage{parts, text, ids} {
		if raw != nil {
			count++
		}
	}
	f.failIf(count != 1, fieldFault("missing", "parts",
		"parts, text and tokens: %d of them are given, want one", count))
	if f.fault != nil {
		return
	}

	switch {
	case text != nil: // Prepare finds its holes
		s.request.Infill = f.parseText("text", text)
		if s.request.Infill == "" && f.fault == nil {
			f.fail(fieldFault("no_hole", "text", "text is empty, want one with a hole such as [20]"))
		}
		return
	case parts != nil:
		tokens := readParts(ctx, f, f.parseList("parts", parts), m)
		s.request.Tokens = slices.Concat(tokens, m.spec.TailBehind(tokens))
	default:
		s.request.Tokens = readTokenIDs(f, "tokens", ids, m, true)
	}
	f.failIf(!slices.Contains(s.request.Tokens, m.spec.Mask),
		fieldFault("no_hole", "parts", "there is no hole, want one at least"))
}

// readParts reads texts and numbers of masked positions.
func readParts(ctx context.Context, f *fields, parts []json.RawMessage,
	m *servedModel) (tokens []int32) {
	t := m.Text.WithContext(ctx)
	length := m.spec.Length()
	for i, part := range parts {
		switch {
		case jsonline.ValueKind(part) == "a text":
			ids, err := t.Encode(f.parseText("parts", part))
			if err != nil {
				f.fail(fieldFault("out_of_range", "parts", "part %d: %s", i, oneLine(err)))
				return nil
			}
			tokens = append(tokens, ids...)
		case isInteger(string(part)):
			var n int
			if json.Unmarshal(part, &n) != nil || n < 1 || n > length {
				f.fail(rangeFault("parts", truncate(string(part)),
					fmt.Sprintf("holes of 1 to %d tokens, at index %d", length, i)))
				return nil
			}
			tokens = append(tokens, slices.Repeat([]int32{m.spec.Mask}, n)...)
		default:
			f.fail(fieldFault("wrong_type", "parts",
				"part %d is %s, want a text or a number of tokens", i, jsonline.ValueKind(part)))
			return nil
		}
		if len(tokens) > length {
			f.fail(tooLongFault("parts", len(tokens), length))
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

	// Choices are the texts of choice with their probabilities.
	Choices []constrain.Choice `json:"choices,omitempty"`
}

// hole is a run of positions that were filled.
type hole struct {
	Start    int       `json:"start"`
	Length   int       `json:"length"`
	Text     string    `json:"text"`
	LogProbs *logProbs `json:"logprobs"`
}

// answerInfill makes the answer of finished sequences.
func answerInfill(c *call, form *textForm, used usage) (*answer, *Fault) {
	list := newChoiceList[infillChoice](c, "infill")
	list.Usage = &used
	list.Unmask = c.info()
	for i, m := range c.Members {
		rendered := form.Render(m.Tokens)
		pieces := rendered.Pieces()
		tokens := rendered.Tokens()
		choice := infillChoice{Index: i, Text: rendered.Text, Tokens: m.Tokens, Holes: []hole{},
			Choices: m.Choices}
		for start := 0; start < len(m.Free); start++ {
			if !m.Free[start] {
				continue
			}
			end := start
			for end < len(m.Free) && m.Free[end] {
				end++
			}

			// A text that ends early has fewer pieces than positions.
			filled := pieces[min(start, len(pieces)):min(end, len(pieces))]
			h := hole{Start: start, Length: end - start, Text: strings.Join(filled, "")}
			if form.LogProbs {
				h.LogProbs = form.logProbs(m, tokens[min(start, len(tokens)):min(end, len(tokens))])
			}
			choice.Holes = append(choice.Holes, h)
			start = end
		}
		list.Choices = append(list.Choices, choice)
	}
	return &answer{body: encodeJSON(list), details: used}, nil
}
