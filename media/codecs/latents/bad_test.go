package latents_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	"unmask/media/codecs/latents"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ pack, from, to, want string }{
		{"titok-tokenizer-tiny", `"vit_enc_model_size": "small"`, `"vit_enc_model_size": "huge"`,
			`vit_enc_model_size is "huge", want small, base or large`},
		{"titok-tokenizer-tiny", `"vit_dec_model_size": "small"`, `"vit_dec_model_size": "base"`,
			"vit_dec_model_size is 12, want a divisor of the width 32"},
		{"tatitok-tiny", `"model": {`, `"model": 3, "x": {`, "config.json: "},
	} {
		p := parity.Open(t, c.pack)
		require.Contains(t, string(p.Config), c.from)
		p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
		_, err := latents.Load(p.Source, model.Options{Backend: plain.New()})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := latents.Load(parity.Open(t, "mage-tiny").Source, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, `vit_enc_model_size is "", want small, base or large`)
}

func TestBadInput(t *testing.T) {
	m, err := latents.Load(parity.Open(t, "titok-tokenizer-tiny").Source,
		model.Options{Backend: plain.New()})
	require.NoError(t, err)
	codes, pixels := make([]int32, 12), make([]float32, 3*16*16)
	codes[2] = 60
	require.ErrorContains(t, m.Decode(pixels, codes), "code 60 at position 2, want 0 to 59")
	require.ErrorContains(t, m.Decode(pixels[1:], codes), "want 12 codes and 768 values an image")
	_, err = m.Image(codes[1:])
	require.EqualError(t, err, "there are 11 codes, want 12")
	pixels[4] = float32(math.NaN())
	require.ErrorContains(t, m.Encode(codes, pixels),
		"image 0: a colour of pixel 4 is NaN, want 0 to 1")
	require.ErrorContains(t, m.Encode(codes, pixels[1:]), "want 768 values and 12 codes an image")
}
