package latents_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/codecs/latents"
	"unmask/model"
	"unmask/testkit/parity"
)

var ctx = context.Background()

func TestTokenizerParity(t *testing.T) {
	for _, pack := range []string{"titok-tokenizer-tiny", "tatitok-tiny", "titok-b64-tokenizer",
		"tatitok-bl128"} {
		for _, d := range parity.Devices {
			if d.Precision != backend.F32 {
				continue
			}
			t.Run(pack+"/"+d.Name, func(t *testing.T) {
				p := parity.Open(t, pack)
				if p.Full() && d.Slow() {
					t.Skip("minutes")
				}
				m, err := latents.Load(p.Source, model.Options{Backend: d.New(t)})
				require.NoError(t, err)

				codes, _ := p.Ints("codes")
				want, _ := p.Floats("images")
				var text []float32
				if m.Sizes().TextRows > 0 {
					text, _ = p.Floats("text_last")
				}
				got := make([]float32, len(want))
				require.NoError(t, m.DecodeText(ctx, got, codes, text))
				parity.Close(t, want, got, d.Tolerance)

				pixels, _ := p.Floats("pixels")
				wantCodes, _ := p.Ints("pixel_codes")
				gotCodes := make([]int32, len(wantCodes))
				require.NoError(t, m.Encode(gotCodes, pixels))
				require.Equal(t, wantCodes, gotCodes)
			})
		}
	}
}
