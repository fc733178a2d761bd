package judges

import (
	"context"
	"errors"
	"io"

	"unmask/experiments"
	"unmask/metrics"
)

// EvalText measures the lines of unmask text --json by a judge. With as, such as Judge.Retokenize
// returns, perplexity is as MDLM's code has it: of text in those tokens, the mean over tokens. each
// is that of ScoreLines.
func EvalText(ctx context.Context, judge *Judge, as *metrics.Retokenize, lines io.Reader,
	each func(text string, judged int)) (experiments.Evaluation, error) {
	var e experiments.Evaluation
	scorer := &experiments.TextScorer{Judge: judge.Judge, Retokenize: as}
	n, short, err := ScoreLines(ctx, scorer, lines, each)
	if err != nil {
		return e, err
	}
	if n == short && n > 0 {
		return e, errors.New("no sample has 2 tokens or more")
	}
	e.Samples, e.LeftOut = n-short, short
	e.Metrics, err = scorer.Metrics(ctx)
	return e, err
}

// EvalPictures measures picture files against a reference; r of nil leaves it at the statistics of
// their features, which it returns too. each, which may be nil, sees the features of each picture.
func EvalPictures(ctx context.Context, x experiments.Network, r *experiments.Reference,
	files []string, each func(i int, features []float32) error) (e experiments.Evaluation,
	stats metrics.Gaussian, err error) {
	e.Samples = len(files)
	scorer := experiments.NewImageScorer(x, r, len(files))
	err = metrics.EachFeature(ctx, x, files, func(i int, features, logits []float32) error {
		if each != nil {
			if err := each(i, features); err != nil {
				return err
			}
		}
		return scorer.AddFeatures(features, logits)
	})
	if err != nil {
		return e, stats, err
	}
	if stats, err = scorer.Gaussian(); err == nil && r != nil {
		e.Metrics, err = scorer.Metrics(ctx)
	}
	return e, stats, err
}
