package export

import (
	"context"
	"fmt"
	"slices"

	"unmask/model"
	"unmask/weights"
)

// textGroups are the names of ids in the input, and the prefixes of their states in the output.
var textGroups = []struct{ ids, states string }{{"ids", "text"}, {"text_ids", "text"},
	{"null_ids", "null"}}

// WriteTextStates writes what a text encoder computes for the ids in a safetensors file to another.
// For ids or text_ids I64 [B,T] these are text_before_last F32 [B,T,W], the states before the last
// layer; text_last F32 [B,T,W], those after it and the last norm; and text_pooled F32 [B,P]. For
// null_ids they are null_before_last and so on. If cases.json beside the file has prompts,
// prompt_ids I64 [N,T] are their ids.
func WriteTextStates(ctx context.Context, e *TextEncoder, file, out string) error {
	in, err := openInput(file)
	if err != nil {
		return err
	}
	defer in.Close()
	var list []weights.Tensor
	for _, g := range textGroups {
		if !in.hasTensor(g.ids) {
			continue
		}
		ids, shape, err := in.readInts(g.ids, 2)
		if err != nil {
			return err
		}
		texts := slices.Collect(slices.Chunk(ids, max(shape[1], 1)))
		made, err := encodeInParts(ctx, e, texts)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", file, g.ids, err)
		}
		list = append(list, stateTensors(g.states, made, e)...)
	}
	if prompts := readCases(file).Prompts; len(prompts) > 0 {
		ids, err := encodePromptIDs(e, prompts)
		if err != nil {
			return fmt.Errorf("%s: prompts of cases.json: %w", file, err)
		}
		list = append(list, ids)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: there are neither ids, text_ids, null_ids nor prompts, want one of them",
			file)
	}
	return weights.WriteFile(out, list, nil)
}

// encodeInParts encodes texts a few at a time, so that working memory does not grow with the file.
func encodeInParts(ctx context.Context, e *TextEncoder,
	texts [][]int32) (prompts []*model.Prompt, err error) {
	const partSize = 16
	for part := range slices.Chunk(texts, partSize) {
		encoded, err := e.Encode(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, p := range encoded {
			numbers := slices.Concat(p.States, p.Final, p.Pooled)
			if err := model.CheckFinite("number", numbers); err != nil {
				return nil, err
			}
		}
		prompts = append(prompts, encoded...)
	}
	return prompts, nil
}

// stateTensors returns the states of prompts as tensors whose names begin with prefix.
func stateTensors(prefix string, prompts []*model.Prompt, e *TextEncoder) []weights.Tensor {
	var beforeLast, last, pooled []float32
	for _, p := range prompts {
		beforeLast = append(beforeLast, p.States...)
		last = append(last, p.Final...)
		pooled = append(pooled, p.Pooled...)
	}
	newTensor := func(name string, values []float32, shape ...int) weights.Tensor {
		return weights.Tensor{
			Name:  prefix + name,
			DType: weights.F32,
			Shape: shape,
			Data:  float32Bytes(values),
		}
	}
	c := e.Config()
	n := len(prompts)
	return []weights.Tensor{
		newTensor("_before_last", beforeLast, n, c.Rows, c.Hidden),
		newTensor("_last", last, n, c.Rows, c.Hidden),
		newTensor("_pooled", pooled, n, c.Pooled),
	}
}

// encodePromptIDs returns the ids of prompts, padded as their tokenizer does.
func encodePromptIDs(e *TextEncoder, prompts []string) (t weights.Tensor, err error) {
	tokenizer, err := e.Tokenizer()
	if err != nil {
		return t, err
	}
	rows := e.Config().Rows
	var joined []int32
	for _, prompt := range prompts {
		ids, _, err := tokenizer.Encode(prompt, rows, tokenizer.Pad())
		if err != nil {
			return t, err
		}
		joined = append(joined, ids...)
	}
	return newInt64Tensor("prompt_ids", joined, len(prompts), rows), nil
}
