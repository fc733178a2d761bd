package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/fasta"
	"unmask/likelihood/scores"
	"unmask/param"
)

// rankFlags are those of unmask rank.
type rankFlags struct {
	deviceFlags
	scores.Options
	also []string
	at   string
}

func newRank() *cobra.Command {
	var f rankFlags
	cmd := &cobra.Command{
		Use:   "rank FILE",
		Short: "Rank different sequences by the perplexity of one model or several",
		Long: `Rank the different sequences of FILE, FASTA or one text on each line (- is standard input), by their
perplexity as unmask score has it: the lower, the better. With --also, which may be repeated, they are
ranked by the mean of their ranks by all models, so that no model's scale counts more.

The output is CSV, the best sequence first: name, of the first of equal sequences; copies, how many are
equal; a perplexity by each model; mean_rank; and sequence.`,
		Args: exactly(1, "a FILE of sequences"),
		Example: `  unmask text --model antibody-dir --prompts frames.fasta -n 100 --out library.fasta
  unmask rank library.fasta --model antibody-dir --also sapiens-dir > ranked.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := terminal.UntilStopped(cmd.Context())
			defer cancel()
			return f.run(ctx, args[0])
		},
	}
	f.register(cmd.Flags(), "demo")
	cmd.Flags().StringArrayVar(&f.also, "also", nil, "another `MODEL` that ranks; may be repeated")
	flags.Int(cmd.Flags(), &f.Parts, param.Param{Name: "parts", Min: 1, Max: 1 << 20, Default: "0",
		Zero: "one a token", Help: "passes of a sequence, 0 for one for each token"})
	atFlag(cmd.Flags(), &f.at)
	return cmd
}

// ranked is one of the different sequences.
type ranked struct {
	fasta.Record
	copies     int
	tokens     [][]int32 // by each model
	perplexity []float64
	ranks      int // the sum over models
}

func (f *rankFlags) run(ctx context.Context, file string) (err error) {
	if f.At, err = positions(f.at); err != nil {
		return err
	}
	records, err := readRecords(file)
	if err != nil {
		return wrap(file, err)
	}
	names := append([]string{f.model}, f.also...)
	models := make([]*unmask.Model, len(names))
	for i, name := range names {
		d := f.deviceFlags
		d.model = name
		if models[i], err = d.load(ctx); err != nil {
			return err
		}
	}
	list, err := f.different(records, models)
	if err != nil {
		return err
	}
	progress := terminal.NewProgress("sequences", int64(len(list)*len(models)))
	defer progress.Close()
	for i, m := range models {
		for _, q := range list {
			s, err := scores.Of(ctx, m, q.tokens[i], 0, f.Options)
			if err != nil {
				return fmt.Errorf("%s: sequence %.40s: %w", names[i], q.Name, err)
			}
			q.perplexity = append(q.perplexity, s.Perplexity())
			progress.Add(1)
		}
		slices.SortStableFunc(list, func(a, b *ranked) int {
			return cmp.Compare(a.perplexity[i], b.perplexity[i])
		})
		for rank, q := range list {
			q.ranks += 1 + rank
		}
	}
	progress.Close()
	slices.SortStableFunc(list, func(a, b *ranked) int { return cmp.Compare(a.ranks, b.ranks) })
	return printRanks(names, list)
}

// different returns the different sequences in the order of their first ones. Each is read by every
// model before any pass.
func (f *rankFlags) different(records []fasta.Record, models []*unmask.Model) (list []*ranked,
	err error) {
	seen := map[string]*ranked{}
	for i, r := range records {
		if q := seen[r.Sequence]; q != nil {
			q.copies++
			continue
		}
		q := &ranked{Record: r, copies: 1}
		for _, m := range models {
			one := sequence{Record: r}
			if err := one.read(m, nil, f.At); err != nil {
				return nil, fmt.Errorf("%s: sequence %d (%.40s): %w", m.Name, i+1, r.Name, err)
			}
			q.tokens = append(q.tokens, one.tokens)
		}
		seen[r.Sequence] = q
		list = append(list, q)
	}
	return list, nil
}

func printRanks(models []string, list []*ranked) error {
	head := []string{"name", "copies"}
	for _, name := range models {
		head = append(head, "perplexity "+name)
	}
	lines := [][]string{append(head, "mean_rank", "sequence")}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, q := range list {
		line := []string{q.Name, strconv.Itoa(q.copies)}
		for _, x := range q.perplexity {
			line = append(line, number(x))
		}
		lines = append(lines, append(line, number(float64(q.ranks)/float64(len(models))), q.Sequence))
	}
	return printCSV(lines)
}
