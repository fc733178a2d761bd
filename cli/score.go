package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/fasta"
	"unmask/param"
	"unmask/research/scores"
)

// scoreFlags are those of unmask score.
type scoreFlags struct {
	deviceFlags
	scores.Options
	mutations string
	visible   bool
	json      bool
}

func newScore() *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use:   "score FILE",
		Short: "Score sequences and mutations by a model",
		Long: `Score sequences by a model: the perplexity of each, every token given the others.

FILE is FASTA, or one text on each line; - reads standard input. By default each position is masked
alone, which takes a pass for each token. --parts K takes K passes, each with every K-th position
masked, and --visible one pass with nothing masked. --share masks positions at random and scores
these only.

--mutations FILE has one mutation a line, such as A24G or A24G:S31T. The output is then their
log-odds log p(new) - log p(old), in nats, tab-separated by sequence: wild-type marginals with
--visible, masked marginals otherwise.`,
		Args: exactly(1, "a FILE of sequences"),
		Example: `  unmask score --model antibody-dir heavy.fasta
  unmask score --model esm2_8m heavy.fasta --visible --mutations table.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := terminal.UntilStopped(cmd.Context())
			defer cancel()
			return f.run(ctx, args[0])
		},
	}
	f.register(cmd.Flags(), "demo")
	flags.Int(cmd.Flags(), &f.Parts, param.Param{Name: "parts", Min: 1, Max: 1 << 20, Default: "0",
		Zero: "one a token", Help: "passes of a sequence, 0 for one for each token"})
	flags.Float(cmd.Flags(), &f.Share, param.Param{Name: "share", Min: 1e-6, Max: 1, Default: "0",
		Zero: "none", Help: "mask this share of the positions at random and score these only"})
	seedFlag(cmd.Flags(), &f.Seed, "seed of --share")
	cmd.Flags().BoolVar(&f.visible, "visible", false, "mask nothing: wild-type marginals")
	cmd.Flags().StringVar(&f.mutations, "mutations", "", "`FILE` of mutations, one a line")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object a sequence: name, text, tokens, "+
		"scored, right, perplexity, logp by token")
	return cmd
}

func (f *scoreFlags) run(ctx context.Context, file string) error {
	if f.visible {
		if f.Parts != 0 || f.Share != 0 {
			return usage("--visible with --parts or --share, want one of them")
		}
		f.Parts = -1
	}
	records, err := readRecords(file)
	if err != nil {
		return wrap(file, err)
	}
	var mutations []string
	if f.mutations != "" {
		if mutations, err = readLines(f.mutations); err != nil {
			return wrap("--mutations", err)
		}
	}
	m, err := f.load(ctx)
	if err != nil {
		return err
	}
	for i, r := range records {
		s, err := scores.Of(ctx, m, r.Sequence, uint32(i), f.Options)
		if err == nil {
			err = f.print(m, r, s, mutations)
		}
		if err != nil {
			return fmt.Errorf("sequence %d (%.40s): %w", i+1, r.Name, err)
		}
	}
	return nil
}

func (f *scoreFlags) print(m *unmask.Model, r fasta.Record, s *scores.Score,
	mutations []string) error {
	for _, change := range mutations {
		odds, err := s.LogOdds(m.Text, change)
		if err != nil {
			return err
		}
		if err := printLine(fmt.Sprintf("%s\t%s\t%.6f", r.Name, change, odds)); err != nil {
			return err
		}
	}
	scored, right := s.Right()
	switch {
	case mutations != nil:
		return nil
	case scored == 0 && !f.json:
		return printLine(r.Name + "\tno position was masked")
	case !f.json:
		return printLine(fmt.Sprintf("%s\t%.4f\t%d of %d right", r.Name, s.Perplexity(), right, scored))
	}
	logp := make([]*float64, len(s.LogP)) // null where a position is not scored
	for i := range logp {
		if !math.IsNaN(s.LogP[i]) {
			logp[i] = &s.LogP[i]
		}
	}
	perplexity := new(float64)
	if *perplexity = s.Perplexity(); scored == 0 {
		perplexity = nil
	}
	return json.NewEncoder(stdout).Encode(struct {
		Name       string     `json:"name"`
		Text       string     `json:"text"`
		Tokens     int        `json:"tokens"`
		Scored     int        `json:"scored"`
		Right      int        `json:"right"`
		Perplexity *float64   `json:"perplexity"`
		LogP       []*float64 `json:"logp"`
	}{r.Name, r.Sequence, len(s.Tokens), scored, right, perplexity, logp})
}

// readRecords reads FASTA, or lines as texts whose names are their numbers.
func readRecords(name string) ([]fasta.Record, error) {
	r, err := openInput(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := bufio.NewReader(r)
	if first, _ := b.Peek(1); string(first) == ">" {
		return fasta.Read(b)
	}
	lines, err := nonEmpty(b)
	list := make([]fasta.Record, len(lines))
	for i, line := range lines {
		list[i] = fasta.Record{Name: fmt.Sprint(i + 1), Sequence: line}
	}
	return list, err
}

func readLines(name string) ([]string, error) {
	r, err := openInput(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return nonEmpty(r)
}

func openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name)
}

// maxScored is the largest file of lines in bytes.
const maxScored = 64 << 20

func nonEmpty(r io.Reader) (list []string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScored+1))
	if err == nil && len(data) > maxScored {
		err = fmt.Errorf("there are more than %d bytes", maxScored)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are 0 lines, want at least 1")
	}
	return list, err
}
