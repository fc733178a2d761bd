package export

import (
	"fmt"
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
	file, tensor := name, ""
	set, err := weights.Open(file)
	if at := strings.LastIndexByte(name, ':'); err != nil && at > 0 {
		file, tensor = name[:at], name[at+1:]
		set, err = weights.Open(file)
	}
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, known := range promptTensors {
		if _, ok := set.Get(known); ok && tensor == "" {
			tensor = known
		}
	}
	if names := set.Names(); tensor == "" && len(names) == 1 {
		tensor = names[0]
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
	known, _, err := in.ints(tensor, len(t.Shape))
	if err == nil {
		err = in.checkTokens(tensor, known, max(len(known), 1), spec)
	}
	if err != nil {
		return nil, err
	}
	if length == 0 {
		length = len(known) + unmask.ReplyLength
		if b := spec.Block; b > 0 {
			length = (length + b - 1) / b * b
		}
		length = min(length, spec.Length())
	}
	switch {
	case length > spec.Length():
		return nil, fmt.Errorf("length is %d, want 1 to %d", length, spec.Length())
	case len(known) > length:
		return nil, fmt.Errorf("there are %d tokens, want at most %d", len(known), length)
	}
	for len(known) < length {
		known = append(known, spec.Mask)
	}
	return known, nil
}
