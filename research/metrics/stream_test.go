package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/images"
	"unmask/research/metrics"
	"unmask/research/metrics/gpt2"
	"unmask/research/metrics/inception"
)

var (
	_ metrics.Judge     = (*gpt2.Model)(nil)
	_ metrics.Extractor = (*inception.Model)(nil)
)

// corner's only feature is an image's first byte.
type corner struct{ most int }

func (c *corner) Features(ctx context.Context, list []*images.Image,
	visit func(int, []float32, []float32) error) error {
	c.most = max(c.most, len(list))
	for i, p := range list {
		if err := visit(i, []float32{float32(p.Pix[0])}, nil); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func pictures(t *testing.T, n int) []string {
	dir := t.TempDir()
	for i := range n {
		p := image.NewGray(image.Rect(0, 0, 2, 2))
		p.SetGray(0, 0, color.Gray{uint8(i)})
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%03d.png", i)))
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, p))
		require.NoError(t, f.Close())
	}
	names, err := images.List(dir)
	require.NoError(t, err)
	return names
}

func TestEachFeature(t *testing.T) {
	names, x, next := pictures(t, 37), &corner{}, 0
	m := metrics.NewMoments(1)
	require.NoError(t, metrics.EachFeature(context.Background(), x, names,
		func(i int, features, _ []float32) error {
			require.Equal(t, next, i)
			require.Equal(t, []float32{float32(i)}, features)
			next++
			return m.Add(features)
		}))
	require.Equal(t, 37, next)
	require.LessOrEqual(t, x.most, 8, "images in memory")
	g, err := m.Gaussian()
	require.NoError(t, err)
	require.InDelta(t, 18, g.Mean[0], 1e-12)
	require.InDelta(t, 37*38/12.0, g.Covariance.At(0, 0), 1e-9) // of 0..n-1 with n-1: n(n+1)/12
}

func TestEachFeatureStops(t *testing.T) {
	names := pictures(t, 20)
	stop := errors.New("stop")
	none := func(int, []float32, []float32) error { return nil }
	require.ErrorIs(t, metrics.EachFeature(context.Background(), &corner{}, names,
		func(i int, _, _ []float32) error { return stop }), stop)
	require.NoError(t, os.WriteFile(names[12], []byte("\xff\xd8\xff"), 0o644))
	require.ErrorContains(t, metrics.EachFeature(context.Background(), &corner{}, names, none),
		"012.png: a damaged JPEG")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, metrics.EachFeature(ctx, &corner{}, names[:8], none), context.Canceled)
}
