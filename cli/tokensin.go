package cli

import (
	"fmt"
	"strings"

	"unmask"
	"unmask/export"
	"unmask/weights"
)

// promptTensors are the names that the tokens of a prompt have in a file.
var promptTensors = []string{"tokens", "prompt"}

// tokensIn returns the tokens [length] of a run that continues those of a safetensors file, FILE or
// FILE:TENSOR. A length of 0 leaves as many as a reply has, up to the end of a block.
func tokensIn(m *unmask.Model, name string, length int) ([]int32, error) {
	file, tensor := name, ""
	set, err := weights.Open(file)
	if at := strings.LastIndexByte(name, ':'); err != nil && at > 0 {
		file, tensor = name[:at], name[at+1:]
		set, err = weights.Open(file)
	}
	if err != nil {
		return nil, usage("--tokens-in: %v", err)
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
		return nil, usage("--tokens-in: %s has no tensor %q, want %s, or %s:TENSOR", file, tensor,
			strings.Join(promptTensors, " or "), file)
	}
	if len(t.Shape) == 2 && t.Shape[0] != 1 {
		return nil, usage("--tokens-in: tensor %q has %d sequences, want 1", tensor, t.Shape[0])
	}
	known, err := export.Tokens(set, file, tensor, m.Spec())
	if err != nil {
		return nil, usage("--tokens-in: %v", err)
	}
	spec := m.Spec()
	if length == 0 {
		length = len(known) + unmask.ReplyLength
		if b := spec.Block; b > 0 {
			length = (length + b - 1) / b * b
		}
		length = min(length, spec.Length())
	}
	switch {
	case length > spec.Length():
		return nil, usage("--length: length is %d, want 1 to %d", length, spec.Length())
	case len(known) > length:
		return nil, usage("--tokens-in: there are %d tokens, want at most %d", len(known), length)
	}
	for len(known) < length {
		known = append(known, spec.Mask)
	}
	return known, nil
}

// checkTokensIn refuses other prompts beside --tokens-in.
func (f *textFlags) checkTokensIn() error {
	if f.tokensIn != "" && (f.prompt != "" || f.infill != "" || f.chat.asked()) {
		return fmt.Errorf("--tokens-in with another prompt, want one of them")
	}
	return nil
}
