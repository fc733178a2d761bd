package server

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"unmask/generate"
	"unmask/generate/traces"
	"unmask/prompt"
	"unmask/server/engine"
	"unmask/tokenizers"
)

// query is a request after its route has read its fields.
type query struct {
	// kind is completions, chat, infill, editor, images, edits, speech, ollama, messages or
	// responses.
	kind string

	// idPrefix begins the answer's id.
	idPrefix string

	model    *servedModel
	settings settings

	// sequences are those of each choice.
	sequences []generate.Request

	// answerKey is all that the answer depends on beside the sequences. It must have a JSON form.
	answerKey any

	// textForms are those of each choice, where texts are streamed.
	textForms []textForm

	// promptTokens counts the tokens of the prompts.
	promptTokens int

	// wire is the shape of texts.
	wire wire

	makeAnswer func(*call) (*answer, *Fault)

	// readyAnswer is the answer where nothing is to be computed.
	readyAnswer *answer

	// notes say what of the request has no effect.
	notes []string
}

// call is a query that is computed, perhaps together with equal ones.
type call struct {
	*engine.Call
	query
}

// answer is the answer to a finished call.
type answer struct {
	// body is JSON.
	body []byte

	// images are PNGs.
	images [][]byte

	// details are what streams need of the answer.
	details any

	// conversation is the conversation with the answer, as JSON, which can go on. It is nil if it is
	// not kept.
	conversation []byte
}

// Bytes implements engine.Answer.
func (a *answer) Bytes() int64 {
	n := len(a.body) + len(a.conversation)
	for _, image := range a.images {
		n += len(image)
	}
	return int64(n)
}

// begin returns the call that answers a query, a new one or one that equal queries share, and
// whether its answer is there already. The caller must call Unwatch.
func (s *Server) begin(q query, owner string) (_ *call, hit bool, f *Fault) {
	now := s.now()
	c := &call{query: q} // what makes the answer reads the computation from it, which is set below
	computation, err := q.model.engine.NewCall(engine.Spec{
		Key:       q.key(),
		Owner:     owner,
		Batch:     q.settings.batch,
		Sequences: q.sequences,
		Created:   now,
		Deadline:  now.Add(s.o.Timeout),
		Answer: func() (engine.Answer, error) {
			a, f := q.makeAnswer(c)
			if f != nil {
				return nil, f
			}
			return a, nil
		},
	})
	if err != nil {
		return nil, false, faultOf("steps", err)
	}
	c.Call = computation
	shared, hit, err := s.calls.Begin(computation)
	if err != nil {
		return nil, false, callFault(err)
	}

	// An equal query may be another client's, who wants its answer sent in another way.
	return &call{shared, q}, hit, nil
}

// id returns the id of the call's answer.
func (c *call) id() string { return c.idPrefix + c.Key[:12] }

// traceHeader returns the header of the call's trace.
func (c *call) traceHeader() traces.Header {
	var t tokenizers.Tokenizer
	if c.model.Text != nil {
		t = c.model.Text
	}
	return traces.NewHeader(c.model.spec, c.sequences[0], t, c.model.name, prompt.Hole)
}

// callResult returns the answer or the fault of a call that is done.
func callResult(c *engine.Call) (*answer, *Fault) {
	result, err := c.Result()
	if err != nil {
		return nil, callFault(err)
	}
	a, _ := result.(*answer)
	return a, nil
}

// allNotes returns what of the request, or of the model's recipe, has no effect.
func (q *query) allNotes() []string { return slices.Concat(q.notes, q.settings.notes) }

// key returns a hash of all that the answer depends on.
func (q *query) key() string {
	parts := []any{q.model.identity, q.kind, q.settings.top, q.answerKey, q.settings.notes}
	for i, sequence := range q.sequences {
		if i%q.settings.n == 0 { // the others of a prompt differ in their index alone
			parts = append(parts, q.model.Identity(&q.settings.request, &sequence))
		}
		parts = append(parts, sequence.Index)
	}
	return fmt.Sprintf("%x", sha256.Sum256(encodeJSON(parts)))
}

// unmaskInfo describes in an answer how it was made.
type unmaskInfo struct {
	Seed     uint64 `json:"seed"`
	First    int    `json:"first"`
	Key      string `json:"key"`
	Sampler  string `json:"sampler"`
	Schedule string `json:"schedule"`
	Steps    int    `json:"steps"`
	Cache    int    `json:"cache"`
	Recipe   string `json:"recipe"`

	// Evaluated is the work of all sequences together.
	Evaluated generate.Work `json:"evaluated"`

	// GivenWay counts tokens of a grammar at which the filters gave way.
	GivenWay int `json:"given_way,omitempty"`

	Queue   float64   `json:"queue_seconds"`
	Seconds float64   `json:"seconds"`
	Codes   [][]int32 `json:"codes,omitempty"`

	// Cells are those of a picture that an edit made new.
	Cells []int `json:"cells,omitempty"`

	Fit string `json:"fit,omitempty"`

	// Notes say what of the request has no effect.
	Notes []string `json:"notes,omitempty"`
}

// info returns how the call was made.
func (c *call) info() unmaskInfo {
	first := c.sequences[0]
	recipe := first.Recipe
	waited, ran := c.Times()
	return unmaskInfo{
		Seed:      first.Seed,
		First:     int(first.Index),
		Key:       c.Key,
		Sampler:   recipe.Get("sampler"),
		Schedule:  recipe.Get("schedule"),
		Steps:     recipe.Steps,
		Cache:     recipe.Cache,
		Recipe:    recipe.String(),
		Evaluated: c.Work(),
		GivenWay:  c.FilterOverruled(),
		Notes:     c.allNotes(),
		Queue:     roundSeconds(waited),
		Seconds:   roundSeconds(ran),
	}
}

// roundSeconds returns a time in seconds to the microsecond.
func roundSeconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// usage counts tokens as OpenAI does.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}
