package server

import (
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

// editor reads llama.cpp's POST /infill, which editors send: the text before and after the cursor,
// other text for context, and how much may be inserted. A model whose holes grow finds the length
// itself; others fill n_predict positions. With n_predict 0, by which the plugins prepare a
// server's cache, the answer is empty.
func (s *Server) editor(r *http.Request, f *fields, m *servedModel) (q query, st streaming) {
	for _, name := range editorIgnored {
		f.raw(name)
		delete(f.object, name)
	}
	set := readSettings(f)
	f.refuse(f.flag("stream"), bad("unsupported_parameter", "stream", "stream is true, want false"))
	before := f.text("input_prefix") + f.text("prompt")
	after, most := f.text("input_suffix"), f.whole("n_predict", 0, maxSteps, editorLength)
	textOnly(f, &set, m)
	noTools(f)
	only := f.texts("response_fields")
	extra := readExtra(f)
	if f.fault != nil {
		return q, st
	}
	if most == 0 {
		q.ready = m.editorAnswer(inserted{}, only)
		return q, st
	}
	cut, fault := m.around(&set.request, extra, before, after, min(most, m.spec.Length()))
	if fault != nil {
		f.fail(fault)
		return q, st
	}
	q.sequences = set.prepare(r.Context(), f, m, map[string]string{"max_tokens": "n_predict"}, nil,
		set.request)
	if f.fault != nil {
		return q, st
	}
	form := m.textForm(&set.request, &q.sequences[0], false)
	q.kind, q.prefix, q.model, q.set, q.form = "editor", "fim-", m, set, []any{form, only}
	known := len(q.sequences[0].Known) - m.spec.CountMasked(q.sequences[0].Known)
	q.answers = func(made *call) (*answer, *Fault) {
		of := made.Members[0]
		t, info := form.Render(of.Tokens), made.info()
		return m.editorAnswer(inserted{t.Text, t.Count(), known, cut, &info}, only), nil
	}
	return q, st
}

// readExtra returns the texts of input_extra, a list of {"filename", "text"}, each on lines of its
// own.
func readExtra(f *fields) (texts []string) {
	raw := f.value("input_extra")
	if raw == nil {
		return nil
	}
	for _, one := range f.list("input_extra", raw) {
		var chunk struct{ Filename, Text string }
		if json.Unmarshal(one, &chunk) != nil {
			f.fail(bad("wrong_type", "input_extra", `input_extra has %s, want {"filename", "text"}`,
				jsonline.ValueKind(one)))
			return nil
		}
		if text := strings.TrimRight(chunk.Text, "\n"); text != "" {
			texts = append(texts, text+"\n")
		}
	}
	return texts
}

// around makes a request one of at most `most` tokens between two texts. If all of it is too long,
// the texts of extra are dropped, from the first on; then half of the room is for what is nearest
// before the hole, the rest for what is nearest after it, and cut is true.
func (m *servedModel) around(r *unmask.Request, extra []string, before, after string, most int) (
	cut bool, fault *Fault) {
	encode := func(name, text string) []int32 {
		ids, err := m.Text.Encode(text)
		if err != nil && fault == nil {
			fault = bad("out_of_range", name, "%s: %s", name, oneLine(err))
		}
		return ids
	}
	prefix, suffix := encode("input_prefix", before), encode("input_suffix", after)
	room := m.spec.Length() - most - m.spec.SpecialCount()
	if room < 1 {
		return false, outOfRange("n_predict", most, "less than the model's positions")
	}
	if over := len(prefix) + len(suffix) - room; over > 0 {
		cut = true
		kept := max(room/2, room-len(suffix))
		prefix = prefix[max(0, len(prefix)-kept):]
		suffix = suffix[:min(len(suffix), room-len(prefix))]
	}
	for _, text := range slices.Backward(extra) {
		ids := encode("input_extra", text)
		if len(ids)+len(prefix)+len(suffix) > room {
			cut = true
			break
		}
		prefix = append(ids, prefix...)
	}
	r.Tokens, r.SuffixTokens = append([]int32{}, prefix...), append([]int32{}, suffix...)
	if !m.spec.Fixed { // a fixed one fills all that is left
		r.MaxTokens = most
	}
	return cut, fault
}

// inserted is a text for an editor.
type inserted struct {
	text          string
	tokens, known int // tokens of the text, and those around it
	cut           bool
	info          *unmaskInfo // nil: nothing was made
}

// editorAnswer makes the answer that llama.cpp's server gives, or only some of its fields, whose
// names may be paths such as timings/prompt_n.
func (m *servedModel) editorAnswer(t inserted, only []string) *answer {
	seconds, recalled := 0.0, 0
	if t.info != nil {
		seconds, recalled = t.info.Seconds, t.info.Evaluated.Recalled
	}
	full := map[string]any{"index": 0, "content": t.text, "model": m.name, "stop": true,
		"stop_type": "eos", "stopping_word": "", "truncated": t.cut, "tokens_predicted": t.tokens,
		"tokens_evaluated": t.known, "tokens_cached": recalled, "id_slot": 0,
		"has_new_line":        strings.Contains(t.text, "\n"),
		"generation_settings": map[string]any{"n_ctx": m.spec.Length()},
		"timings": map[string]any{"prompt_n": t.known, "prompt_ms": 0, "prompt_per_token_ms": 0,
			"prompt_per_second": 0, "predicted_n": t.tokens, "predicted_ms": seconds * 1000,
			"predicted_per_token_ms": seconds * 1000 / float64(max(t.tokens, 1)),
			"predicted_per_second":   float64(t.tokens) / max(seconds, 1e-9)}}
	if t.info != nil {
		full["unmask"] = t.info
	}
	if len(only) == 0 {
		return &answer{body: encode(full)}
	}
	some := map[string]any{}
	for _, path := range only {
		var at any = full
		for _, name := range strings.Split(path, "/") {
			inner, _ := at.(map[string]any)
			at = inner[name]
		}
		if at != nil {
			some[path] = at
		}
	}
	return &answer{body: encode(some)}
}
