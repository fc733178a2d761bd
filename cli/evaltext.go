package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/demo"
	"unmask/experiments"
	"unmask/internal/whole"
	"unmask/judges"
	"unmask/metrics"
	"unmask/terminal"
)

// evalTextFlags are those of unmask eval text.
type evalTextFlags struct {
	deviceFlags
	name string // of the judge
	mdlm bool
	json bool

	stories        bool
	found, chances int // contradictions
}

func newEvalText() *cobra.Command {
	var f evalTextFlags
	cmd := &cobra.Command{
		Use:   "text FILE.jsonl",
		Short: "Measure text: the lines of unmask text --json",
		Args:  exactly(1, "a FILE.jsonl of unmask text --json"),
		Example: `  unmask text -n 64 --json --out samples.jsonl && unmask eval text samples.jsonl
  unmask eval text samples.jsonl --judge openai-community/gpt2-large`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0]) },
	}
	f.registerCompute(cmd.Flags())
	cmd.Flags().StringVar(&f.name, "judge", demoText, "a GPT-2 `MODEL`: demo (embedded), a directory, or org/name[@revision] on the hub; or an exact one such as oracle:markov:length=16,tokens=4")
	cmd.Flags().BoolVar(&f.mdlm, "mdlm", false, "perplexity as MDLM's code has it: text in GPT-2's own tokens, the mean over tokens; otherwise as SDTT's, raw ids, the mean over samples")
	cmd.Flags().BoolVar(&f.stories, "stories", false,
		"count how often stories contradict themselves: of texts of a model of demo/recipe/stories.py")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object: samples, metrics")
	return cmd
}

// textLine is what is read of a line; unmask text writes more.
type textLine struct {
	ID         *int    `json:"id"`
	Seed       uint64  `json:"seed"`
	IDs        []int32 `json:"ids"`
	Text       string  `json:"text"`
	Unfinished bool    `json:"unfinished"`
}

// textBatch is how many samples are judged at once.
const textBatch = 32

// maxTextLine bounds a line, in bytes.
const maxTextLine = 16 << 20

func (f *evalTextFlags) run(ctx context.Context, name string) error {
	o, err := f.deviceFlags.judge(nil)
	if err != nil {
		return err
	}
	if info, err := os.Stat(name); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a %s, want a file", name, whole.Kind(info))
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	judge, err := f.load(ctx, o)
	if err != nil {
		return err
	}
	scorer := &experiments.TextScorer{Judge: judge.Judge}
	if f.mdlm {
		if scorer.Retokenize, err = judge.Retokenize(); err != nil {
			return usage("--mdlm: %v", err)
		}
	}
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	n, short, err := f.score(ctx, scorer, judge, name, in)
	if err != nil {
		return err
	}
	if n == short && n > 0 {
		return fmt.Errorf("%s: no sample has 2 tokens or more", name)
	}
	m, err := scorer.Metrics(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f.stories {
		if f.chances == 0 {
			return fmt.Errorf("%s: no story in which anything could contradict itself", name)
		}
		m["contradictions"] = experiments.Measure{Value: float64(f.found) / float64(f.chances)}
	}
	return evaluation{n - short, m, short}.print(f.json)
}

// load loads the judge.
func (f *evalTextFlags) load(ctx context.Context, o judges.Options) (*judges.Judge, error) {
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	judge, err := judges.LoadText(ctx, judgeName(f.name, ""), o)
	if errors.Is(err, unmask.ErrName) {
		return nil, usage("--judge: %v", errors.Unwrap(err))
	}
	return judge, err
}

// score reads and judges the lines, a few at a time, and returns how many there are, and how many
// of these are too short: a judge says nothing of a first token.
func (f *evalTextFlags) score(ctx context.Context, s *experiments.TextScorer, judge metrics.Judge, name string, in io.Reader) (n, short int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTextLine)
	p := terminal.NewProgress("samples", -1)
	defer p.Close()
	var ids [][]int32
	var texts []string
	type sample struct {
		seed uint64
		id   int
	}
	seen := map[sample]int{} // lines
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		var err error
		if f.mdlm {
			err = s.AddTexts(ctx, ids, texts)
		} else {
			err = s.Add(ctx, ids)
		}
		p.Add(int64(len(ids)))
		ids, texts = ids[:0], texts[:0]
		return err
	}
	for lines.Scan() {
		n++
		l, err := parseTextLine(lines.Bytes())
		if err != nil {
			return n, short, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		if line := seen[sample{l.Seed, *l.ID}]; line > 0 {
			return n, short, fmt.Errorf("%s: line %d: sample %d of seed %d is on line %d already, want each once",
				name, n, *l.ID, l.Seed, line)
		}
		seen[sample{l.Seed, *l.ID}] = n
		if f.stories {
			found, chances := demo.Contradictions(l.Text)
			f.found, f.chances = f.found+found, f.chances+chances
		}
		if len(l.IDs) < 2 {
			short++
			continue
		}
		ids, texts = append(ids, l.IDs), append(texts, l.Text)
		if len(ids) == textBatch {
			if err := flush(); err != nil {
				return n, short, fmt.Errorf("%s: lines up to %d: %w", name, n, err)
			}
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return n, short, fmt.Errorf("%s: line %d: more than %d bytes", name, n+1, maxTextLine)
	} else if err != nil {
		return n, short, err
	}
	if err := flush(); err != nil {
		return n, short, fmt.Errorf("%s: %w", name, err)
	}
	return n, short, nil
}

func parseTextLine(line []byte) (l textLine, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return l, errors.New("is empty, want a JSON object with id, ids and text")
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return l, fmt.Errorf("%w, want a JSON object with id, ids and text", err)
	}
	switch {
	case l.ID == nil:
		return l, errors.New("id is missing: not a line of unmask text --json")
	case l.Unfinished:
		return l, errors.New("an unfinished sample, want finished ones")
	}
	return l, nil
}
