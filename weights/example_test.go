package weights_test

import (
	"bytes"
	"fmt"

	"unmask/weights"
)

// A network has its checkpoint's names in tags. The constructor sets the shapes; a parameter
// without a shape does not exist in this variant.
type mlp struct {
	Layers []layer `weight:"layers"`
}

type layer struct {
	Weight weights.Param `weight:"weight"`
	Bias   weights.Param `weight:"bias"`
}

func Example() {
	network := &mlp{Layers: []layer{
		{Weight: weights.Param{Shape: []int{2, 1}}, Bias: weights.Param{Shape: []int{2}}},
		{Weight: weights.Param{Shape: []int{1, 2}}},
	}}
	half := weights.Tensor{DType: weights.BF16, Shape: []int{2, 1}, Data: []byte{0x80, 0x3f, 0, 0xc0}}
	first, bias, second := half, half, half
	first.Name = "net._orig_mod.layers.0.weight"
	bias.Name, bias.Shape = "net._orig_mod.layers.0.bias", []int{2}
	second.Name = "net._orig_mod.layers.1.weight"

	var file bytes.Buffer
	if err := weights.Write(&file, []weights.Tensor{first, bias, second}, nil); err != nil {
		panic(err)
	}
	set, err := weights.Parse(file.Bytes(), "model.safetensors")
	if err != nil {
		panic(err)
	}
	defer set.Close()
	o := weights.BindOptions{Anchor: "layers.0.weight"}
	fmt.Println(weights.Bind(network, set, o))

	network.Layers[1].Weight.Shape = []int{2, 1}
	fmt.Println(weights.Bind(network, set, o))
	values := make([]float32, 2)
	if err := network.Layers[0].Bias.Float32s(values); err != nil {
		panic(err)
	}
	fmt.Println(values)
	// Output:
	// weights do not fit the network: 1 misshaped: "layers.1.weight" is [2 1], want [1 2]
	// <nil>
	// [1 -2]
}
