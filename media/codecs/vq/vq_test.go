package vq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/plain"
	"unmask/media/codecs/vq"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights/pytorch"
)

// limited is a device whose attention does not support the wide heads of an image tokenizer.
type limited struct{ backend.Backend }

func (limited) MaxHeadDim() int { return 16 }

// LlamaGen's file is float16, and its images are -1 to 1.
func TestLlamaGenParity(t *testing.T) {
	for _, pack := range []string{"llamagen-tiny", "llamagen"} {
		p := parity.OpenConverted(t, pack, "vq_ds16_c2i.pt", pytorch.Options{Grid: 6})
		_, shape := p.Floats("images")
		narrow := parity.Device{Name: "narrow",
			New: func(testing.TB) backend.Backend { return limited{plain.New()} }, Tolerance: 1e-4}
		for _, d := range append([]parity.Device{narrow}, parity.Devices...) {
			if d.Precision != backend.F32 || p.Full() && (d.Slow() || d.Name == "narrow") {
				continue
			}
			t.Run(pack+"/"+d.Name, func(t *testing.T) {
				grid := 6
				if p.Full() {
					grid = shape[2] / 16
				}
				m, err := vq.Load(p.Source, grid, model.Options{Backend: d.New(t)})
				require.NoError(t, err)
				codes, _ := p.Ints("codes")
				want, _ := p.Floats("images")
				got := make([]float32, len(want))
				require.NoError(t, m.Decode(got, codes))
				for i, x := range got {
					got[i] = 2*x - 1
				}
				parity.RequireClose(t, want, got, d.Tolerance)

				pixels, _ := p.Floats("pixels")
				for i, x := range pixels {
					pixels[i] = (x + 1) / 2
				}
				wantCodes, _ := p.Ints("pixel_codes")
				gotCodes := make([]int32, len(wantCodes))
				require.NoError(t, m.Encode(gotCodes, pixels))
				require.Equal(t, wantCodes, gotCodes)
			})
		}
	}
}

// A VQModel outside a pipeline has the grid of its config.json or, by default, amused-256's.
func TestLoneVQModel(t *testing.T) {
	p := parity.OpenFolder(t, "amused-256-tiny", "vqvae")
	config := string(p.Config)
	load := func(config string) model.Codec {
		src := *p.Source
		src.Config = []byte(config)
		c, err := model.LoadCodec(&src, model.Options{Backend: plain.New(), Precision: backend.BF16})
		require.NoError(t, err)
		return c
	}
	c := load(strings.Replace(config, "{", `{"grid": 8,`, 1))
	require.Equal(t, []int{8, 8}, c.Shape())
	codes, _ := p.Ints("codes")
	want, _ := p.Floats("images")
	got := make([]float32, len(want))
	require.NoError(t, c.Decode(got, codes))
	parity.RequireClose(t, want, got, 1e-4)
	require.Equal(t, []int{16, 16}, load(config).Shape())
}
