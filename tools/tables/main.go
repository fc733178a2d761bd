// Command tables measures the samplers on the embedded models and prints the tables of
// docs/samplers.md into the page, each after the comment that names it.
//
//	go run ./tools/tables           the points that docs/samplers/*.jsonl lack, then the page
//	go run ./tools/tables -again    all points, for other weights
//	go run ./tools/tables -n 4 -page page.md -results trial    a trial, with 4 samples a point
//
// Run it in the repository's root, on a machine that does nothing else: the last column is time.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"unmask/cli"
	"unmask/internal/atomicfile"
	"unmask/research/experiments"
)

// plans is the folder of the tables' plans and results.
const plans = "docs/samplers"

// page is the page of the tables.
const page = "docs/samplers.md"

func main() {
	again := flag.Bool("again", false, "forget the results that are there")
	n := flag.Int("n", 0, "samples of a point; 0 for those of the plans")
	to := flag.String("page", page, "the Markdown file whose tables are replaced")
	results := flag.String("results", plans, "the folder of results")
	flag.Parse()
	if err := run(*again, *n, *to, *results); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(again bool, n int, to, results string) error {
	text, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	for _, t := range tables {
		out := filepath.Join(results, t.name+".jsonl")
		if again {
			if err := os.Remove(out); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
		for _, plan := range t.plans {
			if err := measure(plan, out, results, n); err != nil {
				return err
			}
		}
		_, measured, _, err := experiments.ReadJournal(out)
		if err != nil {
			return err
		}
		if text, err = t.into(text, measured); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	if text, err = exactness(text, again, n, results); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	return atomicfile.Put(to, text)
}

// exactness compares the samplers with the truth, as unmask eval exactness does, and returns the
// page with the tables and, in the folder of results, the figure.
func exactness(page []byte, again bool, n int, folder string) ([]byte, error) {
	out := filepath.Join(folder, "exactness.jsonl")
	if again {
		if err := os.Remove(out); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	args := []string{"eval", "exactness", "--out", out, "--plot", folder, "--threads", "1", "--device",
		"cpu", "--json"}
	if n != 0 {
		args = append(args, "-n", fmt.Sprint(n))
	}
	if status := cli.Main(args); status != 0 {
		return nil, fmt.Errorf("%s: the comparison ended with status %d", out, status)
	}
	_, measured, _, err := experiments.ReadJournal(out)
	if err != nil {
		return nil, err
	}
	return intoExactness(page, measured)
}

var count = regexp.MustCompile(`(?m)^n: .*$`)

// measure sweeps a plan into out, as unmask sweep does on one thread, with n samples a point where
// n is not 0.
func measure(plan, out, folder string, n int) error {
	name := filepath.Join(plans, plan+".yaml")
	if n != 0 {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name = filepath.Join(folder, fmt.Sprintf("%s-%d.yaml", plan, n))
		text = count.ReplaceAll(text, fmt.Appendf(nil, "n: %d", n))
		if err := atomicfile.Put(name, text); err != nil {
			return err
		}
	}
	args := []string{"sweep", name, "--out", out, "--threads", "1", "--device", "cpu"}
	if status := cli.Main(args); status != 0 {
		return fmt.Errorf("%s: the sweep ended with status %d", name, status)
	}
	return nil
}
