package inception

import (
	"context"
	"fmt"

	"unmask/backend"
	"unmask/media/images"
)

// groupSize is the number of images that go through the network at once: their four activations, of
// up to 147 x 147 x 64 values, take 22 MB each.
const groupSize = 8

// Features computes each image's pooled features [Width()], used by the Frechet distance, and its
// logits without the bias [Classes], used by the Inception Score. It passes them to visit one image
// at a time, in order; the slices are valid only during the call. An image's values do not depend
// on the others, and memory does not grow with their number.
func (m *Model) Features(ctx context.Context, list []*images.Image,
	visit func(i int, features, logits []float32) error) (err error) {
	defer backend.Recover(&err)
	for i, p := range list {
		if p.Width < 1 || p.Height < 1 || len(p.Pix) != 3*p.Width*p.Height {
			return fmt.Errorf("image %d: %d bytes for %d x %d pixels of 3", i, len(p.Pix), p.Width, p.Height)
		}
	}
	values := make([]float32, inputSide*inputSide*3)
	f := make([]float32, m.Width())
	logits := make([]float32, Classes)
	for first := 0; first < len(list); first += groupSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := list[first:min(first+groupSize, len(list))]
		m.work.prepare(m, len(part))
		for i, p := range part {
			resize(values, p)
			m.device.Write(m.work.x.data, i*inputSide*inputSide*3, values)
		}
		m.runPass()
		for i := range part {
			m.device.Read(f, m.work.features, i)
			m.device.Read(logits, m.work.logits, i)
			if err := visit(first+i, f, logits); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes room for a pass and an input of n images.
func (w *workspace) prepare(m *Model, n int) {
	if w.capacity < n {
		// The output of the second convolutions is the largest activation, except in a thin
		// network, where the input may be.
		size := n * max(inputSide*inputSide*3, 147*147*64/m.thin, 149*149*32/m.thin)
		w.x.data = m.device.New(size, 1)
		for i := range w.spare {
			w.spare[i] = m.device.New(size, 1)
		}
		w.features = m.device.New(n, m.Width())
		w.logits = m.device.New(n, Classes)
		w.capacity = n
	}
	w.batch = n
	w.x.height = inputSide
	w.x.width = inputSide
	w.x.channels = 3
}

// resize is TensorFlow 1's bilinear resize to 299 x 299 without aligned corners, in which pixel i
// is at i*size/299, followed by the map of bytes to -1..1, (v-128)/128. All in float32, as
// published.
func resize(dst []float32, p *images.Image) {
	xs := sampleAxis(p.Width)
	ys := sampleAxis(p.Height)
	for i, y := range ys {
		top := p.Pix[y.lo*p.Width*3:]
		low := p.Pix[y.hi*p.Width*3:]
		for j, x := range xs {
			for c := range 3 {
				a := float32(top[x.lo*3+c])
				b := float32(top[x.hi*3+c])
				d := float32(low[x.lo*3+c])
				e := float32(low[x.hi*3+c])
				t := a + float32((b-a)*x.weight)
				l := d + float32((e-d)*x.weight)
				dst[(i*inputSide+j)*3+c] = (t + float32((l-t)*y.weight) - 128) / 128
			}
		}
	}
}

// samplePoint is a point between pixels lo and hi.
type samplePoint struct {
	lo, hi int
	weight float32
}

// sampleAxis returns the two pixels of n that each pixel of the input lies between along one axis,
// and how far it is from the first. Pixel i lies at i*n/inputSide, without half pixels, as in
// TensorFlow 1.
func sampleAxis(n int) [inputSide]samplePoint {
	var taps [inputSide]samplePoint
	scale := float32(float64(n) / inputSide)
	for i := range taps {
		position := float32(i) * scale
		lo := min(int(position), n-1)
		taps[i] = samplePoint{lo, min(lo+1, n-1), position - float32(lo)}
	}
	return taps
}
