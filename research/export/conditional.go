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

// readConditions reads the conditions in a tokens file: labels I64 [B] for a model of classes; for
// one of prompts text_before_last F32 [B,T,W] and text_pooled F32 [B,W], null_before_last and
// null_pooled for the empty prompt, and micro F32 [B,N] for further numbers. It returns nil if
// there are none.
func readConditions(in input, spec model.Spec, size int) (list []*model.Condition, err error) {
	switch {
	case spec.Classes > 0 && in.hasTensor("labels"):
		labels, _, err := in.readInts("labels", 1)
		if err != nil {
			return nil, err
		}
		for _, l := range labels {
			list = append(list, &model.Condition{Class: l})
		}
	case spec.Prompt && in.hasTensor("text_before_last"):
		if list, err = readPrompts(in); err != nil {
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

// readPrompts reads the prompts in a tokens file.
func readPrompts(in input) (list []*model.Condition, err error) {
	states, stateShape, err := in.readFloats("text_before_last", 3)
	if err != nil {
		return nil, err
	}
	pooled, pooledShape, err := in.readFloats("text_pooled", 2)
	if err != nil {
		return nil, err
	}
	sequences := stateShape[0]
	var micro []float32
	microShape := []int{sequences, 0}
	if in.hasTensor("micro") {
		if micro, microShape, err = in.readFloats("micro", 2); err != nil {
			return nil, err
		}
	}
	if pooledShape[0] != sequences || microShape[0] != sequences {
		return nil,
			fmt.Errorf("%s: texts of %d sequences, vectors of %d and numbers of %d, want the same",
				in.file, sequences, pooledShape[0], microShape[0])
	}
	var emptyStates, emptyPooled []float32 // of the empty prompt
	if in.hasTensor("null_before_last") {
		if emptyStates, _, err = in.readFloats("null_before_last", 3); err != nil {
			return nil, err
		}
		if emptyPooled, _, err = in.readFloats("null_pooled", 2); err != nil {
			return nil, err
		}
	}

	condition := func(i int, states, pooled []float32) *model.Condition {
		p := &model.Prompt{Rows: stateShape[1], Width: stateShape[2], States: states, Pooled: pooled}
		for _, v := range micro[i*microShape[1] : (i+1)*microShape[1]] {
			p.Numbers = append(p.Numbers, float64(v))
		}
		return &model.Condition{Prompt: p}
	}
	stateSize := stateShape[1] * stateShape[2]
	width := pooledShape[1]
	for i := range sequences {
		c := condition(i, states[i*stateSize:(i+1)*stateSize], pooled[i*width:(i+1)*width])
		if emptyStates != nil {
			c.Unconditional = condition(i, emptyStates, emptyPooled)
		}
		list = append(list, c)
	}
	return list, nil
}

// readGuidance returns w of the logits c + w(c-u) from cases.json beside a tokens file, where it is
// a number or words such as "c + 2.5 (c - u)" or "u + 2.5 (c - u)"; 0 if there is none. c are the
// logits with the condition, u those without.
func readGuidance(tokensFile string) float64 {
	raw := readCases(tokensFile).Guidance
	if raw == nil {
		return 0
	}
	var w float64
	var text string
	if json.Unmarshal(raw, &w) != nil && json.Unmarshal(raw, &text) == nil {
		var base rune
		if n, _ := fmt.Sscanf(text, "%c + %g (c - u)", &base, &w); n != 2 {
			return 0
		}
		if base == 'u' { // u + w(c-u) is c + (w-1)(c-u)
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

// readCases reads cases.json beside a file. Without one, or if it has another form, the result is
// empty: the file is a hint of the reference implementation, not an input.
func readCases(file string) (f caseFile) {
	dir := atomicfile.DirFS(filepath.Dir(file))
	data, err := model.ReadFile(dir, "cases.json", maxCases)
	if err != nil || json.Unmarshal(data, &f) != nil {
		return caseFile{}
	}
	return f
}

// maxCases is the largest cases.json in bytes.
const maxCases = 1 << 20

// conditionalStreams returns the streams of logits_cond, logits_uncond, logits_guided and, of
// partial_rows, those of partialConditionalStreams for which the tokens file has the inputs. Each
// takes one pass over the whole batch.
func (e *exporter) conditionalStreams(b *model.Batch) (streams []weights.Stream, err error) {
	add := func(name string, d model.Denoiser, b *model.Batch) {
		run := func() (model.Marginals, error) { return d.Forward(e.ctx, b) }
		rows := nn.RowRange(0, b.Size*b.Length)
		streams = append(streams, e.rowStream(name, []int{b.Size, b.Length}, 0, pass{rows, run}))
	}
	add("logits_cond", e.m.Denoiser, b)

	without := *b
	without.Conditions = make([]*model.Condition, b.Size)
	for i, c := range b.Conditions {
		without.Conditions[i] = c.Unconditional
	}

	// A model that draws from prompts cannot do without one: its file must have the empty prompt.
	if !e.m.Spec().Prompt || !slices.Contains(without.Conditions, nil) {
		add("logits_uncond", e.m.Denoiser, &without)
		if w := readGuidance(e.in.file); w != 0 {
			add("logits_guided", guide.New(e.m.Denoiser, func(model.Progress) float64 { return w }), b)
		}
	}

	if e.in.hasTensor("partial_rows") {
		partial, err := e.partialConditionalStreams(b)
		if err != nil {
			return nil, err
		}
		streams = append(streams, partial...)
	}
	return streams, nil
}

// partialConditionalStreams returns partial_logits_cond, of a full pass followed by a partial one
// at partial_rows of each sequence with partial_tokens in place; and partial_exact_logits_cond, of
// a full pass over partial_tokens.
func (e *exporter) partialConditionalStreams(b *model.Batch) ([]weights.Stream, error) {
	refiner, err := e.in.partialPasses(e.m.Denoiser)
	if err != nil {
		return nil, err
	}
	rows, err := e.in.readRows("partial_rows", b.Length)
	if err != nil {
		return nil, err
	}
	tokens, err := e.in.readPartialTokens(b.Size, b.Length)
	if err != nil {
		return nil, err
	}
	var batchRows []int32 // rows of all sequences
	for s := range b.Size {
		for _, row := range rows {
			batchRows = append(batchRows, int32(s*b.Length)+row)
		}
	}

	runPartial := func() (model.Marginals, error) {
		batch := *b
		batch.Cache = refiner.NewCache(b.Size, b.Length)
		if _, err := refiner.Forward(e.ctx, &batch); err != nil {
			return nil, err
		}
		batch.Tokens = tokens
		m, err := refiner.Refine(e.ctx, &batch, batchRows)
		if err != nil {
			return nil, fmt.Errorf("%s: partial_tokens: %w", e.in.file, err)
		}
		return m, nil
	}
	exact := *b
	exact.Tokens = tokens
	runExact := func() (model.Marginals, error) { return e.m.Forward(e.ctx, &exact) }
	shape := []int{b.Size, len(rows)}
	return []weights.Stream{
		e.rowStream("partial_logits_cond", shape, 0, pass{batchRows, runPartial}),
		e.rowStream("partial_exact_logits_cond", slices.Clone(shape), 0, pass{batchRows, runExact}),
	}, nil
}
