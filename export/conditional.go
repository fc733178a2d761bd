package export

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"unmask"
	"unmask/backend"
	"unmask/guide"
	"unmask/model"
	"unmask/weights"
)

// conditionsOf reads the conditions in a tokens file: labels I64 [B] for a model of classes; for
// one of prompts text_before_last F32 [B,T,W] and text_pooled F32 [B,W], null_before_last and
// null_pooled for the empty prompt, and micro F32 [B,N] for further numbers. It returns nil if
// there are none.
func conditionsOf(set *weights.Set, file string, spec model.Spec,
	size int) (list []*model.Condition, err error) {
	_, labelled := set.Get("labels")
	_, prompted := set.Get("text_before_last")
	switch {
	case spec.Classes > 0 && labelled:
		labels, _, err := ints(set, file, "labels", 1)
		if err != nil {
			return nil, err
		}
		for _, l := range labels {
			list = append(list, &model.Condition{Class: l})
		}
	case spec.Prompt && prompted:
		if list, err = promptsOf(set, file); err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	if len(list) != size {
		return nil, fmt.Errorf("%s: %d conditions, want %d as there are sequences", file, len(list), size)
	}
	for i, c := range list {
		if err := spec.CheckCondition(c); err != nil {
			return nil, fmt.Errorf("%s: sequence %d: %w", file, i, err)
		}
	}
	return list, nil
}

func promptsOf(set *weights.Set, file string) (list []*model.Condition, err error) {
	states, shape, err := floats(set, file, "text_before_last", 3)
	if err != nil {
		return nil, err
	}
	pooled, wide, err := floats(set, file, "text_pooled", 2)
	if err != nil {
		return nil, err
	}
	var micro []float32
	numbers := []int{shape[0], 0}
	if _, ok := set.Get("micro"); ok {
		if micro, numbers, err = floats(set, file, "micro", 2); err != nil {
			return nil, err
		}
	}
	if wide[0] != shape[0] || numbers[0] != shape[0] {
		return nil, fmt.Errorf("%s: texts of %d sequences, vectors of %d and numbers of %d, want the same", file, shape[0], wide[0], numbers[0])
	}
	prompt := func(i int, states, pooled []float32) *model.Condition {
		p := &model.Prompt{Rows: shape[1], Width: shape[2], States: states, Pooled: pooled}
		for _, v := range micro[i*numbers[1] : (i+1)*numbers[1]] {
			p.Numbers = append(p.Numbers, float64(v))
		}
		return &model.Condition{Prompt: p}
	}
	var none, noneVector []float32
	if _, ok := set.Get("null_before_last"); ok {
		if none, _, err = floats(set, file, "null_before_last", 3); err != nil {
			return nil, err
		}
		if noneVector, _, err = floats(set, file, "null_pooled", 2); err != nil {
			return nil, err
		}
	}
	each := shape[1] * shape[2]
	for i := range shape[0] {
		c := prompt(i, states[i*each:(i+1)*each], pooled[i*wide[1]:(i+1)*wide[1]])
		if none != nil {
			c.Without = prompt(i, none, noneVector)
		}
		list = append(list, c)
	}
	return list, nil
}

// floats reads a tensor of numbers with `dims` dimensions.
func floats(set *weights.Set, file, name string, dims int) ([]float32, []int, error) {
	t, ok := set.Get(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s: tensor %q is missing", file, name)
	}
	if !t.DType.IsFloat() || len(t.Shape) != dims {
		return nil, nil, fmt.Errorf("%s: tensor %q is %s %v, want numbers with %d dimensions", file, name,
			t.DType, t.Shape, dims)
	}
	v := make([]float32, t.Numel())
	return v, t.Shape, t.Float32s(v)
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
	data, err := model.ReadFile(os.DirFS(at), "cases.json", maxCases)
	if err != nil || json.Unmarshal(data, &f) != nil {
		return caseFile{}
	}
	return f
}

// maxCases is the largest cases.json in bytes.
const maxCases = 1 << 20

// maxConditional is the most numbers held in memory at once.
const maxConditional = 1 << 28

// writeConditional writes those of logits_cond, logits_uncond, logits_guided and
// partial_logits_cond for which the tokens file has the inputs.
func writeConditional(ctx context.Context, m *unmask.Model, set *weights.Set, file, out string,
	b *model.Batch, seen []weights.Tensor) (err error) {
	defer backend.Recover(&err)
	columns, err := conditionalColumns(ctx, m, b)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(b.Tokens) > maxConditional/columns {
		return fmt.Errorf("%s: %d positions of %d logits, want at most %d in all", file, len(b.Tokens),
			columns, maxConditional)
	}
	var list []weights.Tensor
	add := func(name string, d model.Denoiser, b *model.Batch) error {
		got, err := d.Forward(ctx, b)
		if err != nil {
			return err
		}
		t, err := logitsTensor(name, got, numbers(b.Size*b.Length), []int{b.Size, b.Length, columns})
		list = append(list, t)
		return err
	}
	if err := add("logits_cond", m.Denoiser, b); err != nil {
		return err
	}
	without := *b
	without.Conditions = make([]*model.Condition, b.Size)
	for i, c := range b.Conditions {
		without.Conditions[i] = c.Without
	}
	if !m.Spec().Prompt || !slices.Contains(without.Conditions, nil) {
		if err := add("logits_uncond", m.Denoiser, &without); err != nil {
			return err
		}
		if w := guidanceOf(file); w != 0 {
			guided := guide.New(m.Denoiser, func(model.Progress) float64 { return w })
			if err := add("logits_guided", guided, b); err != nil {
				return err
			}
		}
	}
	if _, ok := set.Get("partial_rows"); ok {
		both, err := partialConditional(ctx, m, set, file, b, columns)
		if err != nil {
			return err
		}
		list = append(list, both...)
	}
	return weights.WriteFile(out, append(list, seen...), nil)
}

// partialConditional returns partial_logits_cond, of a full pass followed by a partial one at
// partial_rows of each sequence with partial_tokens in place; and partial_exact_logits_cond, of a
// full pass over partial_tokens.
func partialConditional(ctx context.Context, m *unmask.Model, set *weights.Set, file string,
	b *model.Batch, columns int) (t []weights.Tensor, err error) {
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return t, fmt.Errorf("%s: partial_rows, but the model has no partial passes", file)
	}
	rows, _, err := ints(set, file, "partial_rows", 1)
	if err != nil {
		return t, err
	}
	after, shape, err := ints(set, file, "partial_tokens", 2)
	if err != nil {
		return t, err
	}
	if shape[0] != b.Size || shape[1] != b.Length {
		return t, fmt.Errorf("%s: partial_tokens has shape %v, want [%d %d]", file, shape, b.Size,
			b.Length)
	}
	seen := make([]bool, b.Length)
	var at []int32
	for i, r := range rows {
		if r < 0 || int(r) >= b.Length || seen[r] {
			return t, fmt.Errorf("%s: partial_rows, element %d is %d, want 0 to %d, each once", file, i, r,
				b.Length-1)
		}
		seen[r] = true
	}
	for s := range b.Size {
		for _, r := range rows {
			at = append(at, int32(s*b.Length)+r)
		}
	}
	p := *b
	p.Cache = refiner.NewCache(b.Size, b.Length)
	if _, err := refiner.Forward(ctx, &p); err != nil {
		return t, err
	}
	p.Tokens = after
	got, err := refiner.Refine(ctx, &p, at)
	if err != nil {
		return t, fmt.Errorf("%s: partial_tokens: %w", file, err)
	}
	values := []int{b.Size, len(rows), columns}
	partial, err := logitsTensor("partial_logits_cond", got, at, values)
	if err != nil {
		return nil, err
	}
	p.Cache = nil
	if got, err = m.Forward(ctx, &p); err != nil {
		return nil, err
	}
	exact, err := logitsTensor("partial_exact_logits_cond", got, at, values)
	return []weights.Tensor{partial, exact}, err
}

// logitsTensor reads the logits of rows.
func logitsTensor(name string, m model.Marginals, rows []int32, shape []int) (t weights.Tensor,
	err error) {
	columns := shape[2]
	values := make([]float32, len(rows)*columns)
	if err := m.Visit(rows, func(i int,
		l []float32) {
		copy(values[i*columns:(i+1)*columns], l)
	}); err != nil {
		return t, err
	}
	return weights.Tensor{Name: name, DType: weights.F32, Shape: shape, Data: littleEndian(values)},
		nil
}

func numbers(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// conditionalColumns returns the number of logits of a position, found from the first sequence.
func conditionalColumns(ctx context.Context, m *unmask.Model, b *model.Batch) (n int, err error) {
	if len(b.Tokens) == 0 {
		return 0, fmt.Errorf("tokens is empty")
	}
	got, err := m.Forward(ctx,
		&model.Batch{Size: 1, Length: b.Length, Tokens: b.Tokens[:b.Length],
			Conditions: b.Conditions[:1]})
	if err != nil {
		return 0, err
	}
	err = got.Visit([]int32{0}, func(_ int, logits []float32) { n = len(logits) })
	return n, err
}

// littleEndian returns the bytes of values as safetensors has them.
func littleEndian(values []float32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}
