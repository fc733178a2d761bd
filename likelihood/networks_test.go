package likelihood_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	_ "unmask/families/encoders"
	_ "unmask/families/llama"
	"unmask/likelihood"
	"unmask/model"
	"unmask/testkit/parity"
)

func load(t *testing.T, pack string) (model.Denoiser, *parity.Pack) {
	p := parity.Open(t, pack)
	l, err := model.Load(p.Source, model.Options{Backend: parity.Devices[0].New(t)})
	require.NoError(t, err)
	return l.Denoiser, p
}

// logP returns log p of a token, which is not the mask.
func logP(logits []float32, token, mask int32) float64 {
	sum := 0.0
	for t, l := range logits {
		if int32(t) != mask {
			sum += math.Exp(float64(l))
		}
	}
	return float64(logits[token]) - math.Log(sum)
}

// A model that runs left to right has the chain rule in one pass: the log-probabilities are those
// of the logits that PyTorch computed, each for the next token.
func TestLeftToRightModels(t *testing.T) {
	d, p := load(t, "nemotron-labs-tiny")
	tokens, shape := p.Ints("tokens")
	logits, _ := p.Floats("logits")
	length, columns := shape[1], len(logits)/len(tokens)
	mask := d.Spec().Mask
	x, answers := tokens[:length], 0
	for from := 1; from < length; from++ {
		to := from // the reference has masks too, which are no answers
		for ; to < length && x[to] != mask; to++ {
		}
		if to == from {
			continue
		}
		e := of(t, d, x, from, to, likelihood.Options{})
		require.Equal(t, 1, e.Passes)
		for i, got := range e.LogP {
			row := logits[(from+i-1)*columns : (from+i)*columns]
			require.InDelta(t, logP(row, x[from+i], mask), got, 1e-4)
		}
		answers++
	}
	require.Greater(t, answers, 10)
	_, err := likelihood.Measure(t.Context(), d, x, 0, 5, likelihood.Options{})
	require.EqualError(t, err,
		"prompt is empty, want at least one token: this model predicts the next one")
	_, err = likelihood.Measure(t.Context(), d, x, 3, 5,
		likelihood.Options{Method: likelihood.Stratified})
	require.EqualError(t, err,
		"method is stratified, want left-to-right: this model's known tokens see only those before them")
}

// The chain rule of networks is that of whole passes, also where a block's passes end with it.
func TestNetworks(t *testing.T) {
	const length, from, to = 24, 5, 19
	for _, pack := range []string{"llada-tiny", "dream-tiny", "sdar-tiny", "fast-dllm-v2-tiny",
		"wedlm-7b-tiny"} {
		d, _ := load(t, pack)
		spec := d.Spec()
		x := make([]int32, length)
		for i := range x {
			if x[i] = int32(7*i+3) % int32(spec.Outcomes); x[i] == spec.Mask {
				x[i]++
			}
		}
		e := of(t, d, x, from, to, likelihood.Options{Method: likelihood.LeftToRight})
		for i := from; i < to; i++ {
			tokens := slices.Clone(x)
			for p := i; p < to; p++ {
				tokens[p] = spec.Mask
			}
			m, err := d.Forward(t.Context(), &model.Batch{Size: 1, Length: length, Tokens: tokens})
			require.NoError(t, err)
			require.NoError(t, m.Visit([]int32{int32(i)}, func(_ int, logits []float32) {
				require.InDelta(t, logP(logits[:spec.Outcomes], x[i], spec.Mask), e.LogP[i-from], 1e-5,
					"%s %d", pack, i)
			}))
		}
		for _, method := range []string{likelihood.Stratified, likelihood.MonteCarlo} {
			o := likelihood.Options{Method: method, Passes: 8}
			want := of(t, d, x, from, to, o)
			o.Batch = 3
			require.Equal(t, want, of(t, d, x, from, to, o), pack)
			require.Greater(t, want.Error, 0.0)
		}
	}
}

// Special tokens are never drawn, but have their probability in that of an answer, as in the
// original classes.
func TestSpecialTokensCount(t *testing.T) {
	d, p := load(t, "bert-tiny")
	tokens, shape := p.Ints("tokens")
	x := tokens[:shape[1]]
	at := 1
	for x[at] == d.Spec().Mask {
		at++
	}
	b := &model.Batch{Size: 1, Length: len(x), Tokens: slices.Clone(x), ReadRows: []int32{int32(at)}}
	b.Tokens[at] = d.Spec().Mask
	marginals, err := d.Forward(t.Context(), b)
	require.NoError(t, err)
	want := 0.0
	err = marginals.(model.Raw).Raw().Visit(b.ReadRows, func(_ int, logits []float32) {
		want = logP(slices.Clone(logits), x[at], d.Spec().Mask)
	})
	require.NoError(t, err)
	e := of(t, d, x, at, at+1, likelihood.Options{})
	require.InDelta(t, want, e.LogProb, 1e-5)
}
