package nn

import "math"

// Host is a small linear layer that runs on the host, with sums in float64.
type Host struct{ w, b []float32 }

// Host reads the weights of a layer.
func (l *Loader) Host(n *Linear) Host { return Host{l.Floats(&n.Weight), l.Floats(&n.Bias)} }

// Apply returns x W^T + b.
func (h Host) Apply(x []float32) []float32 {
	y := make([]float32, len(h.w)/len(x))
	for i := range y {
		sum := 0.0
		if h.b != nil {
			sum = float64(h.b[i])
		}
		for j, v := range h.w[i*len(x) : (i+1)*len(x)] {
			sum += float64(v) * float64(x[j])
		}
		y[i] = float32(sum)
	}
	return y
}

// SiLU replaces each x by x*sigmoid(x) and returns x.
func SiLU(x []float32) []float32 {
	for i, v := range x {
		x[i] = float32(float64(v) / (1 + math.Exp(-float64(v))))
	}
	return x
}

// Count returns n indexes of rows, from first on.
func Count(first, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(first + i)
	}
	return rows
}
