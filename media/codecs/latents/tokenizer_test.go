package latents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/media/codecs/latents"
	"unmask/model"
	"unmask/testkit/parity"
)

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
				got, z := make([]float32, len(want)), m.Sizes()
				for i := range len(codes) / z.Tokens {
					prompt := &model.Prompt{Rows: z.TextRows, Width: z.TextWidth}
					if n := z.TextRows * z.TextWidth; n > 0 {
						text, _ := p.Floats("text_last")
						prompt.Final = text[i*n:][:n]
					}
					n := 3 * z.Side * z.Side
					require.NoError(t, m.DecodeOf(got[i*n:][:n], codes[i*z.Tokens:][:z.Tokens], prompt))
				}
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
