// Command makemodel writes a model of a published size with random weights, for measurements:
// lm12, SDTT's small student (0.34 GB), or mage, MAGE-B with its VQGAN (0.4 GB).
//
//	go run ./tools/makemodel lm12 DIR
package main

import (
	"fmt"
	"os"

	"unmask/bench"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: makemodel lm12|mage DIR")
		os.Exit(2)
	}
	if err := bench.WritePublished(os.Args[2], os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "makemodel:", err)
		os.Exit(1)
	}
}
