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

// EvalText measures the lines of unmask text --json by a judge. With a retokenizer, such as
// Judge.Retokenizer returns, perplexity is as MDLM's code has it: of text in those tokens, the mean
// over tokens. With stories, contradictions are counted too, and it is an error if there can be
// none. each is that of ScoreLines.
func EvalText(ctx context.Context, judge *Judge, retokenizer *metrics.Retokenizer, stories bool,
	lines io.Reader, each func(judged int)) (experiments.Evaluation, error) {
	var e experiments.Evaluation
	scorer := &experiments.TextScorer{Judge: judge.Judge, Retokenize: retokenizer}
	if retokenizer == nil && judge.src != nil {
		buffered := bufio.NewReaderSize(lines, 1<<20)
		head, _ := buffered.Peek(1 << 20)
		if line, _, _ := bytes.Cut(head, []byte("\n")); len(line) > 0 {
			if err := judge.checkLine(line); err != nil {
				return e, fmt.Errorf("line 1: %w", err)
			}
		}
		lines = buffered
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
	e.Samples = n - short
	e.LeftOut = short
	e.Metrics, err = scorer.Metrics(ctx)
	if err != nil {
		return e, err
	}
	if _, ok := e.Metrics["contradictions"]; stories && !ok {
		return e, errors.New("no story in which anything could contradict itself")
	}
	return e, nil
}

// checkLine returns an error if a line's ids are not those of its text in the judge's vocabulary: a
// perplexity of them would say nothing. Tokens around the text, which it does not show, may differ.
func (j *Judge) checkLine(line []byte) error {
	const compared = 16 // characters
	l, err := parseTextLine(line)
	if err != nil {
		return nil // scoring says what is wrong with a line
	}
	tokenizer, _, err := j.src.StartTokenizer("gpt2")()
	if err != nil {
		return nil
	}
	decoded := tokenizer.Decode(l.IDs)
	text := []rune(strings.TrimSpace(l.Text))
	if !strings.Contains(decoded, string(text[:min(compared, len(text))])) {
		return fmt.Errorf("ids are of %.60q in the judge's vocabulary, and the text is %.60q: want a "+
			"judge with the model's vocabulary, or --mdlm to judge the text", decoded, l.Text)
	}
	return nil
}

// checkVocabulary returns an error if most tokens of a model's vocabulary are others in the
// judge's, which scores ids: a perplexity of them would say nothing. A few may differ, such as
// special ones.
func (j *Judge) checkVocabulary(outcomes int, decode func(ids []int32) string) error {
	if j.src == nil {
		return nil // an exact model says which ids it does not know
	}
	tokenizer, _, err := j.src.StartTokenizer("gpt2")()
	if err != nil {
		return nil
	}
	var different []int32
	for id := range int32(outcomes) {
		ids := []int32{id}
		if tokenizer.Decode(ids) != decode(ids) {
			different = append(different, id)
		}
	}
	if 2*len(different) <= outcomes {
		return nil
	}
	example := different[len(different)/2:][:1] // the first are often special
	return fmt.Errorf("judge: token %d is %q in the judge's vocabulary and %q in the model's, want a "+
		"judge with the model's vocabulary", example[0], tokenizer.Decode(example), decode(example))
}

// FolderOptions are the options of EvalFolder.
type FolderOptions struct {
	Reference bool   // compare with the reference; otherwise only Stats is written
	PerClass  bool   // also measure each class, see ClassReferences
	Stats     string // .npz file for mean and covariance of the features, "" for none

	// Begin is called with the number of pictures after the reference was read; may be nil.
	Begin func(pictures int)

	// Each is called for each picture; may be nil.
	Each func()
}

// EvalFolder measures the pictures of a folder with a network, against the reference of measure.
// Without a reference it returns no metrics.
func EvalFolder(ctx context.Context, dir string, x experiments.Network, measure Measure,
	o FolderOptions) (e experiments.Evaluation, err error) {
	files, err := images.List(dir)
	if err != nil {
		return e, err
	}
	var classes []string
	if o.PerClass {
		if classes, err = PictureClasses(dir, files); err != nil {
			return e, err
		}
	}
	if err := checkPictures(ctx, x, dir, files); err != nil {
		return e, err
	}

	var reference *experiments.Reference
	var byClass *ClassReferences
	if o.Reference && o.PerClass {
		if byClass, err = LoadClassReferences(ctx, measure, x, classes); err != nil {
			return e, err
		}
		reference = byClass.All
	} else if o.Reference {
		if reference, err = LoadReference(ctx, measure, x); err != nil {
			return e, err
		}
	}
	if o.Begin != nil {
		o.Begin(len(files))
	}

	e.Samples = len(files)
	scorer := experiments.NewImageScorer(x, reference, len(files))
	err = metrics.EachFeature(ctx, x, files, func(i int, features, logits []float32) error {
		if o.Each != nil {
			o.Each()
		}
		if byClass != nil {
			if err := byClass.AddFeatures(classes[i], features); err != nil {
				return err
			}
		}
		return scorer.AddFeatures(features, logits)
	})
	var stats metrics.Gaussian
	if err == nil {
		stats, err = scorer.Gaussian()
	}
	if err == nil && reference != nil {
		e.Metrics, err = scorer.Metrics(ctx)
	}
	if err == nil && byClass != nil {
		e.Classes, err = byClass.Metrics(ctx)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", dir, err)
	}
	if o.Stats != "" {
		err = metrics.SaveStats(o.Stats, stats)
	}
	return e, err
}
