package model

import (
	"fmt"

	"unmask/weights"
)

// ConfigSizes compares the sizes in a config.json with those of the tensors, and keeps the first
// error.
type ConfigSizes struct {
	// Notes say where config.json has another size than the tensors.
	Notes []string

	// Err is the first error.
	Err error
}

// CompleteSize completes a size of a network that the tensors have, 0 if they do not show it, with
// the one that config.json has under a name, nil if it has none. The latter must be 1 to largest.
// If both are there and differ the tensors' stays, with a note.
func (c *ConfigSizes) CompleteSize(name string, configured *int, size *int, largest int) {
	switch {
	case c.Err != nil || configured == nil:
	case *configured < 1 || *configured > largest:
		c.Err = fmt.Errorf("config.json: %s is %d, want 1 to %d", name, *configured, largest)
	case *size == 0:
		*size = *configured
	case *size != *configured:
		c.Notes = append(c.Notes, fmt.Sprintf(
			"config.json says %s %d, the tensors %d: the tensors are right", name, *configured, *size))
	}
}

// TensorShape returns the shape of a tensor that must have `dims` dimensions, each at least 1. Any
// other tensor is an error, and a missing one.
func TensorShape(set *weights.Set, name string, dims int) ([]int, error) {
	t, ok := set.Get(name)
	if !ok || len(t.Shape) != dims {
		return nil, fmt.Errorf("tensor %q with %d dimensions is missing", name, dims)
	}
	for _, d := range t.Shape {
		if d < 1 {
			return nil, fmt.Errorf("tensor %q has shape %v, want sizes from 1 on", name, t.Shape)
		}
	}
	return t.Shape, nil
}
