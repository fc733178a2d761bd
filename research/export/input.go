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

// hasTensor reports whether the file has a tensor.
func (in input) hasTensor(name string) bool {
	_, ok := in.Get(name)
	return ok
}

// readTensor returns a tensor with `dims` dimensions of a type that accepts takes and want names.
func (in input) readTensor(name string, dims int, want string,
	accepts func(weights.DType) bool) (*weights.Tensor, error) {
	t, ok := in.Get(name)
	if !ok {
		return nil, fmt.Errorf("%s: tensor %q is missing", in.file, name)
	}
	if !accepts(t.DType) || len(t.Shape) != dims {
		return nil, fmt.Errorf("%s: tensor %q is %s %v, want %s with %d dimensions", in.file, name,
			t.DType, t.Shape, want, dims)
	}
	return t, nil
}

// readInts reads an integer tensor with `dims` dimensions and returns its values and shape.
func (in input) readInts(name string, dims int) (values []int32, shape []int, err error) {
	isI64 := func(d weights.DType) bool { return d == weights.I64 }
	t, err := in.readTensor(name, dims, "I64", isI64)
	if err != nil {
		return nil, nil, err
	}
	wide, err := t.Int64s()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.file, err)
	}
	values = make([]int32, len(wide))
	for i, v := range wide {
		values[i] = int32(v)
		if int64(values[i]) != v {
			return nil, nil, fmt.Errorf("%s: tensor %q, element %d is %d, which is no token", in.file,
				name, i, v)
		}
	}
	return values, t.Shape, nil
}

// readFloats reads a tensor of numbers with `dims` dimensions and returns its values and shape.
func (in input) readFloats(name string, dims int) (values []float32, shape []int, err error) {
	t, err := in.readTensor(name, dims, "numbers", weights.DType.IsFloat)
	if err != nil {
		return nil, nil, err
	}
	values = make([]float32, t.Numel())
	return values, t.Shape, t.Float32s(values)
}

// readSequences reads tokens I64 [B,D] of a model with this Spec.
func (in input) readSequences(name string, spec model.Spec) (tokens []int32, shape []int,
	err error) {
	tokens, shape, err = in.readInts(name, 2)
	if err != nil {
		return nil, nil, err
	}
	length := shape[1]
	if length < 1 || length > spec.Length() || spec.Fixed && length != spec.Length() {
		return nil, nil, fmt.Errorf("%s: %s has shape %v, the model allows %d positions", in.file, name,
			shape, spec.Length())
	}
	return tokens, shape, in.checkTokens(name, tokens, length, spec)
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

// readRows reads positions below length, each at most once.
func (in input) readRows(name string, length int) ([]int32, error) {
	rows, _, err := in.readInts(name, 1)
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

// readPartialTokens reads partial_tokens I64 [size,length]: the tokens of a partial pass.
func (in input) readPartialTokens(size, length int) ([]int32, error) {
	tokens, shape, err := in.readInts("partial_tokens", 2)
	if err == nil && (shape[0] != size || shape[1] != length) {
		err = fmt.Errorf("%s: partial_tokens has shape %v, want [%d %d]", in.file, shape, size, length)
	}
	return tokens, err
}

// partialPasses returns the model's partial passes.
func (in input) partialPasses(d model.Denoiser) (model.Refiner, error) {
	r, ok := d.(model.Refiner)
	if !ok {
		return nil, fmt.Errorf("%s: partial_rows, but the model has no partial passes", in.file)
	}
	return r, nil
}
