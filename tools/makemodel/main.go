// Command makemodel writes a model of a published size with random weights, for measurements: a
// GGUF file of LLaDA-8B's sizes or, with -like, of another model's, or the folder of SDTT's small
// student (lm12, 0.34 GB) or of MAGE-B with its VQGAN (mage, 0.4 GB). In Q4_K the head and the
// embeddings are in Q6_K, as llama.cpp's own files have them: 4.8 GB of the 8B, 2.4 GB of the 3B.
// With -layers it has fewer layers, a vocabulary of 1024 unless -vocab gives another, and one type
// for all matrices. -arch llama makes a model that decodes from left to right in other programs.
//
//	go run ./tools/makemodel [-like nemotron-3b] [-arch llama] [-layers 2] [-vocab 4096] \
//		OUT.gguf [q4_k or q8_0]
//	go run ./tools/makemodel -like lm12 DIR
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"

	"unmask/bench"
	"unmask/internal/atomicfile"
	"unmask/weights"
)

// smallVocabulary is the default number of tokens of a model with fewer layers: a full vocabulary
// would be most of such a file.
const smallVocabulary = 1024

func main() {
	like := flag.String("like", "llada-8b",
		"whose sizes: llada-8b, dream-7b, nemotron-3b, llada-moe, lm12 or mage")
	arch := flag.String("arch", "", "llama, or nothing for the model's own")
	layers := flag.Int("layers", 0, "layers, 0 for all")
	vocab := flag.Int("vocab", 0, "tokens, 0 for all or, with fewer layers, 1024")
	flag.Parse()

	if (*like == "lm12" || *like == "mage") && flag.NArg() == 1 {
		exitOnError(bench.WritePublished(flag.Arg(0), *like))
		return
	}

	models := map[string]struct {
		bench.Sizes
		arch string
	}{
		"llada-8b":    {bench.LLaDA8B, "llada"},
		"nemotron-3b": {bench.Nemotron3B, "mistral3"},
		"llada-moe":   {bench.LLaDAMoE, "llada-moe"},
		"dream-7b":    {bench.Dream7B, "dream"},
	}
	types := map[string]weights.DType{
		"":     weights.Q4_K,
		"q4_k": weights.Q4_K,
		"q8_0": weights.Q8_0,
	}
	m, isModel := models[*like]
	bodyType, isType := types[flag.Arg(1)]
	allLayers := m.Layers

	isUsage := isModel && isType &&
		(flag.NArg() == 1 || flag.NArg() == 2) &&
		*layers >= 0 && *layers <= allLayers &&
		*vocab >= 0 && *vocab <= m.Vocab &&
		(*arch == "" || *arch == "llama")
	if !isUsage {
		flag.Usage()
		fmt.Fprintln(os.Stderr, "then OUT.gguf, and q4_k or q8_0; or DIR of lm12 or mage")
		os.Exit(2)
	}

	headType := bodyType
	m.Length = 4096
	m.Layers = cmp.Or(*layers, allLayers)
	if m.Layers < allLayers {
		m.Vocab = cmp.Or(*vocab, smallVocabulary)
	} else {
		m.Vocab = cmp.Or(*vocab, m.Vocab)
		if bodyType == weights.Q4_K {
			headType = weights.Q6_K
		}
	}
	exitOnError(atomicfile.WriteFile(flag.Arg(0), func(w io.Writer) error {
		return bench.WriteGGUF(w, cmp.Or(*arch, m.arch), m.Sizes, bodyType, headType)
	}))
}

// exitOnError ends the program where something failed.
func exitOnError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "makemodel:", err)
		os.Exit(1)
	}
}
