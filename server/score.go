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

// scoreRequest is a request for log-probabilities.
type scoreRequest struct {
	model   *servedModel
	prompts []unmask.Request
	options likelihood.Options

	// answerFrom is the number of tokens of each prompt that are known, not scored.
	answerFrom int

	// newTokens is the number of tokens to add, 0 or 1.
	newTokens int

	// top is above 0 if the most probable token of each position is asked for.
	top int
}

// asksForScores reports whether a request of /v1/completions is for log-probabilities alone.
func asksForScores(f *fields) bool {
	hasValue := func(name string, values ...string) bool {
		return slices.Contains(values, string(f.object[name]))
	}
	addsNothing := hasValue("max_tokens", "0") ||
		hasValue("max_tokens", "1") && hasValue("temperature", "0", "0.0")
	return hasValue("echo", "true") && !hasValue("logprobs", "", "null") && addsNothing
}

// handleCompletion answers POST /v1/completions.
func (s *Server) handleCompletion(w http.ResponseWriter, r *http.Request, f *fields) *Fault {
	if !asksForScores(f) {
		return s.generate(w, r, f, s.withModel(needsText, s.readCompletions))
	}
	q := s.readScoreRequest(f)
	return s.answerInTurns(w, r, f, q.model, func(ctx context.Context,
		turn model.Turn) ([]byte, error) {
		q.options.Turn = turn
		return s.answerScores(ctx, q)
	})
}

// readScoreRequest reads the fields of a request for log-probabilities.
func (s *Server) readScoreRequest(f *fields) (q scoreRequest) {
	q.model = s.model(f, needsText)
	if q.model == nil {
		return q
	}
	f.flag("echo")
	f.accept("temperature") // it changes nothing
	q.top = f.integerOrNull("logprobs", 0, generate.MaxTop, 0)
	q.newTokens = f.integerOrNull("max_tokens", 0, 1, 0)
	q.answerFrom = f.integerOrNull("answer_from", 0, q.model.spec.Length(), 0)
	q.options.Method = f.text("method")
	passes := likelihood.PassesParam
	q.options.Passes = f.integerOrNull("passes", int(passes.Min), int(passes.Max), 0)
	q.options.Seed, _ = f.seed("seed")
	if q.options.Method == "" && q.answerFrom == 0 {
		q.options.Method = likelihood.LeftToRight // an answer may begin anywhere
	}
	f.requireNeutral("n", "1")
	f.requireNeutral("stream", "false")
	f.requireNeutral("stop", "[]")
	f.requireNeutralFields()
	q.prompts = readPrompts(f, "prompt", q.model, maxPrompts)
	if err := q.options.Check(); f.fault == nil && err != nil {
		f.fail(faultOf("method", err))
	}
	return q
}

// answerInTurns answers a request by passes of its own, which take their turns among the model's
// calls. answer waits for a turn before each pass.
func (s *Server) answerInTurns(w http.ResponseWriter, r *http.Request, f *fields, m *servedModel,
	answer func(ctx context.Context, turn model.Turn) ([]byte, error)) *Fault {
	fault := f.finish()
	f.release()
	if fault != nil {
		return fault
	}
	owner := keyName(r)
	began := s.now()
	leave, fault := s.enter(m, owner)
	if fault != nil {
		return fault
	}
	defer leave()

	// The work ends with the client, at the deadline, or when the server closes; which of them it was
	// decides the answer below.
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
		notesOf(r).clientGone = true
		return nil
	case s.ctx.Err() != nil:
		return shutdownFault()
	case ctx.Err() != nil:
		return passFault(engine.Deadline, 0, "the request took more than %.0f seconds",
			s.o.Timeout.Seconds())
	}
	_, isParam := errors.AsType[*param.Error](err)
	_, isFault := errors.AsType[*Fault](err)
	if isParam || isFault {
		return faultOf("prompt", err).renameParam(map[string]string{"answer": "prompt"})
	}
	return passFault(engine.StepFailed, 0, "%s", oneLine(err))
}

// enter counts one more of an owner's requests that make passes of their own, and returns what ends
// it, or why it cannot begin.
func (s *Server) enter(m *servedModel, owner string) (leave func(), f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, shutdownFault()
	}
	key := [2]string{m.name, owner}
	if n := s.passRequests[key]; n > s.o.Queue { // one of them runs, the others wait
		return nil, passFault(engine.QueueFull, 1, "%d requests wait, want at most %d", n-1,
			s.o.Queue)
	}
	s.passRequests[key]++
	s.running.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.passRequests[key]--
		if s.passRequests[key] == 0 {
			delete(s.passRequests, key)
		}
		s.running.Done()
	}, nil
}

// shutdownFault returns the fault of a request that the server is too late for.
func shutdownFault() *Fault {
	return passFault(engine.ShuttingDown, 5, "the server is shutting down")
}

// passFault returns the fault of a request that got no turn or did not end.
func passFault(kind engine.Kind, retry int, format string, args ...any) *Fault {
	return callFault(&engine.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Retry: retry})
}

// scoreInfo says how log-probabilities were measured.
type scoreInfo struct {
	// Method is "" for the model's own.
	Method string `json:"method"`
	Passes int    `json:"passes"`

	// Errors are the standard errors of each choice's sum.
	Errors []*float64 `json:"errors"`
}

// answerScores returns the answer to a request for log-probabilities.
func (s *Server) answerScores(ctx context.Context, q scoreRequest) ([]byte, error) {
	m := q.model
	list := choiceList[completionChoice]{ID: "cmpl-score", Object: "text_completion",
		Created: s.now().Unix(), Model: m.name, Fingerprint: m.fingerprint(), Usage: &usage{}}
	info := scoreInfo{Method: q.options.Method, Errors: []*float64{}}
	for i, prompt := range q.prompts {
		choice, estimate, err := q.scorePrompt(ctx, prompt, list.Usage)
		if err != nil {
			return nil, err
		}
		choice.Index = i
		list.Choices = append(list.Choices, choice)
		info.Passes += estimate.Passes
		info.Errors = append(info.Errors, jsonline.FiniteOrNil(estimate.Error))
	}
	list.Usage.Total = list.Usage.Prompt + list.Usage.Completion
	list.Unmask = info
	return encodeJSON(list), nil
}

// tokenScores are the tokens of a prompt with their log-probabilities. Its slices have one element
// for each token.
type tokenScores struct {
	ids []int32

	// logP is nil for tokens that were not scored.
	logP []*float64

	// best are the most probable tokens, and bestLogP their log-probabilities.
	best     []int32
	bestLogP []*float64
}

// scorePrompt measures a prompt's tokens, and adds their number to used.
func (q *scoreRequest) scorePrompt(ctx context.Context, prompt unmask.Request,
	used *usage) (choice completionChoice, estimate *likelihood.Estimate, err error) {
	spec := q.model.spec
	var empty unmask.Request // the prompt is scored as an answer to nothing
	if prompt.Tokens != nil {
		empty.Tokens = []int32{}
	}
	tokens, from, to, err := q.model.TokensWithAnswer(ctx, empty, prompt.Prompt, prompt.Tokens)
	if err != nil {
		return choice, nil, err
	}
	ids := slices.Clone(tokens[from:to])
	used.Prompt += len(ids)
	first := max(q.answerFrom, 0)
	if spec.Causal == model.NextToken && from+first == 0 {
		first = 1 // nothing predicts the first
	}
	if first >= len(ids) {
		return choice, nil, rangeFault("answer_from", q.answerFrom,
			fmt.Sprintf("0 to %d, the last token of the prompt", len(ids)-1))
	}
	if q.newTokens > 0 && to+len(spec.AfterText) >= spec.Length() {
		return choice, nil, fieldFault("context_length_exceeded", "prompt",
			"prompt leaves no position to fill, want a shorter one or max_tokens 0")
	}
	estimate, err = likelihood.Measure(ctx, q.model.Denoiser, tokens, from+first, to, q.options)
	if err != nil {
		return choice, nil, err
	}

	scores := tokenScores{
		ids:      ids,
		logP:     append(make([]*float64, first), jsonline.FinitesOrNil(estimate.LogP)...),
		best:     append(make([]int32, first), estimate.Best...),
		bestLogP: append(make([]*float64, first), jsonline.FinitesOrNil(estimate.BestLogP)...),
	}
	if q.newTokens > 0 {
		next, err := q.predictNext(ctx, tokens, to)
		if err != nil {
			return choice, nil, err
		}
		used.Completion++
		nextLogP := jsonline.FinitesOrNil(next.BestLogP)
		scores.ids = append(scores.ids, next.Best...)
		scores.logP = append(scores.logP, nextLogP...)
		scores.best = append(scores.best, next.Best...)
		scores.bestLogP = append(scores.bestLogP, nextLogP...)
	}
	return q.newChoice(scores), estimate, nil
}

// predictNext returns the estimate of the token at a position, after the prompt. Its Best is
// what the model predicts.
func (q *scoreRequest) predictNext(ctx context.Context, tokens []int32,
	position int) (*likelihood.Estimate, error) {
	spec := q.model.spec
	tokens = slices.Clone(tokens)
	if !spec.Fixed {
		tokens = slices.Insert(tokens, position, spec.Mask)
	}

	// Measure wants a token to score there. Any token will do that is not the mask.
	tokens[position] = 0
	if spec.Mask == 0 {
		tokens[position] = 1
	}
	return likelihood.Measure(ctx, q.model.Denoiser, tokens, position, position+1,
		likelihood.Options{Method: likelihood.LeftToRight, Turn: q.options.Turn})
}

// newChoice returns the choice of scored tokens.
func (q *scoreRequest) newChoice(scores tokenScores) completionChoice {
	pieces := q.model.Text.Pieces(scores.ids)
	logs := &logProbs{LogP: scores.logP}
	offset := 0
	for i, piece := range pieces {
		logs.Tokens = append(logs.Tokens, piece)
		logs.Offsets = append(logs.Offsets, offset)
		offset += len(piece)
		if q.top > 0 {
			logs.Top = append(logs.Top, q.topByText(scores, i))
		}
	}
	finish := "length"
	return completionChoice{Text: strings.Join(pieces, ""), LogProbs: logs, Finish: &finish}
}

// topByText returns token i and the most probable one in its place with their log-probabilities,
// by text, nil where neither is known. If both have one text, it has the most probable one's.
func (q *scoreRequest) topByText(scores tokenScores, i int) map[string]float64 {
	logP := scores.logP[i]
	bestLogP := scores.bestLogP[i]
	if logP == nil && bestLogP == nil {
		return nil
	}
	top := map[string]float64{}
	if logP != nil {
		top[q.tokenText(scores.ids[i])] = *logP
	}
	if bestLogP != nil {
		top[q.tokenText(scores.best[i])] = *bestLogP
	}
	return top
}

// tokenText returns a token's text.
func (q *scoreRequest) tokenText(id int32) string {
	text, _ := q.model.Text.Token(id)
	return validText(text)
}
