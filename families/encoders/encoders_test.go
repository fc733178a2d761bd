package encoders_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	_ "unmask/families/encoders"
	"unmask/model"
	"unmask/testkit/parity"
)

// cached are the packs whose networks make partial passes; those of other scales than tiny are in
// UNMASK_PACKS, by testkit/parity/make_packs_encoders.py --scale.
var cached = append(scales("bert", "roberta", "roberta-fairseq", "albert", "modernbert"), esmc...)

// esmc are the three published layouts of ESM-C, and two at its published widths.
var esmc = []string{"esmc-tiny", "esmc-transformers-tiny", "esmc-pth-tiny", "esmc-300m",
	"esmc-600m-pth"}

var all = slices.Concat(scales("esm"), cached, []string{"genmol-tiny", "genmol-full"})

func scales(names ...string) (packs []string) {
	for _, name := range names {
		for _, scale := range []string{"tiny", "small", "150m"} {
			packs = append(packs, name+"-"+scale)
		}
	}
	return packs
}

// each loads every pack on every device that computes it.
func each(t *testing.T, packs []string,
	f func(t *testing.T, p *parity.Pack, m model.Denoiser, tolerance float64)) {
	for _, name := range packs {
		for _, d := range parity.Devices {
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p, b := parity.Open(t, name), d.New(t)
				if _, ok := b.(backend.LocalAttention); !ok && strings.HasPrefix(name, "modernbert") {
					t.Skip("local attention is for the cpu")
				}
				if d.Slow() && p.Full() {
					t.Skip("minutes a pass")
				}
				m, err := model.Load(p.Source, model.Options{Backend: b, Precision: d.Precision})
				require.NoError(t, err)
				tolerance := d.Tolerance
				switch {
				case d.Precision == backend.BF16:
					tolerance = 8e-2 // some seeds of the packs need 0.065
				case d.Name != "cuda":
					tolerance = 1e-5
				}
				if p.Has("rounding") { // in 30 layers transformers' own float32 is near 1e-5 off
					rounding, _ := p.Floats("rounding")
					tolerance *= max(1, 3e5*float64(rounding[0]))
				}
				f(t, p, m.Denoiser, tolerance)
			})
		}
	}
}

// Logits are those of transformers' own classes.
func TestFullPass(t *testing.T) {
	// modernbert-chat-tiny has the keys of transformers 5
	packs := append([]string{"modernbert-chat-tiny"}, all...)
	each(t, packs, func(t *testing.T, p *parity.Pack, m model.Denoiser, tolerance float64) {
		for _, prefix := range []string{"", "short_"} {
			if prefix != "" && !p.Has(prefix+"tokens") {
				continue
			}
			tokens, shape := p.Ints(prefix + "tokens")
			want, wantShape := p.Floats(prefix + "logits")
			got, err := m.Forward(context.Background(), parity.Batch(tokens, shape))
			require.NoError(t, err)
			parity.RequireClose(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]),
				tolerance)
		}
	})
}

func TestPartialPass(t *testing.T) {
	each(t, cached, func(t *testing.T, p *parity.Pack, m model.Denoiser, tolerance float64) {
		parity.CheckPartialPass(t, p, m.(model.Refiner), tolerance)
	})
}

func TestAnyBatchAndThreads(t *testing.T) {
	for _, pack := range []string{"bert-tiny", "albert-tiny", "modernbert-tiny"} {
		t.Run(pack, func(t *testing.T) { parity.CheckThreads(t, pack, []int{5, 3, 11}) })
	}
}
