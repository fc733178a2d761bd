package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"unmask"
	"unmask/internal/jsonline"
)

// editorIgnored are fields of llama.cpp's POST /infill that the plugins llama.vim and llama.vscode
// send and that have no meaning here: slots and caches of that server, its limits of time, and its
// samplers, in whose place the model's published run decides.
var editorIgnored = []string{"id_slot", "cache_prompt", "n_indent", "t_max_prompt_ms",
	"t_max_predict_ms", "samplers", "top_k", "top_p", "n_probs", "n_keep", "min_p",
	"penalty_last_n"}

// editorLength is the longest hole without n_predict.
const editorLength = 64

// readEditor reads llama.cpp's POST /infill, which editors send: the text before and after the
// cursor, other text for context, and how much may be inserted. A model whose holes grow finds the
// length itself; others fill n_predict positions. With n_predict 0, by which the plugins prepare a
// server's cache, the answer is empty.
func (s *Server) readEditor(r *http.Request, f *fields, m *servedModel) (q query,
	options streamOptions) {
	for _, name := range editorIgnored {
		f.accept(name)
		delete(f.object, name)
	}
	set := readSettings(f)
	f.failIf(f.flag("stream"), fieldFault("unsupported_parameter", "stream",
		"stream is true, want false"))
	textBefore := f.text("input_prefix") + f.text("prompt")
	textAfter := f.text("input_suffix")
	maxTokens := f.integer("n_predict", 0, maxSteps, editorLength)
	var t textRequest
	t.readStopAndFormat(f)
	set.readTextFields(f, m, &t)
	refuseTools(f)
	wantedFields := f.texts("response_fields")
	extra := readExtra(f)
	if f.fault != nil {
		return q, options
	}
	if maxTokens == 0 {
		q.readyAnswer = m.encodeInsertion(insertion{}, wantedFields)
		return q, options
	}

	maxTokens = min(maxTokens, m.spec.Length())
	truncated, fault := m.fitContext(r.Context(), &set.request, extra, textBefore, textAfter,
		maxTokens)
	if fault != nil {
		f.fail(fault)
		return q, options
	}
	names := map[string]string{"max_tokens": "n_predict"}
	q.sequences = set.prepare(r.Context(), f, m, names, nil, set.request)
	if f.fault != nil {
		return q, options
	}

	form := m.textForm(&set.request, &q.sequences[0], false)
	known := q.sequences[0].Known
	contextTokens := len(known) - m.spec.CountMasked(known)
	q.kind = "editor"
	q.idPrefix = "fim-"
	q.model = m
	q.settings = set
	q.answerKey = []any{form, wantedFields}
	q.makeAnswer = func(c *call) (*answer, *Fault) {
		rendered := form.Render(c.Members[0].Tokens)
		info := c.info()
		return m.encodeInsertion(insertion{
			text:          rendered.Text,
			tokens:        rendered.Count(),
			contextTokens: contextTokens,
			truncated:     truncated,
			info:          &info,
		}, wantedFields), nil
	}
	return q, options
}

// readExtra returns the texts of input_extra, a list of {"filename", "text"}, each on lines of its
// own.
func readExtra(f *fields) (texts []string) {
	raw := f.value("input_extra")
	if raw == nil {
		return nil
	}
	for _, element := range f.parseList("input_extra", raw) {
		var chunk struct {
			Filename string
			Text     string
		}
		if json.Unmarshal(element, &chunk) != nil {
			f.fail(fieldFault("wrong_type", "input_extra",
				`input_extra has %s, want {"filename", "text"}`, jsonline.ValueKind(element)))
			return nil
		}
		if text := strings.TrimRight(chunk.Text, "\n"); text != "" {
			texts = append(texts, text+"\n")
		}
	}
	return texts
}

// fitContext makes a request one of at most maxTokens tokens between two texts. If all of it is too
// long, truncated is true: the texts of extra are dropped, from the first on; then half of the room
// is for what is nearest before the hole, the rest for what is nearest after it.
func (m *servedModel) fitContext(ctx context.Context, r *unmask.Request, extra []string,
	before, after string, maxTokens int) (truncated bool, fault *Fault) {
	t := m.Text.WithContext(ctx)
	tokensOf := func(name, text string) []int32 {
		tokens, err := t.Encode(text)
		if err != nil && fault == nil {
			fault = fieldFault("out_of_range", name, "%s: %s", name, oneLine(err))
		}
		return tokens
	}
	prefix := tokensOf("input_prefix", before)
	suffix := tokensOf("input_suffix", after)
	room := m.spec.Length() - maxTokens - m.spec.SpecialCount() - len(m.spec.Tail)
	if room < 1 {
		return false, rangeFault("n_predict", maxTokens, "less than the model's positions")
	}
	if len(prefix)+len(suffix) > room {
		truncated = true
		prefixRoom := max(room/2, room-len(suffix))
		prefix = prefix[max(0, len(prefix)-prefixRoom):]
		suffix = suffix[:min(len(suffix), room-len(prefix))]
	}
	for _, text := range slices.Backward(extra) {
		tokens := tokensOf("input_extra", text)
		if len(tokens)+len(prefix)+len(suffix) > room {
			truncated = true
			break
		}
		prefix = append(tokens, prefix...)
	}
	r.Tokens = append([]int32{}, prefix...)
	r.SuffixTokens = append([]int32{}, suffix...)
	if !m.spec.Fixed { // a fixed one fills all that is left
		r.MaxTokens = maxTokens
	}
	return truncated, fault
}

// insertion is a text for an editor.
type insertion struct {
	text string

	// tokens are those of the text, contextTokens those around it.
	tokens        int
	contextTokens int

	// truncated reports whether the context was too long.
	truncated bool

	// info is nil where nothing was computed.
	info *unmaskInfo
}

// encodeInsertion makes the answer that llama.cpp's server gives, or only some of its fields, whose
// names may be paths such as timings/prompt_n.
func (m *servedModel) encodeInsertion(t insertion, wantedFields []string) *answer {
	seconds := 0.0
	recalled := 0
	if t.info != nil {
		seconds = t.info.Seconds
		recalled = t.info.Evaluated.Recalled
	}
	full := map[string]any{
		"index":               0,
		"content":             t.text,
		"model":               m.name,
		"stop":                true,
		"stop_type":           "eos",
		"stopping_word":       "",
		"truncated":           t.truncated,
		"tokens_predicted":    t.tokens,
		"tokens_evaluated":    t.contextTokens,
		"tokens_cached":       recalled,
		"id_slot":             0,
		"has_new_line":        strings.Contains(t.text, "\n"),
		"generation_settings": map[string]any{"n_ctx": m.spec.Length()},
		"timings": map[string]any{
			"prompt_n":               t.contextTokens,
			"prompt_ms":              0,
			"prompt_per_token_ms":    0,
			"prompt_per_second":      0,
			"predicted_n":            t.tokens,
			"predicted_ms":           seconds * 1000,
			"predicted_per_token_ms": seconds * 1000 / float64(max(t.tokens, 1)),
			"predicted_per_second":   float64(t.tokens) / max(seconds, 1e-9),
		},
	}
	if t.info != nil {
		full["unmask"] = t.info
	}
	if len(wantedFields) == 0 {
		return &answer{body: encodeJSON(full)}
	}

	selected := map[string]any{}
	for _, path := range wantedFields {
		if value := valueAtPath(full, path); value != nil {
			selected[path] = value
		}
	}
	return &answer{body: encodeJSON(selected)}
}

// valueAtPath returns the value at a path of names with slashes between them, nil where there is
// none.
func valueAtPath(object map[string]any, path string) any {
	var value any = object
	for _, name := range strings.Split(path, "/") {
		parent, _ := value.(map[string]any)
		value = parent[name]
	}
	return value
}
