//go:build unix

// Command modes times a reply of Nemotron-Labs-Diffusion-3B's shapes in its three modes: left to
// right, block diffusion, and self-speculation. It shows which is fastest on this machine for an
// assumed share of right drafts or sure positions, which decides the default of the model's recipe.
//
//	go run ./tools/peers/modes [-layers 2] [-threads 2] [-new 64] [-sure 0.3,0.5,0.7,0.85] \
//		[-turns 10] [-file FILE.gguf] [-json]
//
// Then it times a conversation with and without the keys and values of earlier turns.
//
// Weights are random Q4_K: two of the 26 layers and a small vocabulary, or those of a file that
// tools/make8b wrote. Random weights are sure of nothing, so that is given: a drafted token is
// right, and a masked position of block diffusion is sure, with this probability. For the 8B its
// authors report 6.82 tokens for each draft of 31, which is 0.85 of right drafts, and 2.6 to 3
// tokens a pass of diffusion, which is 0.3 of sure positions. tools/peers/llamacpp.py times
// llama.cpp too.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"unmask/backend/cpu"
	"unmask/bench"
	"unmask/generate"
	"unmask/internal/philox"
	"unmask/model"
	"unmask/weights"
)

const vocab, prompt = 4096, 128 // tokens, and positions

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
	sure := flag.String("sure", "0.3,0.5,0.7,0.85", "shares of right drafts and of sure positions")
	turns := flag.Int("turns", 10, "turns of the conversation, 0 for none")
	file := flag.String("file", "", "a GGUF file of Nemotron-Labs-Diffusion's")
	lines := flag.Bool("json", false, "print JSON lines, and no conversation")
	flag.Parse()
	m, err := load(*file, *layers, *threads)
	if err == nil {
		err = run(m, *tokens, *sure, *lines)
	}
	if err == nil && !*lines && *turns > 0 {
		err = conversation(m.Denoiser, *turns)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "modes:", err)
		os.Exit(1)
	}
}

func run(m *model.Loaded, tokens int, sure string, lines bool) error {
	if !lines {
		fmt.Printf("%d layers, %d + %d positions\n", m.Info.Sizes["blocks"], prompt, tokens)
		fmt.Println("sure  mode                      passes  tokens a pass   seconds  tokens a second")
	}
	for text := range strings.SplitSeq(sure, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("sure is %q, want numbers of 0 to 1", text)
		}
		for _, mode := range modes {
			passes, seconds, err := reply(m.Denoiser, mode.recipe, mode.drafts, share, tokens)
			if err != nil {
				return err
			}
			if lines {
				line := map[string]any{"sure": share, "mode": mode.name, "passes": passes, "seconds": seconds}
				if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
					return err
				}
				continue
			}
			fmt.Printf("%-5s %-25s %6d  %13.2f  %8.2f  %15.2f\n", text, mode.name, passes,
				float64(tokens)/float64(passes), seconds, float64(tokens)/seconds)
		}
	}
	return nil
}

// reply makes one reply, and times it with the prompt's pass.
func reply(m model.Denoiser, recipe string, drafts bool, share float64, tokens int) (passes int,
	seconds float64, err error) {
	r, err := generate.ParseRecipe(recipe)
	if err != nil {
		return 0, 0, err
	}
	o := generate.Options{Request: generate.Request{Recipe: r,
		Known: slices.Repeat([]int32{m.Spec().Mask}, prompt+tokens)}}
	for i := range prompt {
		o.Known[i] = int32(200 + i*61%(vocab-200))
	}
	steps := 0
	o.Adjust = func(position int, logits []float32) {
		chance := philox.Stream{Seed: 1, Step: uint32(steps)}.Uniform(position, philox.Order)
		switch drafting := drafts && steps%2 == 1; {
		case drafting && chance >= share: // another token than the check's
			logits[300+position] += 1000
		case drafts || chance < share:
			logits[1000+position] += 1000
		}
	}
	began := time.Now()
	for step, err := range generate.Run(context.Background(), m, o) {
		if err != nil {
			return 0, 0, err
		}
		steps = step.N
	}
	return steps, time.Since(began).Seconds(), nil
}

// load makes the network, or reads it from a file.
func load(file string, layers, threads int) (*model.Loaded, error) {
	var src *model.Source
	var err error
	if file != "" {
		src, err = model.Open(file)
	} else {
		sizes := bench.Nemotron3B
		sizes.Layers, sizes.Vocab, sizes.Length = layers, vocab, 4096
		src, err = bench.Random("mistral3", sizes, weights.Q4_K)
	}
	if err != nil {
		return nil, err
	}
	return model.Load(src, model.Options{Backend: cpu.New(cpu.Options{Threads: threads})})
}
