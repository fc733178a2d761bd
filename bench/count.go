package bench

import "unmask/backend"

// Arithmetic of the networks, from their sizes as model.Info has them. Norms, activations and
// softmax are not counted: a pass that spends nothing on them has a share of 1, except for int8's,
// whose attention is of wider factors.

// passOps returns a pass over rows of sequences of a network.
func passOps(sizes map[string]int, rows int) float64 {
	h := float64(sizes["hidden"])
	if grid := sizes["grid"]; grid > 0 { // mage: every sequence has a class token
		keys, dec := float64(grid*grid+1), float64(sizes["decoder hidden"])
		return float64(rows) * (float64(sizes["depth"])*(24*h*h+4*keys*h) + 2*h*dec +
			float64(sizes["decoder depth"])*(24*dec*dec+4*keys*dec))
	}
	return float64(rows) * float64(sizes["blocks"]) *
		(2*blockWeights(sizes) + 4*float64(sizes["length"])*h)
}

// headOps returns the output head at rows.
func headOps(sizes map[string]int, rows int) float64 {
	h := float64(sizes["hidden"])
	if sizes["grid"] > 0 {
		return float64(rows) * 2 * h * float64(sizes["decoder hidden"]+sizes["codes"])
	}
	return float64(rows) * 2 * h * float64(sizes["vocabulary"])
}

// blockWeights returns how many weights a block of an sdtt multiplies with.
func blockWeights(sizes map[string]int) float64 {
	h := float64(sizes["hidden"])
	return 4*h*h + 2*h*float64(sizes["mlp"])
}

// weightBytes returns the memory that a partial pass must read: all blocks' weights.
func weightBytes(sizes map[string]int, p backend.Precision) float64 {
	size := map[backend.Precision]float64{backend.F32: 4, backend.BF16: 2, backend.Int8: 1}[p]
	return size * float64(sizes["blocks"]) * blockWeights(sizes)
}
