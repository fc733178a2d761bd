package amused_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/guide"
	"unmask/media/codecs/vq"
	"unmask/model"
	"unmask/testkit/parity"

	_ "unmask/families/amused"
)

func open(t testing.TB, name string) *parity.Pack {
	return parity.OpenFolder(t, name,
		"transformer")
}

func TestParity(t *testing.T) {
	parity.CheckConditional(t, open,
		[]string{"amused-256-tiny", "amused-512-tiny", "amused-256", "amused-512"},
		parity.PromptConditions(micro))
}

func micro(p *parity.Pack, i int) (list []float64) {
	numbers, shape := p.Floats("micro")
	for _, v := range numbers[i*shape[1] : (i+1)*shape[1]] {
		list = append(list, float64(v))
	}
	return list
}

// The image tokenizer is float16 in the file and computes in float32.
func TestTokenizerParity(t *testing.T) {
	for _, pack := range []string{"amused-256-tiny", "amused-256"} {
		for _, d := range parity.Devices {
			if d.Precision != backend.F32 {
				continue
			}
			t.Run(pack+"/"+d.Name, func(t *testing.T) {
				p := parity.OpenFolder(t, pack, "vqvae")
				if p.Full() && d.Slow() {
					t.Skip("minutes")
				}
				codes, shape := p.Ints("codes")
				grid := 8
				if shape[1] == 256 {
					grid = 16
				}
				m, err := vq.Load(p.Source, grid, model.Options{Backend: d.New(t)})
				require.NoError(t, err)
				want, _ := p.Floats("images")
				got := make([]float32, len(want))
				require.NoError(t, m.Decode(got, codes))
				parity.RequireClose(t, want, got, d.Tolerance)
				pixels, _ := p.Floats("pixels")
				wantCodes, _ := p.Ints("pixel_codes")
				gotCodes := make([]int32, len(wantCodes))
				require.NoError(t, m.Encode(gotCodes, pixels))
				require.Equal(t, wantCodes, gotCodes)
			})
		}
	}
}

// u + 2.5(c-u).
func TestGuidance(t *testing.T) {
	parity.CheckGuided(t, open, []string{"amused-256-tiny"}, parity.PromptConditions(micro),
		func(m model.Denoiser) model.Denoiser {
			return guide.New(m, func(model.Progress) float64 { return 1.5 })
		})
}
