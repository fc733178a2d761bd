package judges

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"unmask/media/images"
	"unmask/research/experiments"
	"unmask/research/metrics"
)

// EvalText measures the lines of unmask text --json by a judge. With as, such as Judge.Retokenize
// returns, perplexity is as MDLM's code has it: of text in those tokens, the mean over tokens. With
// stories, contradictions are counted too, and it is an error if there can be none. each is that of
// ScoreLines.
func EvalText(ctx context.Context, judge *Judge, as *metrics.Retokenizer, stories bool,
	lines io.Reader, each func(judged int)) (experiments.Evaluation, error) {
	var e experiments.Evaluation
	scorer := &experiments.TextScorer{Judge: judge.Judge, Retokenize: as}
	if as == nil && judge.src != nil {
		begun := bufio.NewReaderSize(lines, 1<<20)
		head, _ := begun.Peek(1 << 20)
		if line, _, _ := bytes.Cut(head, []byte("\n")); len(line) > 0 {
			if err := judge.knows(line); err != nil {
				return e, fmt.Errorf("line 1: %w", err)
			}
		}
		lines = begun
	}
	n, short, err := ScoreLines(ctx, scorer, lines, func(text string, judged int) {
		if stories {
			scorer.AddStory(text)
		}
		if each != nil {
			each(judged)
		}
	})
	if err != nil {
		return e, err
	}
	if n == short && n > 0 {
		return e, errors.New("no sample has 2 tokens or more")
	}
	e.Samples, e.LeftOut = n-short, short
	e.Metrics, err = scorer.Metrics(ctx)
	if _, ok := e.Metrics["contradictions"]; err == nil && stories && !ok {
		err = errors.New("no story in which anything could contradict itself")
	}
	return e, err
}

// knows returns an error if a line's ids are not those of its text in the judge's vocabulary: a
// perplexity of them would say nothing. Tokens around the text, which it does not show, may differ.
func (j *Judge) knows(line []byte) error {
	const most = 16 // characters
	l, err := parseTextLine(line)
	own, _, none := j.src.StartTokenizer("gpt2")()
	if err != nil || none != nil {
		return nil // scoring says what is wrong with a line
	}
	ours, begin := own.Decode(l.IDs), []rune(strings.TrimSpace(l.Text))
	if !strings.Contains(ours, string(begin[:min(most, len(begin))])) {
		return fmt.Errorf("ids are of %.60q in the judge's vocabulary, and the text is %.60q: want a "+
			"judge with the model's vocabulary, or --mdlm to judge the text", ours, l.Text)
	}
	return nil
}

// shares returns an error if most tokens of a model's vocabulary are others in the judge's, which
// scores ids: a perplexity of them would say nothing.
func (j *Judge) shares(outcomes int, decode func(ids []int32) string) error {
	if j.src == nil {
		return nil // an exact model says which ids it does not know
	}
	own, _, err := j.src.StartTokenizer("gpt2")()
	var other []int32
	for id := int32(0); err == nil && int(id) < outcomes; id++ {
		if one := []int32{id}; own.Decode(one) != decode(one) {
			other = append(other, id)
		}
	}
	if 2*len(other) > outcomes {
		one := other[len(other)/2:][:1] // the first are often special
		return fmt.Errorf("judge: token %d is %q in the judge's vocabulary and %q in the model's, want a "+
			"judge with the model's vocabulary", one[0], own.Decode(one), decode(one))
	}
	return nil
}

// FolderOptions are the options of EvalFolder.
type FolderOptions struct {
	Reference bool   // compare with the reference; otherwise only Stats is written
	PerClass  bool   // also measure each class, see ClassReferences
	Stats     string // .npz file for mean and covariance of the features, "" for none

	// is called with the number of pictures after the reference was read; may be nil
	Begin func(pictures int)
	Each  func() // is called for each picture; may be nil
}

// EvalFolder measures the pictures of a folder with a network, against the reference of by. Without
// a reference it returns no metrics.
func EvalFolder(ctx context.Context, dir string, x experiments.Network, by Measure,
	o FolderOptions) (e experiments.Evaluation, err error) {
	files, err := images.List(dir)
	if err != nil {
		return e, err
	}
	var r *experiments.Reference
	var classes []string
	var each *ClassReferences
	if o.PerClass {
		if classes, err = PictureClasses(dir, files); err != nil {
			return e, err
		}
	}
	if err := checkPictures(ctx, x, dir, files); err != nil {
		return e, err
	}
	switch {
	case !o.Reference:
	case !o.PerClass:
		r, err = LoadReference(ctx, by, x)
	default:
		if each, err = LoadClassReferences(ctx, by, x, classes); err == nil {
			r = each.All
		}
	}
	if err != nil {
		return e, err
	}
	if o.Begin != nil {
		o.Begin(len(files))
	}
	e.Samples = len(files)
	scorer := experiments.NewImageScorer(x, r, len(files))
	err = metrics.EachFeature(ctx, x, files, func(i int, features, logits []float32) error {
		if o.Each != nil {
			o.Each()
		}
		if each != nil {
			if err := each.AddFeatures(classes[i], features); err != nil {
				return err
			}
		}
		return scorer.AddFeatures(features, logits)
	})
	var stats metrics.Gaussian
	if err == nil {
		stats, err = scorer.Gaussian()
	}
	if err == nil && r != nil {
		e.Metrics, err = scorer.Metrics(ctx)
	}
	if err == nil && each != nil {
		e.Classes, err = each.Metrics(ctx)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", dir, err)
	}
	if o.Stats != "" {
		err = metrics.SaveStats(o.Stats, stats)
	}
	return e, err
}
