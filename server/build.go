package server

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"unmask"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/tokenizers"
)

// asked is a request after its route has read its fields.
type asked struct {
	kind      string
	prefix    string // of the answer's id
	model     *served
	set       settings
	sequences []generate.Request // of each choice
	form      any                // all else that the answer depends on, as JSON
	answers   func(*work) (*answer, *Fault)
}

// work returns the work that a request asks for. It has not begun.
func (s *Server) work(a asked, owner string) (*work, *Fault) {
	now, first := s.now(), a.sequences[0]
	w := &work{kind: a.kind, model: a.model, owner: owner, batch: a.set.batch, seed: first.Seed,
		first: int(first.Index), recipe: first.Recipe, created: now, limit: now.Add(s.o.Timeout),
		answers: a.answers, changed: make(chan struct{}), finished: make(chan struct{})}
	run := generate.Options{Seed: first.Seed, Length: first.Length, Tokens: first.Known}
	w.header = traces.NewHeader(a.model.spec, run.With(first.Recipe), a.model.tokenizer(),
		a.model.name, unmask.Hole)
	for i, q := range a.sequences {
		m, f := newMember(w, i, q)
		if f != nil {
			return nil, f
		}
		w.members = append(w.members, m)
		w.rows += m.left()
	}
	w.left, w.open = w.rows, len(w.members)
	w.key = a.key()
	w.id = a.prefix + w.key[:12]
	return w, nil
}

// key returns a hash of all that the answer depends on.
func (a *asked) key() string {
	r := a.set.request
	parts := []any{a.model.identity, a.kind, a.set.top, r.Constraints, a.form}
	for _, q := range a.sequences {
		class := int32(-1)
		if q.Condition != nil {
			class = q.Condition.Class
		}
		parts = append(parts, q.Seed, q.Index, q.Known, q.String(), class)
	}
	if a.model.spec.Prompt {
		parts = append(parts, r.Prompt, r.Negative)
	}
	sum := sha256.Sum256(encode(parts))
	return hex.EncodeToString(sum[:])
}

// newMember returns the member for one sequence, which was prepared.
func newMember(w *work, choice int, q generate.Request) (*member, *Fault) {
	spec, length := w.model.spec, q.Length
	m := &member{work: w, choice: choice, request: q, rows: length, longest: length,
		guided: q.Guidance.Scale != 0, kept: q.Reuse != generate.NoReuse}
	m.free = make([]bool, length)
	free := 0
	for i := range m.free {
		if m.free[i] = q.Known == nil || q.Known[i] == spec.Mask; m.free[i] {
			free++
		}
	}
	steps, err := q.Bound(free)
	if err != nil {
		return nil, refused("steps", err)
	}
	if m.guided {
		m.rows *= 2
	}
	if m.steps = max(steps, 1); q.Reuse == generate.Blocks { // steps are of each block
		size := max(q.BlockSize, spec.Block, 1)
		m.steps = steps * ((length + size - 1) / size)
		m.rows = size
	}
	if spec.Growth != nil {
		m.longest = spec.Length()
	}
	m.logP = slices.Repeat([]float64{math.NaN()}, length)
	m.followed = m.logP
	if q.Top > 0 {
		m.top = make([][]generate.Likely, length)
	}
	return m, nil
}

// tokenizer is the model's, nil where it makes no text.
func (m *served) tokenizer() tokenizers.Tokenizer {
	if m.Text == nil {
		return nil
	}
	return m.Text
}

// unmaskInfo describes in an answer how it was made.
type unmaskInfo struct {
	Seed      uint64        `json:"seed"`
	First     int           `json:"first"`
	Key       string        `json:"key"`
	Sampler   string        `json:"sampler"`
	Schedule  string        `json:"schedule"`
	Steps     int           `json:"steps"`
	Cache     int           `json:"cache"`
	Recipe    string        `json:"recipe"`
	Evaluated evaluatedInfo `json:"evaluated"`
	Queue     float64       `json:"queue_seconds"`
	Seconds   float64       `json:"seconds"`
	Codes     [][]int32     `json:"codes,omitempty"`
	Cells     []int         `json:"cells,omitempty"` // that were made new
	Fit       string        `json:"fit,omitempty"`
}

// evaluatedInfo counts the passes and rows of all sequences together.
type evaluatedInfo struct {
	FullPasses  int `json:"full_passes"`
	PartialRows int `json:"partial_rows"`
	HeadRows    int `json:"head_rows"`
	Drafted     int `json:"drafted,omitempty"`
	Accepted    int `json:"accepted,omitempty"`
}

func (w *work) info() unmaskInfo {
	e, _ := w.total()
	w.mu.Lock()
	defer w.mu.Unlock()
	return unmaskInfo{Seed: w.seed, First: w.first, Key: w.key, Sampler: w.recipe.Get("sampler"),
		Schedule: w.recipe.Get("schedule"), Steps: w.recipe.Steps, Cache: w.recipe.Cache,
		Recipe: w.recipe.String(),
		Evaluated: evaluatedInfo{FullPasses: e.Full, PartialRows: e.Partial, HeadRows: e.Head,
			Drafted: e.Drafted, Accepted: e.Accepted},
		Queue: seconds(w.waited), Seconds: seconds(w.ran)}
}

// seconds returns a time in seconds to the microsecond.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// usage counts tokens as OpenAI does.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}
