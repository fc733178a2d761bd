package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"unmask"
	"unmask/generate"
	"unmask/likelihood"
	"unmask/research/experiments"
	"unmask/samplers"
)

// task answers items with a model.
type task struct {
	model *unmask.Model
	items []Item
	base  unmask.Request // what the items leave out

	// choices are those that were measured, by item. They do not depend on a sampler, so each is
	// measured once for all points.
	choices map[int]choice
}

// choice is the measured answer to an item of kind choice.
type choice struct {
	index  int
	passes int
}

// New returns the task of a model of text: the samples of a point are the answers to items First to
// First+N-1. What an item leaves out is base's. The note is about what the model's chat template
// leaves out of the items.
func New(m *unmask.Model, items []Item, base unmask.Request) (experiments.Task, error) {
	if m.Text == nil {
		return experiments.Task{}, fmt.Errorf("model %s makes no text", m.Name)
	}
	t := &task{model: m, items: items, base: base, choices: map[int]choice{}}
	var messages [][]byte
	for _, it := range items {
		r, _, _ := it.Input.ApplyTo(base)
		messages = append(messages, r.Messages)
	}
	return experiments.Task{
		Kind:  "text",
		Model: m.Denoiser,
		Run:   t.answerPoint,
		Note:  m.TemplateNote(messages...),
	}, nil
}

// Digest returns a hash of items.
func Digest(items []Item, base unmask.Request) string {
	data, err := json.Marshal(struct {
		Items []Item
		Base  unmask.Request
	}{items, base})
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// PlanPoints returns the points of methods at numbers of steps, in parts of `chunk` items; a rule
// that takes no steps is measured once.
func PlanPoints(methods []experiments.Point, steps []int, items, chunk, batch int,
	seed uint64) (points []experiments.Point) {
	for _, p := range experiments.Cross(methods, steps) {
		p.Seed = seed
		for p.FirstIndex = 0; p.FirstIndex < items; p.FirstIndex += chunk {
			p.N = min(chunk, items-p.FirstIndex)
			p.Batch = min(batch, p.N)
			points = append(points, p)
		}
	}
	return points
}

// answerPoint answers the items of a point. It is the Run of an experiments.Task.
func (t *task) answerPoint(ctx context.Context, p experiments.Point,
	progress func(share float64) bool) (experiments.Result, error) {
	r := experiments.Result{Kind: "text", Point: p, Answers: make([]experiments.Answer, p.N)}
	report := func(answered float64) error {
		if progress != nil && !progress(answered/float64(p.N)) {
			return experiments.ErrStopped
		}
		return nil
	}

	var requests []generate.Request
	var requestItems []int // of each request, the index in r.Answers
	longest := 0
	answered := 0
	for i := range p.N {
		it := &t.items[p.FirstIndex+i]
		r.Answers[i] = experiments.Answer{ID: it.ID, Kind: it.Kind}
		if it.Kind == "choice" { // without a run
			if err := t.recordChoice(ctx, &r, i); err != nil {
				return r, fmt.Errorf("item %s: %w", it.ID, err)
			}
			answered++
			if err := report(float64(answered)); err != nil {
				return r, err
			}
			continue
		}
		q, err := t.prepareRequest(ctx, it, p)
		if err != nil {
			return r, fmt.Errorf("item %s: %w", it.ID, err)
		}
		q.Seed = p.Seed
		q.Index = uint32(p.FirstIndex + i)
		requests = append(requests, q)
		requestItems = append(requestItems, i)
		longest = max(longest, q.Length, q.MaxLength)
	}

	began := time.Now()
	pool := generate.PoolOptions{Size: p.Batch, Length: longest}
	for step, err := range generate.Each(ctx, t.model.Denoiser, pool, slices.Values(requests)) {
		if err != nil {
			return r, err
		}
		unfinished := 0.0 // shares of the sequences at work
		for _, s := range step.Sequences {
			if !s.Done {
				unfinished += float64(s.N) / float64(max(s.Steps, 1))
				continue
			}
			if err := t.recordAnswer(&r, requestItems[s.Number], requests[s.Number], s); err != nil {
				return r, err
			}
			answered++
		}
		if err := report(float64(answered) + unfinished); err != nil {
			return r, err
		}
	}
	if len(requests) > 0 {
		r.Seconds = []float64{time.Since(began).Seconds()}
	}

	n := float64(p.N)
	r.Passes /= n
	r.HeadRows /= n
	r.PartialRows /= n
	r.Metrics = experiments.AnswerMetrics(r.Answers)
	return r, nil
}

// recordAnswer notes the answer to item i of the point, and its passes, in r.
func (t *task) recordAnswer(r *experiments.Result, i int, q generate.Request,
	p generate.Progress) error {
	it := &t.items[r.FirstIndex+i]
	a := &r.Answers[i]
	a.Text, a.Tokens = t.readAnswer(it, q, p.Tokens)
	if it.Kind != "python" {
		isRight, err := it.IsRight(a.Text)
		if err != nil {
			return fmt.Errorf("item %s: %w", it.ID, err)
		}
		a.Right = new(isRight)
	}
	a.Passes = p.Work.Full
	r.Passes += float64(p.Work.Full)
	r.HeadRows += float64(p.Work.Head)
	r.PartialRows += float64(p.Work.Partial)
	return nil
}

// recordChoice notes the choice of item i of the point, and its passes, in r.
func (t *task) recordChoice(ctx context.Context, r *experiments.Result, i int) error {
	it := &t.items[r.FirstIndex+i]
	best, err := t.choose(ctx, r.FirstIndex+i, r.Seed)
	if err != nil {
		return err
	}
	right, _ := it.rightChoice()
	a := &r.Answers[i]
	a.Text = it.Choices[best.index]
	a.Right = new(best.index == right)
	a.Passes = best.passes
	r.Passes += float64(best.passes)
	return nil
}

// ProgramFiles returns the answers of kind python as files, by a name of the method, the number of
// steps and the item: they are not run here.
func ProgramFiles(results []experiments.Result) map[string][]byte {
	files := map[string][]byte{}
	for _, r := range results {
		for _, a := range r.Answers {
			if a.Kind == "python" {
				dir := fmt.Sprintf("%s-%d", fileName(r.Point.Name()), r.Steps)
				files[filepath.Join(dir, uniqueFileName(a.ID)+".py")] = []byte(a.Text + "\n")
			}
		}
	}
	return files
}

var unsafeChars = regexp.MustCompile(`[^A-Za-z0-9._=+-]+`)

// fileName returns a text as a name of a file.
func fileName(text string) string {
	return strings.Trim(unsafeChars.ReplaceAllString(text, "_"),
		"_.")
}

// uniqueFileName is fileName with a part of the text's hash where they differ, so that no other
// text has the same name.
func uniqueFileName(text string) string {
	name := fileName(text)
	name = name[:min(len(name), 100)]
	if name == text {
		return name
	}
	return fmt.Sprintf("%s-%x", name, sha256.Sum256([]byte(text)))[:len(name)+9]
}

// prepareRequest returns an item's request, with a point's sampler and steps: at most one for each
// masked position. The item's own parameters replace the point's.
func (t *task) prepareRequest(ctx context.Context, it *Item, p experiments.Point) (
	q generate.Request, err error) {
	recipe, err := p.Recipe()
	if err != nil {
		return q, err
	}
	base := t.base
	base.Overrides = generate.Overrides{}
	for _, row := range generate.Params() {
		if text := recipe.Get(row.Name); text != "" && row.Name != "steps" {
			base.Overrides[row.Name] = text
		}
	}
	r, err := it.requestOver(base)
	if err != nil {
		return q, err
	}
	if q, err = t.model.Prepare(ctx, r); err != nil {
		return q, err
	}
	if _, isSelfPaced := samplers.As[samplers.SelfPaced](q.Sampler); isSelfPaced {
		return q, nil
	}
	if r.Overrides["steps"] != "" {
		return q, nil
	}
	q.Steps = min(p.Steps, max(1, t.model.Spec().CountMasked(q.Known)))
	return q.Check(t.model.Denoiser)
}

// requestOver returns an item's request, with what it leaves out from base. Holes and a bound of
// the item's own replace the number of positions of base's answers.
func (it *Item) requestOver(base unmask.Request) (unmask.Request, error) {
	r, _, err := it.Input.ApplyTo(base)
	if r.Infill != "" || r.MaxTokens != 0 {
		r.Canvas = 0
	}
	return r, err
}

// readAnswer returns what was written: of an infill the whole text, otherwise what follows the
// prompt; and the number of its tokens with the one that ends it.
func (t *task) readAnswer(it *Item, q generate.Request, tokens []int32) (text string, n int) {
	r, _ := it.requestOver(t.base)
	answer := t.model.AnswerOf(&r, &q)
	if r.Infill != "" {
		return answer.Render(tokens).Text, t.model.Spec().CountMasked(q.Known)
	}
	answer.HidePrompt()
	rendered := answer.Render(tokens)
	end := answer.To + len(tokens) - len(q.Known) // an answer may have grown
	return rendered.Text, min(rendered.To+1, end) - answer.From
}

// choose returns the choice of the largest log-probability after the prompt.
func (t *task) choose(ctx context.Context, index int, seed uint64) (best choice, err error) {
	if c, ok := t.choices[index]; ok {
		return c, nil
	}
	it := &t.items[index]
	r, err := it.requestOver(t.base)
	if err != nil {
		return best, err
	}
	spec := t.model.Spec()
	r.Length = 0
	r.Canvas = 0
	if !spec.Fixed { // a choice brings its own positions
		r.MaxTokens = 1
	}
	q, err := t.model.Prepare(ctx, r)
	if err != nil {
		return best, err
	}
	begin := slices.Index(q.Known, spec.Mask)
	if begin < 0 {
		return best, fmt.Errorf("the prompt leaves no place for an answer")
	}

	largest := 0.0
	passes := 0
	for i, text := range it.Choices {
		ids, err := t.model.Text.Encode(text)
		if err != nil {
			return best, err
		}
		end := begin + len(ids)
		suffix := q.Known[begin+1:] // what follows the one masked position
		if spec.Fixed {             // what follows is unknown
			suffix = q.Known[min(end, len(q.Known)):]
		}
		tokens := slices.Concat(q.Known[:begin], ids, suffix)
		estimate, err := likelihood.Measure(ctx, t.model.Denoiser, tokens, begin, end,
			likelihood.Options{Seed: seed, Index: uint32(index)})
		if err != nil {
			return best, fmt.Errorf("choice %s: %w", strconv.Quote(text), err)
		}
		passes += estimate.Passes
		if i == 0 || estimate.LogProb > largest {
			best.index = i
			largest = estimate.LogProb
		}
	}
	best.passes = passes
	t.choices[index] = best
	return best, nil
}
