package vqgan_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/codecs/vqgan"
	"unmask/media/images"
	"unmask/model"
	"unmask/testkit/parity"
)

// Features depend on the image alone, differ between images, and refuse wrong sizes.
func TestFeatures(t *testing.T) {
	p := parity.Open(t, "mage-tiny")
	m, err := vqgan.Load(p.Source, model.Options{Backend: processor})
	require.NoError(t, err)
	side := m.Config().Side()
	picture := func(value byte) *images.Image {
		i := &images.Image{Width: side, Height: side, Pix: make([]byte, 3*side*side)}
		for j := range i.Pix {
			i.Pix[j] = value * byte(j%7)
		}
		return i
	}
	compute := func(list ...*images.Image) (all [][]float32) {
		require.NoError(t, m.Features(context.Background(), list, func(i int, f, logits []float32) error {
			require.Len(t, f, m.Width())
			require.Nil(t, logits)
			for _, deviation := range f[m.Width()/2:] {
				require.GreaterOrEqual(t, deviation, float32(0))
			}
			all = append(all, append([]float32(nil), f...))
			return nil
		}))
		return all
	}
	both := compute(picture(9), picture(30))
	require.NotEqual(t, both[0], both[1])
	require.Equal(t, both[1:], compute(picture(30)))
	require.Equal(t, both[:1], compute(picture(9)))

	err = m.Features(context.Background(),
		[]*images.Image{{Width: 1, Height: 1, Pix: make([]byte, 3)}}, nil)
	require.ErrorContains(t, err, "image 0: 1 x 1 pixels, want")
}
