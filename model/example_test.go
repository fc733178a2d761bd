package model_test

import (
	"fmt"

	"unmask/model"
)

// Marginals of a network that computes its logits itself: two positions, three tokens.
func ExampleDense() {
	d := &model.Dense{Columns: 3, Logits: []float32{
		0, 1, 5, // position 0
		2, 2, 2}} // position 1
	draw := model.Draw{Power: 1, Uniform: []float64{0.5, 0.5}, Token: make([]int32, 2),
		LogP: make([]float64, 2)}
	if err := d.Sample([]int32{0, 1}, &draw); err != nil {
		panic(err)
	}
	fmt.Printf("%d %.3f\n", draw.Token, draw.LogP)
	// Output: [2 1] [-0.025 -1.099]
}
