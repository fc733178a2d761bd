package picture

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/nn"
	"unmask/weights"
)

// Codebook turns latent vectors into codes and back.
type Codebook struct {
	Weight weights.Param `weight:"weight"` // [codes, width]

	// Unit normalises codes and latents to unit length, so that only directions are compared (Yu et
	// al. 2022, "Vector-quantized image modeling with improved VQGAN").
	Unit bool

	host  []float32     // [codes, width], where nearest codes are found
	table *tensor.Dense // [codes, width], where codes become latents
}

// NewCodebook returns a codebook without weights.
func NewCodebook(codes, width int) Codebook {
	return Codebook{Weight: weights.Param{Shape: []int{codes, width}}}
}

// Load copies the codes to the device; with Unit they have length 1.
func (c *Codebook) Load(l *nn.Loader) {
	c.host = l.Floats(&c.Weight)
	if c.Unit {
		for i := range c.Codes() {
			normalizeLength(c.host[i*c.Width() : (i+1)*c.Width()])
		}
	}
	c.table = l.Backend.New(c.Codes(), c.Width())
	l.Backend.Write(c.table, 0, c.host)
}

// normalizeLength divides x by its length, or by 1e-12 if that is larger, as torch's F.normalize
// does.
func normalizeLength(x []float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	length := max(math.Sqrt(sum), 1e-12)
	for i, v := range x {
		x[i] = float32(float64(v) / length)
	}
}

// Codes returns the number of codes.
func (c *Codebook) Codes() int { return c.Weight.Shape[0] }

// Width returns the number of values of a code.
func (c *Codebook) Width() int { return c.Weight.Shape[1] }

// Table returns the codes on the device, [codes, width].
func (c *Codebook) Table() *tensor.Dense { return c.table }

// Check returns an error for codes outside the codebook.
func (c *Codebook) Check(codes []int32) error {
	for i, x := range codes {
		if x < 0 || int(x) >= c.Codes() {
			return fmt.Errorf("code %d at position %d, want 0 to %d", x, i, c.Codes()-1)
		}
	}
	return nil
}

// FindNearest writes the nearest codes of latents [len(codes), width]. latents may be changed.
func (c *Codebook) FindNearest(codes []int32, latents []float32) {
	for i := range codes {
		z := latents[i*c.Width() : (i+1)*c.Width()]
		if c.Unit {
			normalizeLength(z)
		}
		codes[i] = c.nearestCode(z)
	}
}

// nearestCode returns the code with the least squared distance from latent [width], the lowest
// among equals. It sums squared differences in float64, because the expansion |z|^2 + |c|^2 - 2zc
// cancels.
func (c *Codebook) nearestCode(latent []float32) int32 {
	nearest := 0
	least := math.Inf(1)
	for i := range c.Codes() {
		distance := 0.0
		for j, w := range c.host[i*len(latent) : (i+1)*len(latent)] {
			difference := float64(latent[j]) - float64(w)
			distance += float64(difference * difference)
			if j&15 == 15 && distance >= least { // most codes are far away after a few numbers
				break
			}
		}
		if distance < least {
			nearest = i
			least = distance
		}
	}
	return int32(nearest)
}
