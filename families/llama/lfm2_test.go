package llama_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/plain"
	"unmask/model"
	"unmask/testkit/parity"
)

var lfm2Packs = []string{"lfm2-diffusion-tiny", "lfm2-encoder-tiny", "lfm2-diffusion",
	"lfm2-encoder-230m"}

// Hidden states are those after the last norm. Those of a short sequence do not depend on the
// longer ones beside it: a filter sees nothing behind its end.
func TestStatesOfLFM2(t *testing.T) {
	parity.RunEach(t, lfm2Packs, func(t *testing.T, p *parity.Pack, m model.Refiner,
		tolerance float64) {
		tokens, shape := p.Ints("tokens")
		want, wantShape := p.Floats("hidden")
		short, shortShape := p.Floats("short_hidden")
		width := wantShape[2]
		b := parity.Batch(tokens, shape)
		b.Lengths = append(b.Lengths, shape[1])
		if shape[0] > 1 {
			b.Lengths = append(b.Lengths, shortShape[1])
		}
		got, err := m.Forward(t.Context(), b)
		require.NoError(t, err)
		states := func(first, n int) []float32 {
			rows := make([]int32, n)
			for i := range rows {
				rows[i] = int32(first + i)
			}
			values, _, err := got.(model.HiddenStates).Hidden(rows)
			require.NoError(t, err)
			return values
		}
		if tolerance <= 1e-4 { // in float32
			tolerance = 1e-5
		}
		parity.RequireClose(t, want[:shape[1]*width], states(0, shape[1]), tolerance)
		if shape[0] > 1 {
			parity.RequireClose(t, short[shortShape[1]*width:], states(shape[1], shortShape[1]), tolerance)
		}
	})
}

// A pass over a block, where keys, values and the inputs of filters outside are kept, gives the
// reference's logits.
func TestBlockPassOfLFM2(t *testing.T) {
	parity.RunEach(t, lfm2Packs, func(t *testing.T, p *parity.Pack, m model.Refiner,
		tolerance float64) {
		tokens, shape := p.Ints("tokens")
		rows, _ := p.Ints("block_rows")
		after, _ := p.Ints("block_tokens")
		want, wantShape := p.Floats("block_logits")
		b := parity.Batch(tokens[:shape[1]], []int{1, shape[1]})
		b.Cache = m.NewCache(1, shape[1])
		_, err := m.Forward(t.Context(), b)
		require.NoError(t, err)
		b.Tokens = after
		got, err := m.Refine(t.Context(), b, rows)
		require.NoError(t, err)
		if tolerance <= 1e-4 {
			tolerance = 1e-5
		}
		parity.RequireClose(t, want, parity.Logits(t, got, rows, wantShape[2]), tolerance)
	})
}

func TestBatchesOfLFM2(t *testing.T) {
	parity.CheckThreads(t, "lfm2-encoder-tiny", []int{5, 3, 11})
}

// lfm2Folder copies the pack with keys of its config.json replaced; nil removes one.
func lfm2Folder(t *testing.T, set map[string]any) string {
	dir := t.TempDir()
	from := os.DirFS(filepath.Join("..", "..", "testdata", "packs", "lfm2-diffusion-tiny"))
	require.NoError(t, os.CopyFS(dir, from))
	data, err := fs.ReadFile(from, "config.json")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(data, &config))
	for key, value := range set {
		config[key] = value
		if value == nil {
			delete(config, key)
		}
	}
	data, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	return dir
}

// Keys of earlier files say the same as those of later ones.
func TestOlderKeysOfLFM2(t *testing.T) {
	logits := func(set map[string]any) []float32 {
		src, err := model.Open(lfm2Folder(t, set))
		require.NoError(t, err)
		defer src.Set.Close()
		m, err := model.Load(src, model.Options{Backend: plain.New()})
		require.NoError(t, err)
		b := &model.Batch{Size: 1, Length: 6, Tokens: []int32{1, 30, 31, 16, 32, 33}}
		got, err := m.Forward(context.Background(), b)
		require.NoError(t, err)
		return parity.Logits(t, got, parity.Count(6), m.Spec().Outcomes)
	}
	want := logits(nil)
	require.Equal(t, want, logits(map[string]any{
		"layer_types": nil, "full_attn_idxs": []int{2, 4}, "num_attention_heads": nil,
		"tie_word_embeddings": nil, "tie_embedding": true, "rope_parameters": nil,
		"rope_theta": 1000000.0,
	}))
	require.NotEqual(t, want, logits(map[string]any{"rope_parameters": nil, "rope_theta": 100.0}))
}

// Relatives and settings that the network does not compute are refused by name.
func TestRefusalsOfLFM2(t *testing.T) {
	for _, c := range []struct {
		set  map[string]any
		want string
	}{
		{map[string]any{"architectures": []string{"Lfm2ForCausalLM"}, "auto_map": nil},
			"LFM2 is not read"},
		{map[string]any{"architectures": []string{"Lfm2BidirForSequenceRouting"}, "auto_map": nil},
			"LFM2.5-Prompt-Router is not read"},
		{map[string]any{"architectures": []string{"Lfm2BidirForRuleMatching"}, "auto_map": nil},
			"LFM2.5-Policy-Linter is not read"},
		{map[string]any{"architectures": []string{"Lfm2BidirectionalModel"}, "auto_map": nil},
			"LFM2.5-Embedding and LFM2.5-ColBERT are not read"},
		{map[string]any{"architectures": nil, "auto_map": nil}, "an autoregressive model"},
		{map[string]any{"conv_bias": true}, "conv_bias is true, want false"},
		{map[string]any{"conv_L_cache": 4}, "conv_L_cache is 4, want 3"},
		{map[string]any{"tie_word_embeddings": false}, "tie_word_embeddings is false, want true"},
		{map[string]any{"rope_parameters": map[string]any{"rope_type": "linear", "factor": 2.0}},
			"rope_type is linear, want default"},
		{map[string]any{"block_ffn_dim_multiplier": json.RawMessage("null")},
			"block_ffn_dim_multiplier is null, want a number"},
		{map[string]any{"layer_types": []string{"conv"}}, "layer_types has 1 layers, want 5"},
		{map[string]any{"layer_types": []string{"conv", "conv", "mamba", "conv", "conv"}},
			`layer_types has "mamba", want conv or full_attention`},
		{map[string]any{"block_auto_adjust_ff_dim": false}, "misshaped"},
	} {
		src, err := model.Open(lfm2Folder(t, c.set))
		require.NoError(t, err)
		_, err = model.Load(src, model.Options{Backend: plain.New()})
		src.Set.Close()
		require.ErrorContains(t, err, c.want)
	}
}

// Conversations have the published template and the token before it; answers end at its mark or at
// the end token. The run and the canvas are those of the authors' demo.
func TestChatOfLFM2(t *testing.T) {
	m, err := unmask.Load(t.Context(), lfm2Folder(t, nil), unmask.Options{})
	require.NoError(t, err)
	require.Equal(t, "semi-ar(apart, block=16) schedule=rest steps=32", m.Recipe)
	require.Equal(t, int32(16), m.Spec().Mask)
	require.Equal(t, []int32{7}, m.Spec().EndTokens)
	c, err := m.Chat()
	require.NoError(t, err)
	require.Equal(t, []string{"[/Answer]"}, c.StopTexts())

	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "packs", "lfm2-diffusion-tiny",
		"cases.json"))
	require.NoError(t, err)
	var cases struct {
		Cases []struct {
			Text string
			IDs  []int32 `json:"ids_without_special"`
		}
		Chats []struct {
			Messages json.RawMessage
			IDs      []int32
		}
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases.Chats)
	for _, chat := range cases.Chats {
		q, err := m.Prepare(t.Context(), unmask.Request{Messages: chat.Messages})
		require.NoError(t, err)
		from := len(chat.IDs)
		require.Equal(t, chat.IDs, q.Known[:from])
		require.Len(t, q.Known, from+64)
	}

	plainEncoder, err := unmask.Load(t.Context(), lfm2Folder(t, nil),
		unmask.Options{As: "lfm2-encoder"})
	require.NoError(t, err)
	require.Empty(t, plainEncoder.Recipe)
}

// Ids that have no text, and the mask, are never drawn.
func TestIDsWithoutTextOfLFM2(t *testing.T) {
	p := parity.Open(t, "lfm2-diffusion-tiny")
	m, err := model.Load(p.Source, model.Options{Backend: cpu.New(cpu.Options{}),
		Precision: backend.Int8})
	require.NoError(t, err)
	require.Contains(t, m.Info.Notes[len(m.Info.Notes)-1], "int8 is not measured")
	real, _ := p.Ints("real")
	got, err := m.Forward(t.Context(), &model.Batch{Size: 1, Length: 3, Tokens: []int32{1, 16, 16}})
	require.NoError(t, err)
	require.NoError(t, got.Visit([]int32{1}, func(_ int, logits []float32) {
		for id, logit := range logits[:m.Spec().Outcomes] {
			isForbidden := id == 16 || id >= int(real[0])
			require.Equal(t, isForbidden, math.IsInf(float64(logit), -1), "id %d", id)
		}
	}))
}
