package server

import (
	"crypto/sha256"
	"fmt"
	"time"

	"unmask/generate"
	"unmask/generate/traces"
	"unmask/prompt"
	"unmask/server/engine"
	"unmask/tokenizers"
)

// query is a request after its route has read its fields.
type query struct {
	kind      string // completions, chat, infill, editor, images or edits
	prefix    string // of the answer's id
	model     *servedModel
	set       settings
	sequences []generate.Request // of each choice
	form      any                // all else that the answer depends on, as JSON
	forms     []textForm         // of each choice, where texts are streamed
	prompt    int                // tokens of the prompts
	wire      wire               // the shape of texts
	answers   func(*call) (*answer, *Fault)
	ready     *answer  // where nothing is to be made
	notes     []string // what of the request has no effect
}

// call is a query that is made, perhaps together with equal ones.
type call struct {
	*engine.Call
	query
}

// answer is the answer to a finished call.
type answer struct {
	body   []byte   // JSON
	images [][]byte // PNGs
	parts  any      // what streams need of it
	turns  []byte   // the conversation with it, which can go on, as JSON; nil: it is not kept
}

// Bytes implements engine.Answer.
func (a *answer) Bytes() int64 {
	n := len(a.body) + len(a.turns)
	for _, p := range a.images {
		n += len(p)
	}
	return int64(n)
}

// begin returns the call that answers a query, a new one or one that equal queries share, and
// whether its answer is there already. The caller must call Unwatch.
func (s *Server) begin(q query, owner string) (_ *call, hit bool, f *Fault) {
	now := s.now()
	c := &call{query: q}
	own, err := q.model.engine.NewCall(engine.Spec{Key: q.key(), Owner: owner, Batch: q.set.batch,
		Sequences: q.sequences, Created: now, Deadline: now.Add(s.o.Timeout),
		Answer: func() (engine.Answer, error) {
			a, f := q.answers(c)
			if f != nil {
				return nil, f
			}
			return a, nil
		}})
	if err != nil {
		return nil, false, refused("steps", err)
	}
	c.Call = own
	shared, hit, err := s.calls.Begin(own)
	if err != nil {
		return nil, false, failed(err)
	}
	return &call{shared, q}, hit, nil
}

// id returns the id of the call's answer.
func (c *call) id() string { return c.prefix + c.Key[:12] }

// header returns the header of the call's trace.
func (c *call) header() traces.Header {
	var t tokenizers.Tokenizer
	if c.model.Text != nil {
		t = c.model.Text
	}
	return traces.NewHeader(c.model.spec, c.sequences[0], t, c.model.name, prompt.Hole)
}

// resultOf returns the answer or the fault of a call that is done.
func resultOf(c *engine.Call) (*answer, *Fault) {
	a, err := c.Result()
	if err != nil {
		return nil, failed(err)
	}
	made, _ := a.(*answer)
	return made, nil
}

// key returns a hash of all that the answer depends on.
func (q *query) key() string {
	parts := []any{q.model.identity, q.kind, q.set.top, q.form}
	for i, one := range q.sequences {
		if i%q.set.n == 0 { // the others of a prompt differ in their index alone
			parts = append(parts, q.model.Identity(&q.set.request, &one))
		}
		parts = append(parts, one.Index)
	}
	return fmt.Sprintf("%x", sha256.Sum256(encode(parts)))
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
	Evaluated generate.Work `json:"evaluated"` // of all sequences together
	// tokens of a grammar at which the filters gave way
	GivenWay int       `json:"given_way,omitempty"`
	Queue    float64   `json:"queue_seconds"`
	Seconds  float64   `json:"seconds"`
	Codes    [][]int32 `json:"codes,omitempty"`
	Cells    []int     `json:"cells,omitempty"` // that were made new
	Fit      string    `json:"fit,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // what of the request has no effect
}

func (c *call) info() unmaskInfo {
	first := c.sequences[0]
	r := first.Recipe
	waited, ran := c.Times()
	return unmaskInfo{Seed: first.Seed, First: int(first.Index), Key: c.Key,
		Sampler: r.Get("sampler"), Schedule: r.Get("schedule"), Steps: r.Steps, Cache: r.Cache,
		Recipe:    r.String(),
		Evaluated: c.Work(),
		GivenWay:  c.FilterOverruled(),
		Notes:     c.notes,
		Queue:     seconds(waited), Seconds: seconds(ran)}
}

// seconds returns a time in seconds to the microsecond.
func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// usage counts tokens as OpenAI does.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}
