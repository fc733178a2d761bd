package export

import (
	"unmask/model"
	"unmask/weights"
)

// Tokens reads the tensor `name` of a safetensors file, I64 with any number of dimensions, and
// checks that the model with this Spec knows the tokens.
func Tokens(set *weights.Set, file, name string, spec model.Spec) ([]int32, error) {
	in, dims := input{set, file}, 0
	if t, ok := set.Get(name); ok {
		dims = len(t.Shape)
	}
	tokens, _, err := in.ints(name, dims)
	if err != nil {
		return nil, err
	}
	return tokens, in.checkTokens(name, tokens, max(len(tokens), 1), spec)
}
