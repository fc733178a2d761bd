package export

import (
	"fmt"
	"slices"
	"strings"

	"unmask"
	"unmask/weights"
)

// promptTensors are the names for the tokens of a prompt in a file.
var promptTensors = []string{"tokens", "prompt"}

// ReadPrompt returns the tokens [length] of a run that continues those in a safetensors file. name
// is FILE, for its tensor tokens or prompt or its only one, or FILE:TENSOR. With a length of 0
// there are unmask.ReplyLength more tokens, up to the end of a block.
func ReadPrompt(m *unmask.Model, name string, length int) ([]int32, error) {
	file := name
	tensor := ""
	set, err := weights.Open(file)
	// A file's own name may have a colon, so it is tried whole first.
	if colon := strings.LastIndexByte(name, ':'); err != nil && colon > 0 {
		file = name[:colon]
		tensor = name[colon+1:]
		set, err = weights.Open(file)
	}
	if err != nil {
		return nil, err
	}
	defer set.Close()

	if tensor == "" {
		tensor = findPromptTensor(set)
	}
	t, ok := set.Get(tensor)
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q, want %s, or %s:TENSOR", file, tensor,
			strings.Join(promptTensors, " or "), file)
	}
	if len(t.Shape) == 2 && t.Shape[0] != 1 {
		return nil, fmt.Errorf("tensor %q has %d sequences, want 1", tensor, t.Shape[0])
	}
	spec := m.Spec()
	in := input{set, file}
	tokens, _, err := in.readInts(tensor, len(t.Shape))
	if err != nil {
		return nil, err
	}
	if err := in.checkTokens(tensor, tokens, max(len(tokens), 1), spec); err != nil {
		return nil, err
	}

	if length == 0 {
		length = len(tokens) + unmask.ReplyLength
		if block := spec.Block; block > 0 {
			length = (length + block - 1) / block * block
		}
		length = min(length, spec.Length())
	}
	if length > spec.Length() {
		return nil, fmt.Errorf("length is %d, want 1 to %d", length, spec.Length())
	}
	if len(tokens) > length {
		return nil, fmt.Errorf("there are %d tokens, want at most %d", len(tokens), length)
	}
	if len(tokens) == length {
		return tokens, nil
	}
	tail := spec.TailBehind(tokens)
	masks := length - len(tokens) - len(tail)
	if masks < 1 {
		return nil, fmt.Errorf("there are %d tokens, want at most %d, or %d", len(tokens),
			length-1-len(tail), length)
	}
	return slices.Concat(tokens, slices.Repeat([]int32{spec.Mask}, masks), tail), nil
}

// findPromptTensor returns the tensor of a file that has a prompt, "" if that is not clear.
func findPromptTensor(set *weights.Set) string {
	for _, name := range promptTensors {
		if _, ok := set.Get(name); ok {
			return name
		}
	}
	if names := set.Names(); len(names) == 1 {
		return names[0]
	}
	return ""
}
