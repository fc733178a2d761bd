//go:build unix

// Command reply times a whole answer of LLaDA-8B's shapes by the authors' plain loop, which passes
// over everything at every step, by Fast-dLLM's dual cache with a threshold (Wu et al., 2025), and
// with the delayed cache in blocks of 32 and of 8 and a suffix window, in turn. It counts the
// passes and takes wall and processor seconds of each.
//
//	go run ./tools/peers/reply [-as q4_k] [-layers 2] [-threads 2] [-rounds 3] [-new 128] \
//		[-sure 0,0.1,0.25] [-plain=false] [-file FILE.gguf] [-json]
//
// Weights are random: two of the 32 layers and a small vocabulary, or those of a file that
// tools/make8b wrote. How many positions a pass opens is the model's own confidence, which random
// weights do not have: here a pass is sure of each masked position with a probability that is
// given, and all loops take the same time for that. Passes an answer are to be read beside those
// of published weights (Fast-dLLM reports 2 to 4 tokens a pass for LLaDA: about 0.1).
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

// loops are the recipes, for a number of steps: one for each position.
var loops = []struct{ name, recipe string }{
	{"plain", "semi-ar(low-confidence,block=32) schedule=llada steps=%d"},
	{"dual, threshold 0.9", "semi-ar(greedy(threshold(theta=0.9)),block=32) steps=%d reuse=dual"},
	{"block-dkv, threshold 0.9",
		"semi-ar(greedy(threshold(theta=0.9)),block=32) steps=%d reuse=block-dkv window=32"},
	{"block-dkv, threshold 0.9, blocks of 8",
		"semi-ar(greedy(threshold(theta=0.9)),block=8) steps=%d reuse=block-dkv window=8"},
}

func main() {
	as := flag.String("as", "q4_k", "the weights' type: q4_k, q8_0 or bf16")
	layers := flag.Int("layers", 2, "layers, of LLaDA-8B's 32")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "threads")
	rounds := flag.Int("rounds", 3, "answers of each loop, of which the fastest counts")
	answer := flag.Int("new", 128, "positions of the answer, a multiple of 32")
	sure := flag.String("sure", "0,0.1,0.25", "shares of the masked positions that a pass is sure of")
	plain := flag.Bool("plain", true, "time the plain loop too, once")
	file := flag.String("file", "", "a GGUF file of LLaDA's")
	lines := flag.Bool("json", false, "print JSON lines")
	flag.Parse()
	m, err := load(*file, *as, *layers, *threads)
	if err == nil {
		err = run(m, *rounds, *answer, *sure, *plain, *lines)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reply:", err)
		os.Exit(1)
	}
}

func run(m *model.Loaded, rounds, answer int, sure string, plain, lines bool) error {
	if answer < 32 || answer%32 != 0 {
		return fmt.Errorf("new is %d, want a multiple of 32", answer)
	}
	if !lines {
		fmt.Printf("%d layers, %d + %d positions\n", m.Info.Sizes["blocks"], prompt, answer)
		fmt.Println("sure   loop                                  passes  rows of layers     seconds   processor seconds")
	}
	best := make([]took, len(loops))
	for text := range strings.SplitSeq(sure, ",") {
		t, err := strconv.ParseFloat(text, 64)
		if err != nil || !(t >= 0 && t <= 1) {
			return fmt.Errorf("sure is %q, want numbers of 0 to 1", text)
		}
		from := 1 // of the plain loop a pass opens one position, however sure it is
		if plain && best[0].passes == 0 {
			from = 0
		}
		clear(best[1:])
		for range rounds {
			for i, l := range loops {
				if i < from {
					continue
				}
				one, err := reply(m, l.recipe, answer, t)
				if err != nil {
					return err
				}
				if best[i].cpu == 0 || one.cpu < best[i].cpu {
					best[i] = one
				}
			}
		}
		for i, l := range loops {
			b := best[i]
			if i < from {
				continue
			}
			if lines {
				line := map[string]any{"sure": t, "mode": l.name, "passes": b.passes, "seconds": b.wall}
				if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
					return err
				}
				continue
			}
			fmt.Printf("%-6s %-37s %6d %15d  %10.2f  %10.2f\n", text, l.name, b.passes, b.rows, b.wall,
				b.cpu)
		}
		if lines || !plain {
			continue
		}
		for i, b := range best[1:] {
			fmt.Printf("       plain / %s: %.1f x the passes, %.1f x the seconds, %.1f x the processor's\n",
				loops[i+1].name, float64(best[0].passes)/float64(b.passes), best[0].wall/b.wall,
				best[0].cpu/b.cpu)
		}
	}
	return nil
}

// took is what an answer took.
type took struct {
	passes, rows int
	wall, cpu    float64
}

// reply makes one answer.
func reply(m *model.Loaded, recipe string, answer int, sure float64) (took, error) {
	r, err := generate.ParseRecipe(fmt.Sprintf(recipe, answer))
	if err != nil {
		return took{}, err
	}
	o := generate.Options{Request: generate.Request{Recipe: r,
		Known: slices.Repeat([]int32{m.Spec().Mask}, prompt+answer)}}
	for i := range prompt {
		o.Known[i] = int32(i * 61 % (vocab - 2))
	}
	var out took
	o.Adjust = func(position int, logits []float32) { // the chance is of position and pass
		chance := philox.Stream{Seed: 1, Step: uint32(out.passes)}
		if chance.Uniform(position, philox.Order) < sure {
			logits[position] += 1000
		}
	}
	began, before := time.Now(), processor.Seconds()
	for step, err := range generate.Run(context.Background(), m.Denoiser, o) {
		if err != nil {
			return out, err
		}
		e := step.Sequences[0].Evaluated
		out.passes, out.rows = step.N, e.Full*len(o.Known)+e.Partial
	}
	out.wall, out.cpu = time.Since(began).Seconds(), processor.Seconds()-before
	return out, nil
}

// load makes the network, or reads it from a file.
func load(file, as string, layers, threads int) (*model.Loaded, error) {
	types := map[string]weights.DType{"q4_k": weights.Q4_K, "q8_0": weights.Q8_0, "bf16": weights.BF16}
	t, ok := types[as]
	if !ok {
		return nil, fmt.Errorf("as is %q, want q4_k, q8_0 or bf16", as)
	}
	var src *model.Source
	var err error
	if file != "" {
		src, err = model.Open(file)
	} else {
		sizes := bench.LLaDA8B
		sizes.Layers, sizes.Vocab, sizes.Length = layers, vocab, prompt+256
		src, err = bench.Random("llada", sizes, t)
	}
	if err != nil {
		return nil, err
	}
	return model.Load(src, model.Options{Backend: cpu.New(cpu.Options{Threads: threads})})
}
