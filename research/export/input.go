package export

import (
	"fmt"

	"unmask/model"
	"unmask/weights"
)

// input is an open safetensors file with what a model is to compute from. Its errors begin with the
// file's name.
type input struct {
	*weights.Set
	file string
}

// openInput opens a file; Close it.
func openInput(file string) (input, error) {
	set, err := weights.Open(file)
	return input{set, file}, err
}

// has reports whether the file has a tensor.
func (in input) has(name string) bool {
	_, ok := in.Get(name)
	return ok
}

// tensor returns a tensor with `dims` dimensions of a type, which want names.
func (in input) tensor(name string, dims int, want string, is func(weights.DType) bool) (
	*weights.Tensor, error) {
	t, ok := in.Get(name)
	if !ok {
		return nil, fmt.Errorf("%s: tensor %q is missing", in.file, name)
	}
	if !is(t.DType) || len(t.Shape) != dims {
		return nil, fmt.Errorf("%s: tensor %q is %s %v, want %s with %d dimensions", in.file, name,
			t.DType, t.Shape, want, dims)
	}
	return t, nil
}

// ints reads an integer tensor with `dims` dimensions and returns its values and shape.
func (in input) ints(name string, dims int) ([]int32, []int, error) {
	t, err := in.tensor(name, dims, "I64", func(d weights.DType) bool { return d == weights.I64 })
	if err != nil {
		return nil, nil, err
	}
	long, err := t.Int64s()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.file, err)
	}
	short := make([]int32, len(long))
	for i, v := range long {
		if short[i] = int32(v); int64(short[i]) != v {
			return nil, nil, fmt.Errorf("%s: tensor %q, element %d is %d, which is no token", in.file,
				name, i, v)
		}
	}
	return short, t.Shape, nil
}

// floats reads a tensor of numbers with `dims` dimensions and returns its values and shape.
func (in input) floats(name string, dims int) ([]float32, []int, error) {
	t, err := in.tensor(name, dims, "numbers", weights.DType.IsFloat)
	if err != nil {
		return nil, nil, err
	}
	v := make([]float32, t.Numel())
	return v, t.Shape, t.Float32s(v)
}

// sequences reads tokens I64 [B,D] of a model with this Spec.
func (in input) sequences(name string, spec model.Spec) (tokens []int32, shape []int, err error) {
	if tokens, shape, err = in.ints(name, 2); err != nil {
		return nil, nil, err
	}
	if n := shape[1]; n < 1 || n > spec.Length() || spec.Fixed && n != spec.Length() {
		return nil, nil, fmt.Errorf("%s: %s has shape %v, the model allows %d positions", in.file, name,
			shape, spec.Length())
	}
	return tokens, shape, in.checkTokens(name, tokens, shape[1], spec)
}

// checkTokens returns an error for tokens that the model does not know. tokens are sequences of
// `length`.
func (in input) checkTokens(name string, tokens []int32, length int, spec model.Spec) error {
	for i, t := range tokens {
		if t != spec.Mask && (t < 0 || int(t) >= spec.Outcomes) {
			return fmt.Errorf("%s: tensor %q: token %d of sequence %d is %d, want 0 to %d and the mask %d",
				in.file, name, i%length, i/length, t, spec.Outcomes-1, spec.Mask)
		}
	}
	return nil
}

// rows reads positions below length, each at most once.
func (in input) rows(name string, length int) ([]int32, error) {
	rows, _, err := in.ints(name, 1)
	if err != nil {
		return nil, err
	}
	seen := make([]bool, length)
	for i, row := range rows {
		if row < 0 || int(row) >= length || seen[row] {
			return nil, fmt.Errorf("%s: %s, element %d is %d, want 0 to %d, each once", in.file, name, i,
				row, length-1)
		}
		seen[row] = true
	}
	return rows, nil
}

// after reads partial_tokens I64 [size,length]: the tokens of a partial pass.
func (in input) after(size, length int) ([]int32, error) {
	tokens, shape, err := in.ints("partial_tokens", 2)
	if err == nil && (shape[0] != size || shape[1] != length) {
		err = fmt.Errorf("%s: partial_tokens has shape %v, want [%d %d]", in.file, shape, size, length)
	}
	return tokens, err
}

// refiner returns the model's partial passes.
func (in input) refiner(d model.Denoiser) (model.Refiner, error) {
	r, ok := d.(model.Refiner)
	if !ok {
		return nil, fmt.Errorf("%s: partial_rows, but the model has no partial passes", in.file)
	}
	return r, nil
}
