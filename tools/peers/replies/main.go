//go:build unix

// Command replies times a reply of LLaDA-8B's shapes, or of Nemotron-Labs-Diffusion-3B's, by each
// of the loops that decode it, in turn. It shows which is fastest on this machine for an assumed
// share of sure positions, or of right drafts.
//
//	go run ./tools/peers/replies [-like nemotron-3b] [-layers 2] [-threads 2] [-new 128] \
//		[-sure 0.1,0.25] [-rounds 3] [-plain=false] [-file FILE.gguf] [-json]
//
// Weights are random Q4_K: two of the model's layers and a small vocabulary, or those of a file
// that tools/makemodel wrote. Random weights are sure of nothing, so that is given: a masked
// position is sure, and a drafted token right, with this probability. For the 8B the authors of
// Nemotron-Labs-Diffusion report 6.82 tokens for each draft of 31, which is 0.85 of right drafts,
// and 2.6 to 3 tokens a pass of diffusion, which is 0.3 of sure positions; Fast-dLLM reports 2 to 4
// tokens a pass for LLaDA, which is about 0.1. tools/peers/llamacpp.py times llama.cpp too.
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
	"unmask/internal/processor"
	"unmask/model"
	"unmask/weights"
)

const (
	prompt = 128  // positions
	vocab  = 4000 // fewer than the rows after which those of random weights repeat
)

// loop is a way to decode a reply: a recipe, in which steps=all is a step for each token.
type loop struct {
	name, recipe string
	drafts       bool // every other pass drafts tokens, which the next one checks
	plain        bool // a pass opens one token, however sure it is
}

// models are those whose sizes are known, with their loops. Of LLaDA they are the authors' own one,
// which passes over everything at every step, Fast-dLLM's dual cache with a threshold (Wu et al.
// 2025), and the delayed cache with a suffix window; of Nemotron-Labs-Diffusion its three modes.
var models = map[string]struct {
	arch  string
	sizes bench.Sizes
	loops []loop
}{
	"llada-8b": {"llada", bench.LLaDA8B, []loop{
		{name: "plain", recipe: "semi-ar(low-confidence,block=32) schedule=llada steps=all", plain: true},
		{name: "dual, threshold 0.9",
			recipe: "semi-ar(greedy(threshold(theta=0.9)),block=32) steps=all reuse=dual"},
		{name: "block-dkv, threshold 0.9",
			recipe: "semi-ar(greedy(threshold(theta=0.9)),block=32) steps=all reuse=block-dkv window=32"},
		{name: "block-dkv, threshold 0.9, blocks of 8",
			recipe: "semi-ar(greedy(threshold(theta=0.9)),block=8) steps=all reuse=block-dkv window=8"},
	}},
	"nemotron-3b": {"mistral3", bench.Nemotron3B, []loop{
		{name: "ar", recipe: "low-confidence reuse=causal block-size=1"},
		{name: "diffusion, blocks of 32", recipe: "greedy(threshold) reuse=causal block-size=32"},
		{name: "diffusion, blocks of 8", recipe: "greedy(threshold) reuse=causal block-size=8"},
		{name: "self-speculation of 4", recipe: "self-speculation(block=4) reuse=causal", drafts: true},
		{name: "self-speculation of 8", recipe: "self-speculation(block=8) reuse=causal", drafts: true},
		{name: "self-speculation of 32", recipe: "self-speculation(block=32) reuse=causal", drafts: true},
	}},
}

// options are the command's flags.
type options struct {
	like, sure, file string
	layers, threads  int
	rounds, tokens   int
	plain, lines     bool
}

func main() {
	var o options
	flag.StringVar(&o.like, "like", "llada-8b", "whose sizes and loops: llada-8b or nemotron-3b")
	flag.IntVar(&o.layers, "layers", 2, "layers, of LLaDA-8B's 32 or the 3B's 26")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "threads")
	flag.IntVar(&o.rounds, "rounds", 1, "replies of each loop, of which the fastest counts")
	flag.IntVar(&o.tokens, "new", 64, "tokens of the reply, a multiple of 32")
	flag.StringVar(&o.sure, "sure", "0.1,0.3,0.5,0.7,0.85", "shares of sure positions, or right drafts")
	flag.BoolVar(&o.plain, "plain", true, "time LLaDA's plain loop too, once")
	flag.StringVar(&o.file, "file", "", "a GGUF file of the model's family")
	flag.BoolVar(&o.lines, "json", false, "print JSON lines")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "replies:", err)
		os.Exit(1)
	}
}

func (o *options) run() error {
	of, ok := models[o.like]
	switch {
	case !ok:
		return fmt.Errorf("like is %q, want llada-8b or nemotron-3b", o.like)
	case o.tokens < 32 || o.tokens%32 != 0:
		return fmt.Errorf("new is %d, want a multiple of 32", o.tokens)
	case o.rounds < 1:
		return fmt.Errorf("rounds is %d, want at least 1", o.rounds)
	}
	sizes := of.sizes
	sizes.Layers, sizes.Vocab, sizes.Length = o.layers, vocab, 4096
	m, err := o.load(of.arch, sizes)
	if err != nil {
		return err
	}
	if !o.lines {
		fmt.Printf("%d layers, %d + %d positions\n", m.Info.Sizes["blocks"], prompt, o.tokens)
		fmt.Printf("%-5s %-38s %6s  %13s  %8s  %11s  %15s\n", "sure", "loop", "passes",
			"tokens a pass", "seconds", "processor's", "tokens a second")
	}
	first := true
	for text := range strings.SplitSeq(o.sure, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("sure is %q, want numbers of 0 to 1", text)
		}
		for _, l := range of.loops {
			if l.plain && !(o.plain && first) {
				continue
			}
			best, err := o.fastest(m.Denoiser, l, share)
			if err != nil {
				return err
			}
			if err := o.print(text, share, l, best); err != nil {
				return err
			}
		}
		first = false
	}
	return nil
}

// fastest returns the fastest of some rounds.
func (o *options) fastest(m model.Denoiser, l loop, share float64) (best took, err error) {
	for range o.rounds {
		one, err := reply(m, l, share, o.tokens)
		if err != nil {
			return best, err
		}
		if best.passes == 0 || one.seconds < best.seconds {
			best = one
		}
	}
	return best, nil
}

func (o *options) print(text string, share float64, l loop, t took) error {
	if o.lines {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"sure": share, "mode": l.name,
			"passes": t.passes, "seconds": t.seconds})
	}
	tokens := float64(o.tokens)
	_, err := fmt.Printf("%-5s %-38s %6d  %13.2f  %8.2f  %11.2f  %15.2f\n", text, l.name, t.passes,
		tokens/float64(t.passes), t.seconds, t.processor, tokens/t.seconds)
	return err
}

// took is what a reply took, with the prompt's pass.
type took struct {
	passes             int
	seconds, processor float64
}

// reply makes one reply.
func reply(m model.Denoiser, l loop, share float64, tokens int) (t took, err error) {
	r, err := generate.ParseRecipe(strings.ReplaceAll(l.recipe, "steps=all",
		fmt.Sprintf("steps=%d", tokens)))
	if err != nil {
		return t, err
	}
	o := generate.Options{Request: generate.Request{Recipe: r,
		Known: slices.Repeat([]int32{m.Spec().Mask}, prompt+tokens)}}
	for i := range prompt {
		o.Known[i] = int32(200 + i*61%(vocab-202))
	}
	o.Adjust = func(position int, logits []float32) { // the chance is of position and pass
		chance := philox.Stream{Seed: 1, Step: uint32(t.passes)}.Uniform(position, philox.Order)
		switch drafting := l.drafts && t.passes%2 == 1; {
		case drafting && chance >= share: // another token than the check's
			logits[300+position] += 1000
		case l.drafts || chance < share:
			logits[1000+position] += 1000
		}
	}
	began, before := time.Now(), processor.Seconds()
	for step, err := range generate.Run(context.Background(), m, o) {
		if err != nil {
			return t, err
		}
		t.passes = step.N
	}
	t.seconds, t.processor = time.Since(began).Seconds(), processor.Seconds()-before
	return t, nil
}

// load makes the network, or reads it from a file.
func (o *options) load(arch string, sizes bench.Sizes) (*model.Loaded, error) {
	var src *model.Source
	var err error
	if o.file != "" {
		src, err = model.Open(o.file)
	} else {
		src, err = bench.RandomSource(arch, sizes, weights.Q4_K)
	}
	if err != nil {
		return nil, err
	}
	return model.Load(src, model.Options{Backend: cpu.New(cpu.Options{Threads: o.threads})})
}
