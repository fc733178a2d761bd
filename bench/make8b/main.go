// Command make8b writes a GGUF file of LLaDA-8B's sizes with random weights, for measurements: Q4_K
// with the head and the embeddings in Q6_K (4.8 GB), or Q8_0 (8.5 GB).
//
//	go run ./bench/make8b 8b.gguf [q8_0]
package main

import (
	"fmt"
	"io"
	"os"

	"unmask/bench"
	"unmask/internal/whole"
	"unmask/weights"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 || len(os.Args) == 3 && os.Args[2] != "q8_0" {
		fmt.Fprintln(os.Stderr, "usage: make8b OUT.gguf [q8_0]")
		os.Exit(2)
	}
	as, head := weights.Q4_K, weights.Q6_K
	if len(os.Args) == 3 {
		as, head = weights.Q8_0, weights.Q8_0
	}
	const layers, vocab, length = 32, 126464, 4096
	err := whole.WriteFile(os.Args[1],
		func(w io.Writer) error { return bench.WriteLLaDA(w, as, head, layers, vocab, length) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "make8b:", err)
		os.Exit(1)
	}
}
