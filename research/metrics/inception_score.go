package metrics

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext/prng"

	"unmask/model"
)

// Permutation returns numpy.random.RandomState(seed).permutation(n). It uses the MT19937 generator
// and a Fisher-Yates shuffle from the last element down; each index is drawn by rejection from the
// fewest sufficient low bits (numpy's legacy generator, which is frozen).
func Permutation(seed uint32, n int) []int {
	r := prng.NewMT19937()
	r.Seed(uint64(seed))
	p := model.Indexes(0, n)
	mask := uint32(0)
	for top := uint32(max(n-1, 0)); top > 0; top >>= 1 {
		mask = mask<<1 | 1
	}
	for i := n - 1; i > 0; i-- {
		for mask>>1 >= uint32(i) {
			mask >>= 1
		}
		j := r.Uint32() & mask
		for j > uint32(i) {
			j = r.Uint32() & mask
		}
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// InceptionScore computes exp E_x KL(p(y|x) || p(y)) (Salimans et al. 2016) over a stream of a
// known number of images. Memory does not grow with the stream except for two bytes per image,
// because the mean KL is mean_x sum_y p log p - sum_y q log q, where q is the mean of p. One
// goroutine at a time may use one.
type InceptionScore struct {
	classes int
	split   []uint16 // of each image
	next    int      // image that Add counts next

	// count, sum and plogp are those of each split: images, sums of p, and sums of p log p.
	count []int
	sum   [][]float64
	plogp []float64

	p []float64 // [classes], of the current image
}

// NewInceptionScore returns an empty score for n images in splits of equal sizes: order has the
// images of each, one after the other, such as Permutation(2020, n), which is torch-fidelity's.
func NewInceptionScore(classes, splits int, order []int) (*InceptionScore, error) {
	n := len(order)
	if splits < 1 || splits > math.MaxUint16 || n < splits {
		return nil, fmt.Errorf("%d images in %d splits, want an image or more in each of 1 to %d", n,
			splits, math.MaxUint16)
	}
	s := &InceptionScore{
		split:   make([]uint16, n),
		classes: classes,
		count:   make([]int, splits),
		sum:     make([][]float64, splits),
		plogp:   make([]float64, splits),
		p:       make([]float64, classes),
	}
	for k := range splits {
		s.sum[k] = make([]float64, classes)
		for _, index := range order[k*n/splits : (k+1)*n/splits] {
			s.split[index] = uint16(k)
		}
	}
	return s, nil
}

// Add counts the next image, given its logits.
func (s *InceptionScore) Add(logits []float32) error {
	if s.next == len(s.split) {
		return fmt.Errorf("more than the %d images that were announced", len(s.split))
	}
	if len(logits) != s.classes {
		return fmt.Errorf("image %d has %d logits, the others %d", s.next, len(logits), s.classes)
	}
	top := math.Inf(-1)
	for i, v := range logits {
		if v-v != 0 {
			return fmt.Errorf("logit %d of image %d is %v, want a finite number", i, s.next, v)
		}
		top = max(top, float64(v))
	}
	var sum float64
	for i, v := range logits {
		s.p[i] = math.Exp(float64(v) - top)
		sum += s.p[i]
	}
	k := s.split[s.next]
	logSum := math.Log(sum)
	for i, v := range logits {
		p := s.p[i] / sum
		s.sum[k][i] += p
		s.plogp[k] += p * (float64(v) - top - logSum)
	}
	s.count[k]++
	s.next++
	return nil
}

// Value returns mean and standard deviation over the splits (divided by N, as in torch-fidelity),
// after all images were counted.
func (s *InceptionScore) Value() (mean, deviation float64, err error) {
	if s.next != len(s.split) {
		return 0, 0, fmt.Errorf("%d images of the %d that were announced", s.next, len(s.split))
	}
	scores := make([]float64, len(s.count))
	for k, n := range s.count {
		kl := s.plogp[k] / float64(n)
		for _, v := range s.sum[k] {
			if q := v / float64(n); q > 0 { // 0 log 0 = 0
				kl -= q * math.Log(q)
			}
		}
		scores[k] = math.Exp(kl)
		mean += scores[k]
	}
	mean /= float64(len(scores))
	for _, v := range scores {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(scores))), nil
}
