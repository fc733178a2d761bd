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
	// promptLength is the number of positions before the reply.
	promptLength = 128

	// vocabulary is the number of tokens. Rows of random weights repeat after some more than these,
	// and two equal rows would give two tokens the same logit.
	vocabulary = 4000
)

// loop is a way to decode a reply.
type loop struct {
	name string

	// recipe is as generate.ParseRecipe reads it, but steps=all means a step for each token.
	recipe string

	// drafts is set if every other pass drafts tokens, which the next one checks.
	drafts bool

	// plain is set if a pass opens one token, however sure the network is of others. Its time does
	// not depend on the share of sure positions.
	plain bool
}

// family is a published model whose sizes are known, with its loops.
type family struct {
	arch  string
	sizes bench.Sizes
	loops []loop
}

// families has, for LLaDA, the authors' own loop, which passes over everything at every step,
// Fast-dLLM's dual cache with a threshold (Wu et al. 2025), and the delayed cache with a suffix
// window; for Nemotron-Labs-Diffusion its three modes.
var families = map[string]family{
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

// options are the command's flags, which main describes.
type options struct {
	like    string
	sure    string
	file    string
	layers  int
	threads int
	rounds  int
	tokens  int
	plain   bool
	lines   bool
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

// run measures replies with each of the loops, at each share of positions that are sure.
func (o *options) run() error {
	published, ok := families[o.like]
	if !ok {
		return fmt.Errorf("like is %q, want llada-8b or nemotron-3b", o.like)
	}
	if o.tokens < 32 || o.tokens%32 != 0 {
		return fmt.Errorf("new is %d, want a multiple of 32", o.tokens)
	}
	if o.rounds < 1 {
		return fmt.Errorf("rounds is %d, want at least 1", o.rounds)
	}

	sizes := published.sizes
	sizes.Layers = o.layers
	sizes.Vocab = vocabulary
	sizes.Length = 4096
	m, err := o.loadNetwork(published.arch, sizes)
	if err != nil {
		return err
	}

	if !o.lines {
		fmt.Printf("%d layers, %d + %d positions\n", m.Info.Sizes["blocks"], promptLength,
			o.tokens)
		fmt.Printf("%-5s %-38s %6s  %13s  %8s  %11s  %15s\n", "sure", "loop", "passes",
			"tokens a pass", "seconds", "processor's", "tokens a second")
	}

	isFirstShare := true
	for text := range strings.SplitSeq(o.sure, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("sure is %q, want numbers of 0 to 1", text)
		}
		for _, l := range published.loops {
			if l.plain && !(o.plain && isFirstShare) {
				continue
			}
			fastest, err := o.measureFastest(m.Denoiser, l, share)
			if err != nil {
				return err
			}
			if err := o.printCost(text, share, l, fastest); err != nil {
				return err
			}
		}
		isFirstShare = false
	}
	return nil
}

// measureFastest makes a reply in each round and returns the cost of the fastest, which other
// programs on the machine have disturbed least.
func (o *options) measureFastest(m model.Denoiser, l loop, share float64) (fastest cost,
	err error) {
	for range o.rounds {
		c, err := measureReply(m, l, share, o.tokens)
		if err != nil {
			return fastest, err
		}
		if fastest.passes == 0 || c.seconds < fastest.seconds {
			fastest = c
		}
	}
	return fastest, nil
}

// printCost prints what a reply costs, as a line of a table or of JSON.
func (o *options) printCost(text string, share float64, l loop, c cost) error {
	if o.lines {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{
			"sure":    share,
			"mode":    l.name,
			"passes":  c.passes,
			"seconds": c.seconds,
		})
	}
	tokens := float64(o.tokens)
	_, err := fmt.Printf("%-5s %-38s %6d  %13.2f  %8.2f  %11.2f  %15.2f\n", text, l.name, c.passes,
		tokens/float64(c.passes), c.seconds, c.processorSeconds, tokens/c.seconds)
	return err
}

// cost is that of a reply, with the prompt's pass.
type cost struct {
	passes           int
	seconds          float64 // of wall time
	processorSeconds float64
}

// measureReply makes one reply of some tokens. share is the probability that a masked position is
// sure, or that a drafted token is right.
func measureReply(m model.Denoiser, l loop, share float64, tokens int) (c cost, err error) {
	recipe, err := generate.ParseRecipe(strings.ReplaceAll(l.recipe, "steps=all",
		fmt.Sprintf("steps=%d", tokens)))
	if err != nil {
		return c, err
	}
	o := generate.Options{Request: generate.Request{
		Recipe: recipe,
		Known:  slices.Repeat([]int32{m.Spec().Mask}, promptLength+tokens),
	}}
	for i := range promptLength {
		o.Known[i] = int32(200 + i*61%(vocabulary-202))
	}

	// A logit that is 1000 higher makes its token sure. Whether a position is sure depends on the
	// position and the pass alone, so all loops meet the same chances.
	o.Adjust = func(position int, logits []float32) {
		chance := philox.Stream{Seed: 1, Step: uint32(c.passes)}.Uniform(position, philox.Order)
		isDraft := l.drafts && c.passes%2 == 1
		if isDraft && chance >= share {
			logits[300+position] += 1000 // not the token that the check will find
		} else if l.drafts || chance < share {
			logits[1000+position] += 1000
		}
	}

	start := time.Now()
	startProcessor := processor.Seconds()
	for step, err := range generate.Run(context.Background(), m, o) {
		if err != nil {
			return c, err
		}
		c.passes = step.N
	}
	c.seconds = time.Since(start).Seconds()
	c.processorSeconds = processor.Seconds() - startProcessor
	return c, nil
}

// loadNetwork makes a network with random weights, or reads that of a file.
func (o *options) loadNetwork(arch string, sizes bench.Sizes) (*model.Loaded, error) {
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
