package experiments

import (
	"context"
	"fmt"
	"image"

	"unmask/media/images"
	"unmask/model"
	"unmask/research/metrics"
)

// Network turns images into features of a fixed width, such as inception.Model and vqgan.Model.
type Network interface {
	metrics.Extractor
	Width() int
}

// Pictures turns codes into an image, such as vqgan.Model.
type Pictures interface {
	Image(codes []int32) (*image.NRGBA, error)
}

// ImageTask returns the task of a model of images, whose samples p decodes and x compares with a
// reference.
func ImageTask(d model.Denoiser, p Pictures, x Network, r *Reference) Task {
	return Task{
		Kind:   "image",
		Model:  d,
		Scorer: func(n int) Scorer { return &codeScorer{p, NewImageScorer(x, r, n)} },
	}
}

// Reference describes the pictures that samples are compared with.
type Reference struct {
	Gaussian metrics.Gaussian
	Features [][]float32 // a sample of them, for precision and recall; may be empty
}

// maxFeatureValues is the most feature values kept for precision, recall and the error of the
// Frechet distance: 10,000 pictures with Inception's width.
const maxFeatureValues = 10_000 * 2048

// maxErrorWidth is the largest width for which the error of a Frechet distance is computed, because
// that takes Groups more distances.
const maxErrorWidth = 512

// NewReference builds a reference from a stream of features: each passes every picture's to add.
func NewReference(width int,
	visitFeatures func(add func(features []float32) error) error) (*Reference, error) {
	m := metrics.NewMoments(width)
	r := &Reference{}
	err := visitFeatures(func(f []float32) error {
		if (len(r.Features)+1)*width <= maxFeatureValues {
			r.Features = append(r.Features, append([]float32(nil), f...))
		}
		return m.Add(f)
	})
	if err != nil {
		return nil, err
	}
	r.Gaussian, err = m.Gaussian()
	return r, err
}

// ImageScorer judges images by: frechet, the Frechet distance to the reference; precision and
// recall of the first 10,000; and, if the network has logits, score, the Inception Score. One
// goroutine at a time may use one.
type ImageScorer struct {
	network   Network
	reference *Reference

	n        int
	moments  *metrics.Moments
	features [][]float32
	score    *metrics.InceptionScore
}

// NewImageScorer returns an empty scorer for n images.
func NewImageScorer(x Network, r *Reference, n int) *ImageScorer {
	return &ImageScorer{network: x, reference: r, n: n, moments: metrics.NewMoments(x.Width())}
}

// scoreSplits is the number of splits of the Inception Score, as in torch-fidelity.
const scoreSplits = 10

// AddFeatures counts one image; logits are nil where the network has none.
func (s *ImageScorer) AddFeatures(features, logits []float32) (err error) {
	if logits != nil && s.n >= scoreSplits {
		if s.score == nil {
			s.score, err = metrics.NewInceptionScore(len(logits), scoreSplits,
				metrics.Permutation(2020, s.n))
			if err != nil {
				return err
			}
		}
		if err := s.score.Add(logits); err != nil {
			return err
		}
	}
	if (len(s.features)+1)*len(features) <= maxFeatureValues {
		s.features = append(s.features, append([]float32(nil), features...))
	}
	return s.moments.Add(features)
}

// Gaussian returns the moments of the images so far.
func (s *ImageScorer) Gaussian() (metrics.Gaussian, error) { return s.moments.Gaussian() }

// neighbours is k of precision and recall, as in their paper.
const neighbours = 3

// Metrics returns the metrics of all images so far.
func (s *ImageScorer) Metrics(ctx context.Context) (Metrics, error) {
	g, err := s.moments.Gaussian()
	if err != nil {
		return nil, err
	}
	m := Metrics{}
	d, err := metrics.Frechet(g, s.reference.Gaussian)
	if err != nil {
		return nil, err
	}
	frechet := Measure{Value: d}
	hasAllFeatures := len(s.features) == s.moments.Count()
	if hasAllFeatures && s.network.Width() <= maxErrorWidth && len(s.features) >= 2*JackknifeGroups {
		frechet.LeaveOneOut, err = s.leaveOneOut(ctx)
		if err != nil {
			return nil, err
		}
	}
	m["frechet"] = frechet
	if real := s.reference.Features; len(real) > neighbours && len(s.features) > neighbours {
		n := min(len(real), len(s.features))
		precision, recall, err := metrics.PrecisionRecall(ctx, real[:n], s.features[:n], neighbours)
		if err != nil {
			return nil, err
		}
		m["precision"] = Measure{Value: precision}
		m["recall"] = Measure{Value: recall}
	}
	if s.score != nil { // the network has logits
		var score Measure
		score.Value, score.Deviation, err = s.score.Value()
		m["score"] = score
	}
	return m, err
}

// leaveOneOut returns the Frechet distance without each of the Groups parts of the images.
func (s *ImageScorer) leaveOneOut(ctx context.Context) ([]float64, error) {
	out := make([]float64, JackknifeGroups)
	for g := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := metrics.NewMoments(s.network.Width())
		for i, f := range s.features {
			if i%JackknifeGroups == g {
				continue
			}
			if err := m.Add(f); err != nil {
				return nil, err
			}
		}
		part, err := m.Gaussian()
		if err != nil {
			return nil, err
		}
		out[g], err = metrics.Frechet(part, s.reference.Gaussian)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// codeScorer decodes a model's codes for an ImageScorer.
type codeScorer struct {
	pictures Pictures
	*ImageScorer
}

// Add counts samples by their codes.
func (s *codeScorer) Add(ctx context.Context, tokens [][]int32) error {
	for _, codes := range tokens {
		p, err := s.pictures.Image(codes)
		if err != nil {
			return err
		}
		m := &images.Image{Width: p.Rect.Dx(), Height: p.Rect.Dy()}
		for i := 0; i < len(p.Pix); i += 4 {
			m.Pix = append(m.Pix, p.Pix[i:i+3]...)
		}
		err = s.network.Features(ctx, []*images.Image{m}, func(_ int, f, logits []float32) error {
			return s.AddFeatures(f, logits)
		})
		if err != nil {
			return fmt.Errorf("features: %w", err)
		}
	}
	return nil
}
