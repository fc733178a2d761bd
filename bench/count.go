package bench

import "unmask/backend"

// The arithmetic of the networks is computed from their sizes in model.Info. Norms, activations and
// softmax are not counted: a pass that spends no time on them has a share of 1, except with int8,
// whose attention has wider factors.

// passOps returns the operations of a pass over rows of a network's sequences.
func passOps(sizes map[string]int, rows int) float64 {
	h := float64(sizes["hidden"])
	if grid := sizes["grid"]; grid > 0 { // mage: every sequence has a class token
		keys := float64(grid*grid + 1)
		dec := float64(sizes["decoder hidden"])
		encoder := float64(sizes["depth"]) * (24*h*h + 4*keys*h)
		decoder := float64(sizes["decoder depth"]) * (24*dec*dec + 4*keys*dec)
		return float64(rows) * (encoder + 2*h*dec + decoder)
	}
	return float64(rows) * float64(sizes["blocks"]) *
		(2*blockWeights(sizes) + 4*float64(sizes["length"])*h)
}

// headOps returns the operations of the output head at rows.
func headOps(sizes map[string]int, rows int) float64 {
	h := float64(sizes["hidden"])
	if sizes["grid"] > 0 {
		return float64(rows) * 2 * h * float64(sizes["decoder hidden"]+sizes["codes"])
	}
	return float64(rows) * 2 * h * float64(sizes["vocabulary"])
}

// blockWeights returns the number of weights in the products of an sdtt block.
func blockWeights(sizes map[string]int) float64 {
	h := float64(sizes["hidden"])
	return 4*h*h + 2*h*float64(sizes["mlp"])
}

// weightBytes returns the bytes that a partial pass must read: the weights of all blocks.
func weightBytes(sizes map[string]int, p backend.Precision) float64 {
	return weightSize[p] * float64(sizes["blocks"]) * blockWeights(sizes)
}

// weightSize is the bytes of a weight.
var weightSize = map[backend.Precision]float64{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}
