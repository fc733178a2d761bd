//go:build unix

// Command modes times a reply of Nemotron-Labs-Diffusion-3B's shapes in its three modes: left to
// right, block diffusion, and self-speculation. It shows which is fastest on this machine for an
// assumed share of right drafts or sure positions, which decides the default of the model's recipe.
//
//	go run ./bench/peers/modes [-layers 2] [-threads 2] [-new 64] [-sure 0.3,0.5,0.7,0.9] [-turns 10]
//
// Then it times a conversation of ten turns with and without the keys and values of earlier ones.
//
// Weights are random Q4_K, two of the 26 layers, a small vocabulary. Random weights are sure of
// nothing, so that is given: a drafted token is right, and a masked position of block diffusion is
// sure, with this probability. bench/peers/llamacpp.py times llama.cpp's own decoding.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/internal/philox"
	"unmask/internal/quant"
	_ "unmask/llama"
	"unmask/model"
	"unmask/weights"
)

// The published sizes of the 3B, but for the layers and the vocabulary.
const (
	hidden, mlp, heads, kv, headDim = 3072, 9216, 32, 8, 128
	vocab, mask, prompt             = 4096, 100, 128
)

var modes = []struct {
	name, recipe string
	drafts       bool
}{
	{"ar", "low-confidence reuse=causal block-size=1", false},
	{"diffusion, blocks of 32", "greedy(threshold) reuse=causal block-size=32", false},
	{"diffusion, blocks of 8", "greedy(threshold) reuse=causal block-size=8", false},
	{"self-speculation of 4", "self-speculation(block=4) reuse=causal", true},
	{"self-speculation of 8", "self-speculation(block=8) reuse=causal", true},
	{"self-speculation of 32", "self-speculation(block=32) reuse=causal", true},
}

func main() {
	layers := flag.Int("layers", 2, "layers, of the 3B's 26")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "threads")
	tokens := flag.Int("new", 64, "tokens of the reply")
	sure := flag.String("sure", "0.3,0.5,0.7,0.9", "shares of right drafts and of sure positions")
	turns := flag.Int("turns", 10, "turns of the conversation")
	flag.Parse()
	if err := run(*layers, *threads, *tokens, *sure, *turns); err != nil {
		fmt.Fprintln(os.Stderr, "modes:", err)
		os.Exit(1)
	}
}

func run(layers, threads, tokens int, sure string, turns int) error {
	m, err := load(layers, threads)
	if err != nil {
		return err
	}
	fmt.Printf("%d of 26 layers in Q4_K, %d threads, %d + %d positions\n", layers, threads, prompt,
		tokens)
	fmt.Println("sure  mode                      passes  tokens a pass   seconds  tokens a second")
	for text := range strings.SplitSeq(sure, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("sure is %q, want numbers of 0 to 1", text)
		}
		for _, mode := range modes {
			passes, seconds, err := reply(m, mode.recipe, mode.drafts, share, tokens)
			if err != nil {
				return err
			}
			fmt.Printf("%-5s %-25s %6d  %13.2f  %8.2f  %15.2f\n", text, mode.name, passes,
				float64(tokens)/float64(passes), seconds, float64(tokens)/seconds)
		}
	}
	return conversation(m, turns)
}

// reply makes one reply. The prompt's pass is not timed.
func reply(m model.Denoiser, recipe string, drafts bool, share float64, tokens int) (passes int,
	seconds float64, err error) {
	r, err := generate.ParseRecipe(recipe)
	if err != nil {
		return 0, 0, err
	}
	o := generate.Options{Tokens: slices.Repeat([]int32{mask}, prompt+tokens)}.With(r)
	for i := range prompt {
		o.Tokens[i] = int32(200 + i*61%(vocab-200))
	}
	steps := 0
	o.Adjust = func(_, position int, logits []float32) {
		chance := philox.Stream{Seed: 1, Step: uint32(steps)}.Uniform(position, philox.Order)
		switch drafting := drafts && steps%2 == 1; {
		case drafting && chance >= share: // another token than the check's
			logits[300+position] += 1000
		case drafts || chance < share:
			logits[1000+position] += 1000
		}
	}
	var began time.Time
	for step, err := range generate.Run(context.Background(), m, o) {
		if err != nil {
			return 0, 0, err
		}
		if steps = step.N; steps == 1 {
			began = time.Now()
		}
	}
	return steps, time.Since(began).Seconds(), nil
}

// load makes the network of random weights.
func load(layers, threads int) (model.Denoiser, error) {
	var all []*weights.Tensor
	random := rand.New(rand.NewPCG(1, 2))
	vector := func(name string, n int) {
		data := make([]byte, 0, 2*n)
		for range n {
			data = append(data, 0x80, 0x3f) // 1 in bfloat16
		}
		all = append(all, &weights.Tensor{Name: name, DType: weights.BF16, Shape: []int{n}, Data: data})
	}
	q, ok := quant.Parse(string(weights.Q4_K))
	if !ok {
		return nil, fmt.Errorf("there is no Q4_K")
	}
	matrix := func(name string, out, in int) {
		row, x := make([]byte, q.RowBytes(in)), make([]float32, in)
		var data []byte
		for i := range out {
			if i < 64 { // the rows repeat
				for j := range x {
					x[j] = float32(random.NormFloat64()) * 0.02
				}
				quant.Encode(q, row, x)
				data = append(data, row...)
				continue
			}
			data = append(data, data[(i%64)*len(row):(i%64+1)*len(row)]...)
		}
		all = append(all, &weights.Tensor{Name: name, DType: weights.Q4_K, Shape: []int{out, in},
			Data: data})
	}
	matrix("encoder.embed_tokens.weight", vocab, hidden)
	matrix("diffusion_head.weight", vocab, hidden)
	vector("encoder.norm.weight", hidden)
	for i := range layers {
		at := fmt.Sprintf("encoder.layers.%d.", i)
		vector(at+"input_layernorm.weight", hidden)
		vector(at+"post_attention_layernorm.weight", hidden)
		matrix(at+"self_attn.q_proj.weight", heads*headDim, hidden)
		matrix(at+"self_attn.k_proj.weight", kv*headDim, hidden)
		matrix(at+"self_attn.v_proj.weight", kv*headDim, hidden)
		matrix(at+"self_attn.o_proj.weight", hidden, heads*headDim)
		matrix(at+"mlp.gate_proj.weight", mlp, hidden)
		matrix(at+"mlp.up_proj.weight", mlp, hidden)
		matrix(at+"mlp.down_proj.weight", hidden, mlp)
	}
	set, err := weights.NewSet(all, nil)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"model_type": "nemotron_labs_diffusion",
		"hidden_size": hidden, "intermediate_size": mlp, "num_attention_heads": heads,
		"num_key_value_heads": kv, "head_dim": headDim, "num_hidden_layers": layers, "vocab_size": vocab,
		"mask_token_id": mask, "eos_token_id": 11, "block_size": 32, "rms_norm_eps": 1e-5,
		"max_position_embeddings": 4096, "rope_theta": 1e6})
	if err != nil {
		return nil, err
	}
	l, err := model.Load(&model.Source{Name: "modes", Config: config, Set: set},
		model.Options{Backend: cpu.New(cpu.Options{Threads: threads})})
	if err != nil {
		return nil, err
	}
	return l.Denoiser, nil
}
