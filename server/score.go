package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/jsonline"
	"unmask/likelihood"
	"unmask/model"
	"unmask/param"
	"unmask/server/engine"
)

// A request with echo, logprobs, and max_tokens 0 asks for the log-probabilities of the prompt's
// own tokens. Evaluation harnesses ask so for answers: each token's must be that of the token given
// those before it, so that the sum over the last ones is that of an answer, wherever it begins. One
// with max_tokens 1 and temperature 0 is the same to them; they drop the one more token.

// scoring is a request for log-probabilities.
type scoring struct {
	model   *servedModel
	prompts []unmask.Request
	options likelihood.Options
	from    int // tokens of each prompt that are given, not scored
	more    int // tokens to add, 0 or 1
	top     int
}

// scores reports whether a request of /v1/completions is for log-probabilities alone.
func scores(f *fields) bool {
	is := func(name string, values ...string) bool {
		return slices.Contains(values, string(f.object[name]))
	}
	return is("echo", "true") && !is("logprobs", "", "null") &&
		(is("max_tokens", "0") || is("max_tokens", "1") && is("temperature", "0", "0.0"))
}

// completing answers POST /v1/completions.
func (s *Server) completing(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	if scores(f) {
		return s.score(w, r, f)
	}
	return s.generate(w, r, f, s.ofModel(wantsText, s.completions))
}

// readScoring reads the fields of a request for log-probabilities.
func (s *Server) readScoring(f *fields) (q scoring) {
	if q.model = s.model(f, wantsText); q.model == nil {
		return q
	}
	f.flag("echo")
	f.value("temperature") // it changes nothing
	q.top, q.more = f.maybe("logprobs", 0, generate.MaxTop, 0), f.maybe("max_tokens", 0, 1, 0)
	q.from = f.maybe("answer_from", 0, q.model.spec.Length(), 0)
	q.options.Method = f.text("method")
	q.options.Passes = f.maybe("passes", int(likelihood.PassesParam.Min),
		int(likelihood.PassesParam.Max), 0)
	q.options.Seed, _ = f.seed("seed")
	if q.options.Method == "" && q.from == 0 {
		q.options.Method = likelihood.LeftToRight
	}
	f.neutral("n", "1")
	f.neutral("stream", "false")
	f.neutral("stop", "[]")
	f.neutrals()
	q.prompts = readTexts(f, "prompt", q.model, maxPrompts)
	if err := q.options.Check(); f.fault == nil && err != nil {
		f.fail(refused("method", err))
	}
	return q
}

// score answers a request for log-probabilities.
func (s *Server) score(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	q := s.readScoring(f)
	return s.visit(w, r, f, q.model, func(ctx context.Context, turn model.Turn) ([]byte, error) {
		q.options.Turn = turn
		return s.scored(ctx, q)
	})
}

// visit answers a request by passes that take their turns among the model's calls; turn waits for
// one.
func (s *Server) visit(w http.ResponseWriter, r *http.Request, f *fields, m *servedModel,
	answer func(ctx context.Context, turn model.Turn) ([]byte, error)) *Fault {
	fault := f.end()
	if f.free(); fault != nil {
		return fault
	}
	owner, began := keyName(r), s.now()
	leave, fault := s.enter(m, owner)
	if fault != nil {
		return fault
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	body, err := answer(ctx, func(ctx context.Context) (func(), error) {
		return m.engine.AwaitTurn(ctx, owner, began)
	})
	switch {
	case err == nil:
		writeJSON(w, body)
		return nil
	case r.Context().Err() != nil:
		note(r).gone = true
		return nil
	case s.ctx.Err() != nil:
		return shuttingDown()
	case ctx.Err() != nil:
		return notScored(engine.Deadline, 0, "the request took more than %.0f seconds",
			s.o.Timeout.Seconds())
	}
	_, isParam := errors.AsType[*param.Error](err)
	_, isFault := errors.AsType[*Fault](err)
	if isParam || isFault {
		return refused("prompt", err).renamed(map[string]string{"answer": "prompt"})
	}
	return notScored(engine.StepFailed, 0, "%s", oneLine(err))
}

// enter counts one more of an owner's requests that make passes of their own, and returns what ends
// it, or why it cannot begin.
func (s *Server) enter(m *servedModel, owner string) (leave func(), f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{m.name, owner}
	if s.ctx.Err() != nil {
		return nil, shuttingDown()
	}
	if n := s.visits[key]; n > s.o.Queue {
		return nil, notScored(engine.QueueFull, 1, "%d requests wait, want at most %d", n-1, s.o.Queue)
	}
	s.visits[key]++
	s.group.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.visits[key]--; s.visits[key] == 0 {
			delete(s.visits, key)
		}
		s.group.Done()
	}, nil
}

func shuttingDown() *Fault {
	return notScored(engine.ShuttingDown, 5, "the server is shutting down")
}

// notScored returns the fault of a request that got no turn or did not end.
func notScored(kind engine.Kind, retry int, format string, args ...any) *Fault {
	return failed(&engine.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Retry: retry})
}

// scored returns the answer to a request.
func (s *Server) scored(ctx context.Context, q scoring) ([]byte, error) {
	m := q.model
	c := choices[completionChoice]{ID: "cmpl-score", Object: "text_completion",
		Created: s.now().Unix(), Model: m.name, Fingerprint: m.fingerprint(), Usage: &usage{}}
	info := scoreInfo{Method: q.options.Method, Errors: []*float64{}}
	for i, p := range q.prompts {
		choice, e, err := q.choice(ctx, p, c.Usage)
		if err != nil {
			return nil, err
		}
		choice.Index = i
		c.Choices = append(c.Choices, choice)
		info.Passes += e.Passes
		info.Errors = append(info.Errors, jsonline.FiniteOrNil(e.Error))
	}
	c.Usage.Total = c.Usage.Prompt + c.Usage.Completion
	c.Unmask = info
	return encode(c), nil
}

// scoreInfo says how log-probabilities were measured.
type scoreInfo struct {
	Method string     `json:"method"` // "" for the model's own
	Passes int        `json:"passes"`
	Errors []*float64 `json:"errors"` // of each choice: standard error of the sum
}

// choice scores a prompt.
func (q *scoring) choice(ctx context.Context, p unmask.Request, used *usage) (completionChoice,
	*likelihood.Estimate, error) {
	var none completionChoice
	var nothing unmask.Request // to which the prompt is an answer
	if p.Tokens != nil {
		nothing.Tokens = []int32{}
	}
	tokens, from, to, err := q.model.TokensWithAnswer(nothing, p.Prompt, p.Tokens)
	if err != nil {
		return none, nil, err
	}
	ids := slices.Clone(tokens[from:to])
	used.Prompt += len(ids)
	first := max(q.from, 0)
	if q.model.spec.Causal == model.NextToken && from+first == 0 {
		first = 1 // nothing predicts the first
	}
	if first >= len(ids) {
		return none, nil, outOfRange("answer_from", q.from, fmt.Sprintf("0 to %d, the last token of "+
			"the prompt", len(ids)-1))
	}
	if spec := q.model.spec; q.more > 0 && to+len(spec.AfterText) >= spec.Length() {
		return none, nil, bad("context_length_exceeded", "prompt",
			"prompt leaves no position to fill, want a shorter one or max_tokens 0")
	}
	e, err := likelihood.Measure(ctx, q.model.Denoiser, tokens, from+first, to, q.options)
	if err != nil {
		return none, nil, err
	}
	logP := append(make([]*float64, first), jsonline.FinitesOrNil(e.LogP)...)
	best := append(make([]int32, first), e.Best...)
	bestLogP := append(make([]*float64, first), jsonline.FinitesOrNil(e.BestLogP)...)
	if q.more > 0 {
		next, err := q.next(ctx, tokens, to)
		if err != nil {
			return none, nil, err
		}
		used.Completion++
		ids, best = append(ids, next.Best...), append(best, next.Best...)
		one := jsonline.FinitesOrNil(next.BestLogP)
		logP, bestLogP = append(logP, one...), append(bestLogP, one...)
	}
	return q.form(ids, logP, best, bestLogP), e, nil
}

// next returns the estimate of the token after the prompt: its Best is what follows.
func (q *scoring) next(ctx context.Context, tokens []int32, to int) (*likelihood.Estimate, error) {
	spec := q.model.spec
	tokens = slices.Clone(tokens)
	if !spec.Fixed {
		tokens = slices.Insert(tokens, to, spec.Mask)
	}
	if tokens[to] = 0; spec.Mask == 0 { // any token that is not the mask
		tokens[to] = 1
	}
	return likelihood.Measure(ctx, q.model.Denoiser, tokens, to, to+1,
		likelihood.Options{Method: likelihood.LeftToRight, Turn: q.options.Turn})
}

// form returns the choice of scored tokens.
func (q *scoring) form(ids []int32, logP []*float64, best []int32,
	bestLogP []*float64) completionChoice {
	finish, pieces := "length", q.model.Text.Pieces(ids)
	logs := &logProbs{LogP: logP}
	at := 0
	for i, piece := range pieces {
		logs.Tokens, logs.Offsets = append(logs.Tokens, piece), append(logs.Offsets, at)
		if at += len(piece); q.top == 0 {
			continue
		}
		var top map[string]float64
		if logP[i] != nil {
			top = map[string]float64{q.text(ids[i]): *logP[i]}
		}
		if bestLogP[i] != nil { // last, where both have one text
			if top == nil {
				top = map[string]float64{}
			}
			top[q.text(best[i])] = *bestLogP[i]
		}
		logs.Top = append(logs.Top, top)
	}
	return completionChoice{Text: strings.Join(pieces, ""), LogProbs: logs, Finish: &finish}
}

// text returns a token's text.
func (q *scoring) text(id int32) string {
	text, _ := q.model.Text.Token(id)
	return validText(text)
}
