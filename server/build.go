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
	"unmask/model"
	"unmask/tokenizers"
)

// sequence is one that a request asks for.
type sequence struct {
	tokens    []int32 // [length] what is known, the mask elsewhere; nil: nothing
	condition *model.Condition
}

// asked is a request after its route has read its fields.
type asked struct {
	kind      string
	prefix    string // of the answer's id
	model     *served
	set       settings
	sequences []sequence // of each choice
	form      any        // all else that the answer depends on, as JSON
	answers   func(*work) (*answer, *Fault)
}

// work returns the work that a request asks for. It has not begun.
func (s *Server) work(a asked, owner string) (*work, *Fault) {
	now := s.now()
	w := &work{kind: a.kind, model: a.model, owner: owner, batch: a.set.batch, seed: a.set.seed,
		first: a.set.first, created: now, limit: now.Add(s.o.Timeout), answers: a.answers,
		changed: make(chan struct{}), finished: make(chan struct{})}
	length := a.model.spec.Length()
	key := []any{a.model.identity, a.kind, a.set.seed, a.set.first, a.set.constraints, a.form}
	if a.set.top > 0 {
		key = append(key, a.set.top)
	}
	for i, q := range a.sequences {
		run, f := a.set.run(a.model, q.tokens)
		if f != nil {
			return nil, f
		}
		run.First, run.Condition = a.set.first+i, q.condition
		if i == 0 {
			w.recipe = run.Recipe()
			w.header = traces.NewHeader(a.model.spec, run, a.model.tokenizer(), a.model.name, unmask.Hole)
		}
		key = append(key, q.tokens, run.Recipe().String())
		m, f := newMember(w, i, run, length, a.set.top)
		if f != nil {
			return nil, f
		}
		w.members = append(w.members, m)
		w.rows += m.left()
	}
	w.left, w.open = w.rows, len(w.members)
	sum := sha256.Sum256(encode(key))
	w.key = hex.EncodeToString(sum[:])
	w.id = a.prefix + w.key[:12]
	return w, nil
}

// newMember returns the member for one sequence. Its run was checked.
func newMember(w *work, choice int, run unmask.Run, length, top int) (*member, *Fault) {
	free := length
	if run.Tokens != nil {
		length = len(run.Tokens)
		free = masked(run.Tokens, w.model.spec.Mask)
	}
	steps, err := run.Recipe().Bound(free)
	if err != nil {
		return nil, refused("steps", err)
	}
	m := &member{work: w, choice: choice, run: run, condition: run.Condition, rows: length,
		guided: run.Guidance.Scale != 0, kept: run.Reuse != generate.NoReuse,
		request: generate.Request{Recipe: run.Recipe(), Seed: run.Seed, Index: uint32(run.First),
			Known: run.Tokens, Condition: run.Condition, Ends: run.Ends, Language: run.Language,
			Top: top}}
	if adjust := run.Adjust; adjust != nil {
		m.request.Adjust = func(position int, logits []float32) { adjust(run.First, position, logits) }
	}
	if m.guided {
		m.rows *= 2
	}
	if m.steps = max(steps, 1); run.Reuse == generate.Blocks { // steps are of each block
		size := max(run.BlockSize, w.model.spec.Block, 1)
		m.steps = steps * ((length + size - 1) / size)
		m.rows = size
	}
	if m.longest = length; w.model.spec.Growth != nil {
		m.longest = w.model.spec.Length()
	}
	m.logP = slices.Repeat([]float64{math.NaN()}, length)
	m.followed = m.logP
	if top > 0 {
		m.top = make([][]generate.Likely, length)
	}
	m.free = make([]bool, length)
	for i := range m.free {
		m.free[i] = run.Tokens == nil || run.Tokens[i] == w.model.spec.Mask
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
