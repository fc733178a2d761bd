// Command make8b writes a GGUF file of LLaDA-8B's sizes with random weights, for measurements: Q4_K
// with the head and the embeddings in Q6_K (4.8 GB), or Q8_0 (8.5 GB). With -layers it has fewer
// than 32 layers, a vocabulary of 1024, and one type for all matrices.
//
//	go run ./bench/make8b [-layers 2] 8b.gguf [q4_k or q8_0]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"unmask/bench"
	"unmask/internal/atomicfile"
	"unmask/weights"
)

func main() {
	layers := flag.Int("layers", 32, "layers, 1 to 32")
	flag.Parse()
	args := flag.Args()
	types := map[string]weights.DType{"": weights.Q4_K, "q4_k": weights.Q4_K, "q8_0": weights.Q8_0}
	kind := ""
	if len(args) == 2 {
		kind = args[1]
	}
	as, known := types[kind]
	if len(args) < 1 || len(args) > 2 || !known || *layers < 1 || *layers > 32 {
		fmt.Fprintln(os.Stderr, "usage: make8b [-layers 1 to 32] OUT.gguf [q4_k or q8_0]")
		os.Exit(2)
	}
	head, vocab, length := as, 126464, 4096
	switch {
	case *layers < 32:
		vocab = 1024
	case as == weights.Q4_K:
		head = weights.Q6_K
	}
	err := atomicfile.WriteFile(args[0],
		func(w io.Writer) error { return bench.WriteLLaDA(w, as, head, *layers, vocab, length) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "make8b:", err)
		os.Exit(1)
	}
}
