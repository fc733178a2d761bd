// Package decide answers typed questions by a masked model: yes or no, one of some options, a level
// of a scale. The options are letters in a prompt that ends in one mask, and their probabilities
// there are the answer, so a question takes one pass and several questions are rows of one batch.
// Laya's networks have a head for such questions instead (encoders.Laya).
//
// ScoreLabels is the engine: it works on any model.Denoiser. Ask makes prompts of questions, and
// Calibrate fits temperatures to questions with known answers.
package decide

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unmask/likelihood"
	"unmask/model"
)

// Query is a place in a sequence, and the labels that may stand there.
type Query struct {
	// Tokens are a sequence with one mask at Position. A label of several tokens takes further
	// masks: ScoreLabels puts them after the first one or, where the model has sequences of one
	// length only, they must be there already.
	Tokens   []int32
	Position int

	// Labels are the tokens of each label. All labels are different.
	Labels [][]int32
}

// LabelScores are a model's probabilities of a query's labels.
type LabelScores struct {
	// LogP are the log-probabilities of the labels in nats, among all that the model may write there.
	// Where a label of the query has several tokens, LogP is that of the chain rule from left to
	// right over as many masks (likelihood.Measure), and special tokens are among the outcomes too.
	LogP []float64

	// Passes counts the sequences that went through the model.
	Passes int
}

// Mass returns the probability of all labels together. Where labels have different lengths it is a
// sum over texts of different lengths and may exceed 1.
func (s *LabelScores) Mass() (sum float64) {
	for _, logP := range s.LogP {
		sum += math.Exp(logP)
	}
	return sum
}

// ScoreLabels returns the scores of the labels of each query. All labels of a query that are one
// token are read in one pass; others take a pass for each of their tokens. It takes the model's
// lock for one call of the model at a time. Numbers do not depend on what else is in the list. A
// query that does not fit the model is an error, and one of which no label is possible.
func ScoreLabels(ctx context.Context, d model.Denoiser, queries []Query,
	turn model.Turn) ([]LabelScores, error) {
	scores := make([]LabelScores, len(queries))

	// direct are the indexes of the queries that are read in one pass.
	var direct []int
	for i := range queries {
		scores[i].LogP = make([]float64, len(queries[i].Labels))
		singleTokens, err := queries[i].check(d.Spec())
		if err != nil {
			return nil, err
		}
		if singleTokens {
			scores[i].Passes = 1
			direct = append(direct, i)
			continue
		}
		if err := queries[i].scoreByChain(ctx, d, turn, &scores[i]); err != nil {
			return nil, err
		}
	}

	r := reader{d: d, turn: turn, queries: queries, scores: scores}
	if err := r.readQueries(ctx, direct); err != nil {
		return scores, err
	}
	for i := range scores {
		if !(scores[i].Mass() > 0) {
			return scores, fmt.Errorf("row %d: no label is possible", i)
		}
	}
	return scores, nil
}

// check returns an error for a query that has no answer. singleTokens reports whether one pass
// answers it: all its labels are one token, and the model predicts at the mask itself.
func (q *Query) check(spec model.Spec) (singleTokens bool, err error) {
	if q.Position < 0 || q.Position >= len(q.Tokens) || q.Tokens[q.Position] != spec.Mask {
		return false, fmt.Errorf("position %d of %d is not masked", q.Position, len(q.Tokens))
	}

	singleTokens = spec.Causal != model.NextToken
	for i, label := range q.Labels {
		repeated := slices.ContainsFunc(q.Labels[:i], func(earlier []int32) bool {
			return slices.Equal(earlier, label)
		})
		invalid := slices.ContainsFunc(label, func(t int32) bool {
			return t < 0 || int(t) >= spec.Outcomes || t == spec.Mask
		})
		end := q.Position + len(label)
		switch {
		case repeated || len(label) == 0:
			return false, fmt.Errorf("label %d is %v, want tokens that no other label has", i, label)
		case invalid:
			return false, fmt.Errorf("label %d is %v, want tokens of 0 to %d that are not the mask", i,
				label, spec.Outcomes-1)
		case spec.Fixed &&
			(end > len(q.Tokens) || spec.CountMasked(q.Tokens[q.Position:end]) < len(label)):
			return false, fmt.Errorf("label %d: %d tokens at position %d, want masks for all of them", i,
				len(label), q.Position)
		}
		singleTokens = singleTokens && len(label) == 1
	}
	return singleTokens, nil
}

// scoreByChain measures each label alone, by the chain rule over its tokens.
func (q *Query) scoreByChain(ctx context.Context, d model.Denoiser, turn model.Turn,
	scores *LabelScores) error {
	for i, label := range q.Labels {
		tokensAfter := q.Tokens[q.Position+1:]
		if d.Spec().Fixed {
			tokensAfter = q.Tokens[q.Position+len(label):]
		}
		tokens := slices.Concat(q.Tokens[:q.Position], label, tokensAfter)
		end := q.Position + len(label)
		estimate, err := likelihood.Measure(ctx, d, tokens, q.Position, end,
			likelihood.Options{Method: likelihood.LeftToRight, Turn: turn})
		if err != nil {
			return err
		}
		scores.LogP[i] = estimate.LogProb
		scores.Passes += estimate.Passes
	}
	return nil
}

// reader reads the labels of queries from passes of a model.
type reader struct {
	d       model.Denoiser
	turn    model.Turn
	queries []Query
	scores  []LabelScores
}

// readQueries scores the queries at indexes, whose labels are one token each.
func (r *reader) readQueries(ctx context.Context, indexes []int) error {
	if n := r.sharedPrefix(indexes); n > 0 {
		return r.readAfterPrefix(ctx, indexes, n)
	}

	tokens := make([][]int32, len(indexes))
	for i, index := range indexes {
		tokens[i] = r.queries[index].Tokens
	}
	return model.VisitGroups(r.d.Spec(), tokens, func(group []int) error {
		b := model.NewRaggedBatch(r.d.Spec(), model.Pick(tokens, group))
		members := model.Pick(indexes, group)
		for i, index := range members {
			b.ReadRows = append(b.ReadRows, int32(i*b.Length+r.queries[index].Position))
		}
		return r.readPass(ctx, b, nil, members)
	})
}

// readPass computes a batch, or only some of its rows, and scores the labels of the queries at
// indexes: row b.ReadRows[i] is the mask of the i-th of them. Without indexes it only fills the
// cache.
func (r *reader) readPass(ctx context.Context, b *model.Batch, rows []int32, indexes []int) error {
	release, err := r.turn.Acquire(ctx, r.d)
	if err != nil {
		return err
	}
	defer release()

	var marginals model.Marginals
	if rows == nil {
		marginals, err = r.d.Forward(ctx, b)
	} else {
		marginals, err = r.d.(model.Refiner).Refine(ctx, b, rows)
	}
	if err != nil || len(indexes) == 0 {
		return err
	}

	spec := r.d.Spec()
	return marginals.Visit(b.ReadRows, func(i int, logits []float32) {
		index := indexes[i]
		sum := likelihood.LogSum(logits[:spec.Outcomes], spec.Mask)
		for j, label := range r.queries[index].Labels {
			r.scores[index].LogP[j] = float64(logits[label[0]]) - sum
		}
	})
}

// passRows is about the number of rows that a pass over few of them costs beside its own: reading
// the weights takes as long for one row as for about so many.
const passRows = 32

// sharedPrefix returns how many positions all queries at indexes begin with that need no pass for
// each: equal tokens in whole blocks before those of the masks, which no later block changes. It is
// 0 if too few to be worth a pass of their own.
func (r *reader) sharedPrefix(indexes []int) int {
	_, refines := r.d.(model.Refiner)
	spec := r.d.Spec()
	if !refines || spec.Block == 0 || spec.Causal != model.NotCausal || len(indexes) < 2 {
		return 0
	}

	first := r.queries[indexes[0]].Tokens
	n := len(first)
	for _, index := range indexes {
		query := &r.queries[index]
		n = min(n, query.Position)
		for i := range n {
			if query.Tokens[i] != first[i] {
				n = i
				break
			}
		}
	}

	n = n / spec.Block * spec.Block
	if n*(len(indexes)-1) < passRows*len(indexes) {
		return 0
	}
	return n
}

// readAfterPrefix scores queries that begin with the same n tokens: it computes these once, and
// then what follows them in each query.
func (r *reader) readAfterPrefix(ctx context.Context, indexes []int, n int) error {
	longest := 0
	for _, index := range indexes {
		longest = max(longest, len(r.queries[index].Tokens))
	}
	cache := r.d.(model.Refiner).NewCache(1, longest)

	// refine computes the rows from firstRow on, with the keys and values of the earlier ones.
	refine := func(tokens []int32, firstRow, read int, indexes []int) error {
		b := model.NewRaggedBatch(r.d.Spec(), [][]int32{tokens})
		b.Cache = cache
		b.CacheReused = true
		b.ReadRows = []int32{int32(read)}
		var rows []int32
		for row := firstRow; row < len(tokens); row++ {
			rows = append(rows, int32(row))
		}
		return r.readPass(ctx, b, rows, indexes)
	}

	prefix := r.queries[indexes[0]].Tokens[:n]
	if err := refine(prefix, 0, n-1, nil); err != nil {
		return err
	}
	for i, index := range indexes {
		query := &r.queries[index]
		if err := refine(query.Tokens, n, query.Position, indexes[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}
