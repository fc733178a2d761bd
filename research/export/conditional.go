package export

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"unmask/guide"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"

	"unmask/internal/atomicfile"
)

// conditionsOf reads the conditions in a tokens file: labels I64 [B] for a model of classes; for
// one of prompts text_before_last F32 [B,T,W] and text_pooled F32 [B,W], null_before_last and
// null_pooled for the empty prompt, and micro F32 [B,N] for further numbers. It returns nil if
// there are none.
func conditionsOf(in input, spec model.Spec, size int) (list []*model.Condition, err error) {
	switch {
	case spec.Classes > 0 && in.has("labels"):
		labels, _, err := in.ints("labels", 1)
		if err != nil {
			return nil, err
		}
		for _, l := range labels {
			list = append(list, &model.Condition{Class: l})
		}
	case spec.Prompt && in.has("text_before_last"):
		if list, err = promptsOf(in); err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	if len(list) != size {
		return nil, fmt.Errorf("%s: %d conditions, want %d as there are sequences", in.file,
			len(list), size)
	}
	for i, c := range list {
		if err := spec.CheckCondition(c); err != nil {
			return nil, fmt.Errorf("%s: sequence %d: %w", in.file, i, err)
		}
	}
	return list, nil
}

// promptsOf reads the prompts in a tokens file.
func promptsOf(in input) (list []*model.Condition, err error) {
	states, shape, err := in.floats("text_before_last", 3)
	if err != nil {
		return nil, err
	}
	pooled, wide, err := in.floats("text_pooled", 2)
	if err != nil {
		return nil, err
	}
	var micro []float32
	numbers := []int{shape[0], 0}
	if in.has("micro") {
		if micro, numbers, err = in.floats("micro", 2); err != nil {
			return nil, err
		}
	}
	if wide[0] != shape[0] || numbers[0] != shape[0] {
		return nil, fmt.Errorf("%s: texts of %d sequences, vectors of %d and numbers of %d, want the same",
			in.file, shape[0], wide[0], numbers[0])
	}
	prompt := func(i int, states, pooled []float32) *model.Condition {
		p := &model.Prompt{Rows: shape[1], Width: shape[2], States: states, Pooled: pooled}
		for _, v := range micro[i*numbers[1] : (i+1)*numbers[1]] {
			p.Numbers = append(p.Numbers, float64(v))
		}
		return &model.Condition{Prompt: p}
	}
	var none, noneVector []float32
	if in.has("null_before_last") {
		if none, _, err = in.floats("null_before_last", 3); err != nil {
			return nil, err
		}
		if noneVector, _, err = in.floats("null_pooled", 2); err != nil {
			return nil, err
		}
	}
	each := shape[1] * shape[2]
	for i := range shape[0] {
		c := prompt(i, states[i*each:(i+1)*each], pooled[i*wide[1]:(i+1)*wide[1]])
		if none != nil {
			c.Unconditional = prompt(i, none, noneVector)
		}
		list = append(list, c)
	}
	return list, nil
}

// guidanceOf returns w of the logits c + w(c-u) from cases.json beside a tokens file, where it is a
// number or words such as "c + 2.5 (c - u)" or "u + 2.5 (c - u)"; 0 if there is none.
func guidanceOf(tokensFile string) float64 {
	f := casesOf(tokensFile)
	if f.Guidance == nil {
		return 0
	}
	var w float64
	var text string
	if json.Unmarshal(f.Guidance, &w) != nil && json.Unmarshal(f.Guidance, &text) == nil {
		var from rune
		if n, _ := fmt.Sscanf(text, "%c + %g (c - u)", &from, &w); n != 2 {
			return 0
		}
		if from == 'u' {
			w--
		}
	}
	if math.IsNaN(w) || math.Abs(w) > 1e3 {
		return 0
	}
	return w
}

// caseFile is the part of cases.json that is about a file beside it.
type caseFile struct {
	Guidance json.RawMessage `json:"guidance"`
	Prompts  []string        `json:"prompts"`
	Range    []float64       `json:"range"` // of colours: the least and the largest
}

// casesOf reads cases.json beside a file. Without one, or if it has another form, the result is
// empty.
func casesOf(file string) (f caseFile) {
	at := filepath.Dir(file)
	data, err := model.ReadFile(atomicfile.DirFS(at), "cases.json", maxCases)
	if err != nil || json.Unmarshal(data, &f) != nil {
		return caseFile{}
	}
	return f
}

// maxCases is the largest cases.json in bytes.
const maxCases = 1 << 20

// conditional returns the streams of logits_cond, logits_uncond, logits_guided and, of
// partial_rows, those of partialConditional for which the tokens file has the inputs. Each takes
// one pass over the whole batch.
func (e *exporter) conditional(b *model.Batch) (list []weights.Stream, err error) {
	add := func(name string, d model.Denoiser, b *model.Batch) {
		list = append(list, e.stream(name, []int{b.Size, b.Length}, 0, pass{
			nn.RowRange(0, b.Size*b.Length),
			func() (model.Marginals, error) { return d.Forward(e.ctx, b) }}))
	}
	add("logits_cond", e.m.Denoiser, b)
	without := *b
	without.Conditions = make([]*model.Condition, b.Size)
	for i, c := range b.Conditions {
		without.Conditions[i] = c.Unconditional
	}
	if !e.m.Spec().Prompt || !slices.Contains(without.Conditions, nil) {
		add("logits_uncond", e.m.Denoiser, &without)
		if w := guidanceOf(e.in.file); w != 0 {
			add("logits_guided", guide.New(e.m.Denoiser, func(model.Progress) float64 { return w }), b)
		}
	}
	if e.in.has("partial_rows") {
		both, err := e.partialConditional(b)
		if err != nil {
			return nil, err
		}
		list = append(list, both...)
	}
	return list, nil
}

// partialConditional returns partial_logits_cond, of a full pass followed by a partial one at
// partial_rows of each sequence with partial_tokens in place; and partial_exact_logits_cond, of a
// full pass over partial_tokens.
func (e *exporter) partialConditional(b *model.Batch) ([]weights.Stream, error) {
	refiner, err := e.in.refiner(e.m.Denoiser)
	if err != nil {
		return nil, err
	}
	rows, err := e.in.rows("partial_rows", b.Length)
	if err != nil {
		return nil, err
	}
	after, err := e.in.after(b.Size, b.Length)
	if err != nil {
		return nil, err
	}
	var at []int32
	for s := range b.Size {
		for _, r := range rows {
			at = append(at, int32(s*b.Length)+r)
		}
	}
	exact := *b
	exact.Tokens = after
	partial := func() (model.Marginals, error) {
		p := *b
		p.Cache = refiner.NewCache(b.Size, b.Length)
		if _, err := refiner.Forward(e.ctx, &p); err != nil {
			return nil, err
		}
		p.Tokens = after
		got, err := refiner.Refine(e.ctx, &p, at)
		if err != nil {
			return nil, fmt.Errorf("%s: partial_tokens: %w", e.in.file, err)
		}
		return got, nil
	}
	shape := []int{b.Size, len(rows)}
	return []weights.Stream{e.stream("partial_logits_cond", shape, 0, pass{at, partial}),
		e.stream("partial_exact_logits_cond", slices.Clone(shape), 0, pass{at,
			func() (model.Marginals, error) { return e.m.Forward(e.ctx, &exact) }})}, nil
}
