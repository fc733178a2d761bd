package clip_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/testkit/parity"
)

func TestTextParity(t *testing.T) {
	for _, pack := range []string{"clip-text-tiny", "clip-l"} {
		for _, d := range parity.Devices {
			t.Run(pack+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := parity.Open(t, pack)
				if p.Full() && d.Slow() {
					t.Skip("minutes")
				}
				m, err := clip.Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
				require.NoError(t, err)
				ids, shape := p.Ints("ids")
				var texts [][]int32
				for i := range shape[0] {
					texts = append(texts, ids[i*shape[1]:(i+1)*shape[1]])
				}
				got, err := m.Encode(context.Background(), texts)
				require.NoError(t, err)
				var before, last, pooled []float32
				for _, g := range got {
					before, last, pooled = append(before, g.States...), append(last, g.Final...),
						append(pooled, g.Pooled...)
				}
				for name, got := range map[string][]float32{"text_before_last": before, "text_last": last,
					"text_pooled": pooled} {
					want, _ := p.Floats(name)
					parity.RequireClose(t, want, got, d.Tolerance)
				}
			})
		}
	}
}

// prompts are those of the pack.
var prompts = []string{"a photo of a cat", "The  sun\n is shining, isn't it?",
	"naïve café 北京 №42 — 3.14!", "",
	"don't they'll we're I'd",
	"the the the the the the the the the the the the the the the the the the the the the the the the " +
		"the the the the the the the the the the the the the the the the "}

func TestTokenizer(t *testing.T) {
	p := parity.OpenCases(t, "amused-256-tiny")
	tok, err := clip.OpenTokenizer(os.DirFS(p.Dir("tokenizer")))
	require.NoError(t, err)
	want, shape := p.Ints("prompt_ids")
	for i, text := range prompts {
		ids, cut, err := tok.Encode(text, shape[1], tok.Pad())
		require.NoError(t, err)
		require.Equal(t, want[i*shape[1]:(i+1)*shape[1]], ids, text)
		require.False(t, cut)
	}
}
