package dit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend/plain"
	_ "unmask/dit"
	"unmask/model"
	"unmask/testkit/parity"
	"unmask/weights"
)

var packs = []string{"sdtt-tiny", "sdtt-tiny-bf16", "sdtt-small"}

func TestFullPass(t *testing.T) {
	parity.RunEach(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		parity.CheckFullPass(t, p, m, "", tolerance)
		parity.CheckFullPass(t, p, m, "short_", tolerance)
	})
}

func TestPartialPass(t *testing.T) {
	parity.RunEach(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		parity.CheckPartialPass(t, p, m, tolerance)
	})
}

func TestRowsOutside(t *testing.T) {
	parity.RunEach(t, packs[:1], func(t *testing.T, _ *parity.Pack, m model.Refiner, _ float64) {
		_, err := m.Forward(t.Context(), parity.Batch(make([]int32, 12), []int{2, 6}))
		require.NoError(t, err)
		b := parity.Batch(make([]int32, 10), []int{2, 5})
		b.Cache = m.NewCache(2, 5)
		p, err := m.Forward(t.Context(), b)
		require.NoError(t, err)
		for want, rows := range map[string][]int32{"is -1, want 0 to 9": {-1},
			"is 10, want 0 to 9": {3, 10}} {
			_, err := m.Refine(t.Context(), b, rows)
			require.ErrorContains(t, err, "of a partial pass "+want)
			require.EqualError(t, p.Stats(rows, &model.Stats{}), "row "+want)
			require.EqualError(t, p.Sample(rows, &model.Draw{}), "row "+want)
			require.EqualError(t, p.Visit(rows, func(int, []float32) { t.Fail() }), "row "+want)
		}
	})
}

func TestBatchInvariance(t *testing.T) {
	parity.CheckBatchInvariance(t, "sdtt-tiny", []int{5, 3, 40})
}

func TestAnyBatchAndThreads(t *testing.T) {
	parity.CheckThreads(t, "sdtt-tiny", []int{5, 3, 40})
}

func TestRowsThatNobodyReads(t *testing.T) { parity.CheckReadRows(t, "sdtt-tiny", []int{5, 3, 40}) }

// The marginals are SUBS: without the mask token, normalised over the rest.
func TestLogProbs(t *testing.T) {
	parity.RunEach(t, packs, func(t *testing.T, p *parity.Pack, m model.Refiner, tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, wantShape := p.Floats("log_probs")
		mask, columns := m.Spec().Mask, wantShape[2]
		var masked []int32
		for i, id := range tokens {
			if id == mask {
				masked = append(masked, int32(i))
			}
		}
		got, err := m.Forward(context.Background(), parity.Batch(tokens, shape))
		require.NoError(t, err)
		logits := parity.Logits(t, got, masked, columns)
		s := model.Stats{LogSum: make([]float64, len(masked))}
		require.NoError(t, got.Stats(masked, &s))
		var a, b []float32
		for i, row := range masked {
			for x := range columns - 1 {
				a = append(a, want[int(row)*columns+x])
				b = append(b, float32(float64(logits[i*columns+x])-s.LogSum[i]))
			}
		}
		parity.RequireClose(t, a, b, tolerance)
	})
}

func TestNoCacheGivesTheSameLogits(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	m := l.Denoiser.(model.Refiner)
	tokens, shape := p.Ints("tokens")
	b := parity.Batch(tokens, shape)
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	without := parity.Logits(t, got, parity.Count(len(tokens)), 101)
	b.Cache = m.NewCache(b.Size, b.Length)
	got, err = m.Forward(context.Background(), b)
	require.NoError(t, err)
	require.Equal(t, without, parity.Logits(t, got, parity.Count(len(tokens)), 101))
}

func TestBadBatches(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	for _, c := range []struct {
		want string
		b    model.Batch
	}{
		{"length is 49, want 1 to 48", model.Batch{Size: 1, Length: 49, Tokens: make([]int32, 49)}},
		{"length is 0", model.Batch{Size: 1}},
		{"token 1 of sequence 0 is 101, want 0 to 99 or the mask 100",
			model.Batch{Size: 1, Length: 2, Tokens: []int32{0, 101}}},
		{"token 0 of sequence 1 is -1", model.Batch{Size: 2, Length: 1, Tokens: []int32{0, -1}}},
		{"has 3 tokens", model.Batch{Size: 2, Length: 2, Tokens: make([]int32, 3)}},
	} {
		_, err := m.Forward(context.Background(), &c.b)
		require.ErrorContains(t, err, c.want)
	}
}

func TestCancelledPass(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.Forward(ctx, &model.Batch{Size: 1, Length: 2, Tokens: []int32{0, 1}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestStatsOfAllRowsAreFinite(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny-bf16")
	l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	tokens, shape := p.Ints("tokens")
	got, err := l.Forward(context.Background(), parity.Batch(tokens, shape))
	require.NoError(t, err)
	n := len(tokens)
	s := model.Stats{Beta: 2, LogMoment: make([]float64, n), Entropy: make([]float64, n),
		P1: make([]float64, n), P2: make([]float64, n), Arg: make([]int32, n)}
	require.NoError(t, got.Stats(parity.Count(n), &s))
	for i := range n {
		require.True(t, s.LogMoment[i] < 0 && s.Entropy[i] > 0 && s.Entropy[i] <= math.Log(100) &&
			s.P1[i] >= s.P2[i] && s.P2[i] > 0)
	}
}

// At time 0 the noise level is 0, as in every call of a network without time conditioning, so the
// general path must agree with the folded one.
func TestTimeConditioningAtZeroIsTheFoldedNetwork(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	tokens, shape := p.Ints("tokens")
	want, wantShape := p.Floats("logits")
	m := timeConditioned(t, p)
	b := parity.Batch(tokens, shape)
	_, err := m.Forward(context.Background(), b)
	require.ErrorContains(t, err, "time-conditioned: 0 times for 3 sequences")
	b.Time = make([]float64, 3)
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	parity.RequireClose(t, want, parity.Logits(t, got, parity.Count(len(tokens)), wantShape[2]), 1e-4)
}

func TestTimeConditioning(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	tokens, shape := p.Ints("tokens")
	m := timeConditioned(t, p)
	b := parity.Batch(tokens, shape)
	b.Time = timeCases
	got, err := m.Forward(context.Background(), b)
	require.NoError(t, err)
	logits := parity.Logits(t, got, parity.Count(len(tokens)), 101)
	var first []float32 // of each sequence's first position, outcomes 0..3
	for s := range 3 {
		first = append(first, logits[s*shape[1]*101:][:4]...)
	}
	parity.RequireClose(t, timeLogits, first, 1e-4)
}

func timeConditioned(t *testing.T, p *parity.Pack) *model.Loaded {
	p.Config = []byte(strings.Replace(string(p.Config), `"time_conditioning": false`,
		`"time_conditioning": true`, 1))
	require.Contains(t, string(p.Config), `"time_conditioning": true`)
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	return m
}

// Reference values for times 1/4, 1/2 and 1: dit(w, tokens, sigma=-log1p(-(1-1e-3)*t)).
var (
	timeCases  = []float64{0.25, 0.5, 1}
	timeLogits = []float32{
		-7.674457056471865, -0.9162692101360532, -0.5500392527018461, -2.746354459553693,
		-7.134172820956126, 0.2188285456169059, -1.1610781769472722, -5.101570688717423,
		-4.120274261028898, -2.0038428478660935, -0.9055042563606391, -1.008673679489141,
	}
)

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"zero", `"hidden_size": 64`, `"hidden_size": 0`, "hidden_size is 0, want 1 to 1048576"},
		{"negative", `"n_blocks": 3`, `"n_blocks": -1`, "n_blocks is -1"},
		{"36 2^31", `"length": 48`, `"length": 2147483648`, "length is 2147483648"},
		{"beyond the limit", `"length": 48`, `"length": 131073`, "length is 131073, want 1 to 131072"},
		{"fraction", `"length": 48`, `"length": 48.5`,
			"config.json: model.length is 48.5, want an integer of 64 bits"},
		{"36 2^70", `"length": 48`, `"length": 1180591620717411303424`,
			"config.json: model.length is 1180591620717411303424, want an integer of 64 bits"},
		{"array", `"model": {`, `"model": [1], "": {`, "config.json: model is an array, want an object"},
		{"37", `"n_heads": 4`, `"n_heads": 5`, "n_heads is 5, want those that cut hidden_size 64"},
		{"38", `"vocab_size": 101`, `"mask_index": 101`, "mask_index is 101, want 100"},
		{"pad", `"vocab_size": 101`, `"pad_token_id": 100`, "pad_token_id is 100, want 0 to 99"},
		{"first token", `"vocab_size": 101`, `"bos_token_id": -1`, "bos_token_id is -1, want 0 to 99"},
		{"other numbers", `"vocab_size": 101`, `"parameterization": "sedd"`,
			`parameterization is "sedd", want subs`},
		{"d3pm", `"vocab_size": 101`, `"parameterization": "d3pm"`,
			`parameterization is "d3pm", want subs`},
		{"other network", `"ddit-orig"`, `"dimamba"`,
			`model.type is "dimamba", want one of ddit, ddit-orig, dit`},
		{"flat", `"vocab_size": 101`, `"backbone": "dimamba"`, `backbone is "dimamba", want dit`},
		{"noise", `"vocab_size": 101`, `"time_conditioning": true, "noise": {"type": "cosine"}`,
			`noise is "cosine", want loglinear with time_conditioning`},
		{"SEDD", `"vocab_size": 101`, `"graph": {"type": "absorb"}`,
			"graph is there, want none: it is SEDD"},
		{"DUO", `"vocab_size": 101`, `"model_type": "DUO"`,
			"DUO is not read (model_type \"DUO\", no architectures): it is uniform state"},
		{"UDLM", `"vocab_size": 101`, `"model_type": "udlm"`, "UDLM is not read"},
		{"BD3-LM", `"vocab_size": 101`, `"architectures": ["BD3LM"]`, "BD3-LM is not read"},
		{"unknown", `"vocab_size": 101`, `"model_type": "mdlm2"`,
			`config.json: model_type is "mdlm2", want mdlm, sdtt; a model that is like one of these`},
		{"45", `"vocab_size": 101`, `"vocab_size": `, "config.json: "},
		{"byte order mark", "{\n \"model\"", "\ufeff{\n \"model\"",
			"config.json: begins with a byte order mark, want '{'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parity.Open(t, "sdtt-tiny")
			p.Source = withoutFrequencies(t, p.Source)
			require.Contains(t, string(p.Config), c.from)
			p.Config = []byte(strings.Replace(string(p.Config), c.from, c.to, 1))
			_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// withoutFrequencies drops the stored rotary frequencies, which would show the head count.
func withoutFrequencies(t *testing.T, src *model.Source) *model.Source {
	var keep []weights.Tensor
	for _, name := range src.Set.Names() {
		if v, _ := src.Set.Get(name); !strings.HasSuffix(name, "rotary_emb.inv_freq") {
			keep = append(keep, *v)
		}
	}
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, keep, nil))
	set, err := weights.Parse(file.Bytes(), "model.safetensors")
	require.NoError(t, err)
	return &model.Source{Name: src.Name, Config: src.Config, Set: set, Files: src.Files}
}

func TestTensorsOverruleTheConfig(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	p.Config = []byte(strings.Replace(string(p.Config), `"n_blocks": 3`, `"n_blocks": 4`, 1))
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	require.Equal(t, []string{"config.json says n_blocks 4, the tensors 3: the tensors are right"},
		m.Info.Notes)
}

// A head count that does not fit the tensors is an error even if the frequencies show the right
// one.
func TestWithFrequencies(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	p.Config = []byte(strings.Replace(string(p.Config), `"n_heads": 4`, `"n_heads": 5`, 1))
	_, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, "n_heads is 5, want those that cut hidden_size 64")
}

func TestTensorsOverruleTheHeads(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	p.Config = []byte(`{"hidden_dim": 768, "n_heads": 12, "model_length": 48}`)
	m, err := model.Load(p.Source, model.Options{Backend: plain.New()})
	require.NoError(t, err)
	require.Equal(t, []string{"config.json says hidden_size 768, the tensors 64: the tensors are right",
		"config.json says n_heads 12, the tensors 4: the tensors are right"}, m.Info.Notes)
}

// One error lists everything that is wrong.
func TestWrongWeights(t *testing.T) {
	p := parity.Open(t, "sdtt-tiny")
	var some []weights.Tensor
	for _, name := range p.Set.Names() {
		v, _ := p.Set.Get(name)
		c := *v
		switch {
		case strings.HasSuffix(name, "blocks.1.mlp.2.bias"):
			continue
		case strings.HasSuffix(name, "blocks.2.norm1.weight"):
			c.Shape = []int{8, 8}
		}
		some = append(some, c)
	}
	some = append(some, weights.Tensor{Name: "backbone.backbone.extra", DType: weights.F32,
		Shape: []int{1}, Data: make([]byte, 4)})
	var file bytes.Buffer
	require.NoError(t, weights.Write(&file, some, nil))
	set, err := weights.Parse(file.Bytes(), "model.safetensors")
	require.NoError(t, err)
	p.Source.Set = set
	_, err = model.Load(p.Source, model.Options{Backend: plain.New()})
	require.ErrorContains(t, err, `1 missing: "blocks.1.mlp.2.bias"`)
	require.ErrorContains(t, err, `"backbone.backbone.extra"`)
	require.ErrorContains(t, err, `"blocks.2.norm1.weight" is`)
}

// SDTT's large students and teachers have model.causal true, which their class never reads: the
// logits are the same, and a note says that the key is ignored.
func TestACausalKeyIsIgnored(t *testing.T) {
	logits := func(causal bool) (all [][]float32, notes []string) {
		p := parity.Open(t, "sdtt-tiny")
		var config map[string]any
		require.NoError(t, json.Unmarshal(p.Source.Config, &config))
		config["model"].(map[string]any)["causal"] = causal
		data, err := json.Marshal(config)
		require.NoError(t, err)
		p.Source.Config = data
		l, err := model.Load(p.Source, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		marginals, err := l.Denoiser.Forward(t.Context(), parity.Batch(make([]int32, 6), []int{1, 6}))
		require.NoError(t, err)
		all = make([][]float32, 2)
		err = marginals.Visit([]int32{0, 5}, func(i int, row []float32) { all[i] = slices.Clone(row) })
		require.NoError(t, err)
		return all, l.Info.Notes
	}
	want, quiet := logits(false)
	got, notes := logits(true)
	require.Equal(t, want, got)
	const note = "config.json: model.causal: ignored, as in the authors' program, which never reads it"
	require.NotContains(t, quiet, note)
	require.Contains(t, notes, note)
}
