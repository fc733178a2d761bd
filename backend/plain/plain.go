// Package plain is the reference device: each kernel of backend.Backend as a plain loop on one
// thread, with sums in float64 and results rounded to float32 once. It defines what each kernel
// computes; the tests of backend/backendtest compare every other device with it.
//
// It is exact, not fast. BF16 and Int8 products are emulated by rounding their factors.
package plain

import (
	"fmt"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Device is the reference device. gorgonia programs run on its default engine.
type Device struct {
	tensor.StdEng
	backend.HostCopies
}

// New returns a reference device.
func New() backend.Backend { return &Device{} }

// Name returns "plain".
func (d *Device) Name() string { return "plain" }

// New returns a zeroed float32 tensor.
func (d *Device) New(shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32), tensor.WithEngine(d))
}

// Gather computes dst[i] = src[from[i]].
func (d *Device) Gather(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("Gather", dst, src, from)
	for i, r := range from {
		copy(row(dst, i), row(src, int(r)))
	}
}

// AddRows computes dst[i] += src[from[i]].
func (d *Device) AddRows(dst, src *tensor.Dense, from []int32) {
	backend.CheckRows("AddRows", dst, src, from)
	for i, r := range from {
		y := row(dst, i)
		x := row(src, int(r))
		for j := range y {
			y[j] += x[j]
		}
	}
}

// AddScaled computes dst[i] += scale[i]*src[from[i]].
func (d *Device) AddScaled(dst, src *tensor.Dense, from []int32, scale []float32) {
	backend.CheckScaled(dst, src, from, scale)
	for i, r := range from {
		y := row(dst, i)
		x := row(src, int(r))
		for j := range y {
			y[j] = float32(float64(y[j]) + float64(scale[i])*float64(x[j]))
		}
	}
}

// row returns row i of t, of t's last dimension.
func row(t *tensor.Dense, i int) []float32 {
	w := backend.Width(t)
	return t.Float32s()[i*w : (i+1)*w]
}

// valueOr returns t[i], or `otherwise` if t is nil.
func valueOr(t *tensor.Dense, i int, otherwise float64) float64 {
	if t == nil {
		return otherwise
	}
	return float64(t.Float32s()[i])
}

// unknownValue is the panic of a kernel that does not know a value of an enumeration.
func unknownValue(kernel string, what any) string {
	return fmt.Sprintf("plain: %s: unknown %T %v", kernel, what, what)
}
