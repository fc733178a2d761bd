package cpu_test

import (
	"fmt"
	"log"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"unmask/backend/cpu"
)

// A gorgonia graph, forward and backward through two layers, runs on this backend's kernels and
// gives the same numbers as the default engine.
func ExampleBackend_gorgonia() {
	loss, grad := perceptron(cpu.New(cpu.Options{}))
	wantLoss, wantGrad := perceptron(tensor.StdEng{})

	var apart float64
	for i, g := range grad {
		apart = max(apart, math.Abs(float64(g-wantGrad[i])))
	}
	fmt.Printf("loss %.4f, default engine %.4f\n", loss, wantLoss)
	fmt.Println("gradients agree:", apart < 1e-5)
	// Output:
	// loss 0.1924, default engine 0.1924
	// gradients agree: true
}

// perceptron returns the loss of a small network and the gradient of its first layer.
func perceptron(e tensor.Engine) (loss float32, grad []float32) {
	g := gorgonia.NewGraph()
	matrix := func(name string, rows, columns int) *gorgonia.Node {
		x := make([]float32, rows*columns)
		for i := range x {
			x[i] = float32(math.Sin(float64(i*i+rows))) / 3
		}
		v := tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(x), tensor.WithEngine(e))
		return gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(rows, columns),
			gorgonia.WithName(name), gorgonia.WithValue(v))
	}
	x, w1, w2 := matrix("x", 32, 24), matrix("w1", 24, 48), matrix("w2", 48, 8)
	hidden := gorgonia.Must(gorgonia.Tanh(gorgonia.Must(gorgonia.Mul(x, w1))))
	y := gorgonia.Must(gorgonia.Mul(hidden, w2))
	cost := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(y))))
	if _, err := gorgonia.Grad(cost, w1, w2); err != nil {
		log.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(w1, w2), gorgonia.WithEngine(e))
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		log.Fatal(err)
	}
	d, err := w1.Grad()
	if err != nil {
		log.Fatal(err)
	}
	return cost.Value().Data().(float32), d.Data().([]float32)
}
