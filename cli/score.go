package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/fasta"
	"unmask/internal/jsonline"
	"unmask/internal/textfile"
	"unmask/likelihood"
	"unmask/likelihood/scores"
	"unmask/param"
)

// scoreFlags are those of unmask score.
type scoreFlags struct {
	deviceFlags
	scores.Options
	table      scoreTable
	also       []string
	positions  string
	mutations  string // a file's name
	visible    bool
	inputs     string // a file's name
	likelihood likelihood.Options
	json       bool
}

// newScore returns the command unmask score.
func newScore() *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use:   "score [FILE]",
		Short: "Score answers, sequences and mutations by a model",
		Long: `With --inputs, the log-probability of answers in nats. A line of FILE.jsonl is an object with
"answer" or, to find the best one, "answers", and what they follow: "prompt", or "messages" for the
model's chat template. One line is printed for each answer: the question's number or "name", log p, its
standard error, tokens, whether it is the best one, and the answer, tab-separated. --method is one of

  stratified     masks of every size in equal shares: 128 passes, with a standard error (the default);
                 short answers with fewer masks than that are exact
  monte-carlo    the estimate that LLaDA was published with: a larger error at equal passes
  random         the chain rule in random orders: a pass for each token and order
  left-to-right  the chain rule in the order of the text: exact for that order, a pass for each token;
                 one pass, and the default, for models that run left to right
  confidence     or another order of unmask samplers: the chain rule in that order

With FILE, FASTA or one text on each line (- is standard input), the perplexity of each sequence, every
token given the others. By default each position is masked alone, which takes a pass for each token.
--parts K takes K passes, each with every K-th position masked, and --visible one pass with nothing
masked. --share masks positions at random and scores these only; --at 97-109 takes the positions from
97 to 109, one pass for each, or with --parts 1 one pass with all of them masked. All is read and
checked before the first pass.

Instead of perplexities, --matrix prints CSV with the probability of every letter at each scored
position, and --top N the N most probable. --also MODEL, which may be repeated, prints the different
sequences as CSV by the mean of their ranks by all models: name, of the first of equal ones; copies;
a perplexity by each model; mean_rank; sequence. With --mutations TABLE, one mutation a line such as
A24G or A24G:S31T, the output is their log-odds log p(new) - log p(old), in nats, tab-separated by
sequence: masked marginals, with all positions of a mutation masked at once, or wild-type marginals
with --visible.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  unmask score --inputs questions.jsonl --json
  unmask score --model GSAI-ML/LLaDA-8B-Base --inputs questions.jsonl --method monte-carlo
  unmask score --model antibody-dir heavy.fasta
  unmask score --model antibody-dir heavy.fasta --at 97-109 --matrix > cdr3.csv
  unmask score --model antibody-dir library.fasta --also sapiens-dir > ranked.csv
  unmask score --model esm2_8m heavy.fasta --visible --mutations table.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkFlags(cmd.Flags(), args); err != nil {
				return err
			}
			if f.inputs != "" {
				return f.scoreAnswers(cmd.Context())
			}
			return f.scoreFile(cmd.Context(), args[0])
		},
	}
	f.registerFlags(cmd.Flags())
	return cmd
}

// registerFlags adds the flags.
func (f *scoreFlags) registerFlags(s *pflag.FlagSet) {
	f.register(s, "demo")
	s.StringVar(&f.inputs, "inputs", "", "`FILE`.jsonl of prompts and answers")
	s.StringVar(&f.likelihood.Method, "method", "",
		"how --inputs are measured, see above; by default what suits the model")
	flags.Int(s, &f.likelihood.Passes, likelihood.PassesParam)
	flags.Int(s, &f.Passes, param.Param{
		Name:    "parts",
		Min:     1,
		Max:     1 << 20,
		Default: "0",
		Zero:    "one a token",
		Help:    "passes of a sequence, 0 for one for each token",
	})
	flags.Float(s, &f.MaskShare, param.Param{
		Name:    "share",
		Min:     1e-6,
		Max:     1,
		Default: "0",
		Zero:    "none",
		Help:    "mask this share of the positions at random and score these only",
	})
	addSeedFlag(s, &f.Seed, "seed of --inputs and --share")
	s.StringVar(&f.positions, "at", "", "score these `POSITIONS` only, from 1: 26-33,97-109")
	s.StringArrayVar(&f.also, "also", nil, "rank by this `MODEL` too; may be repeated")
	s.BoolVar(&f.table.matrix, "matrix", false, "CSV of every letter's probability")
	flags.Int(s, &f.table.top, param.Param{
		Name:    "top",
		Min:     1,
		Max:     1 << 20,
		Default: "0",
		Zero:    "none",
		Help:    "CSV of this many of the most probable tokens of each position",
	})
	s.BoolVar(&f.visible, "visible", false, "mask nothing: wild-type marginals")
	s.StringVar(&f.mutations, "mutations", "", "`TABLE`, a file of mutations, one a line")
	s.BoolVar(&f.json, "json", false, "one JSON object a question or a sequence")
}

// checkFlags returns an error for flags that do not go together.
func (f *scoreFlags) checkFlags(set *pflag.FlagSet, args []string) (err error) {
	source := "FILE"
	unusable := []string{"method", "passes"}
	switch {
	case f.inputs != "" && len(args) > 0:
		return usagef("FILE and --inputs together, want one of them")
	case f.inputs == "" && len(args) == 0:
		return usagef("FILE is missing, want a FILE of sequences, or --inputs with prompts and answers")
	case f.inputs != "":
		source = "--inputs"
		unusable = []string{"parts", "share", "visible", "mutations", "at", "matrix", "top", "also"}
	}
	for _, name := range unusable {
		if set.Changed(name) {
			return usagef("--%s with %s, want it without", name, source)
		}
	}
	if f.visible {
		if f.Passes != 0 || f.MaskShare != 0 {
			return usagef("--visible with --parts or --share, want one of them")
		}
		f.Passes = -1
	}
	forms := countTrue(f.table.matrix, f.table.top > 0, f.also != nil, f.json)
	switch {
	case f.Passes > 0 && f.MaskShare > 0:
		return usagef("--parts with --share, want one of them")
	case f.mutations != "" &&
		(f.Passes > 0 || f.MaskShare > 0 || f.positions != "" || forms > 0 && !f.json):
		return usagef("--mutations with --parts, --share, --at, --matrix, --top or --also, want it without")
	case forms > 1:
		return usagef("--matrix, --top, --also and --json together, want one of them")
	}
	f.Positions, err = parsePositions(f.positions)
	return err
}

// sequence is one of a file's records, ready to be scored.
type sequence struct {
	fasta.Record
	tokens    []int32
	mutations []scores.Mutation

	// err says why the sequence is not scored, if it is not nil.
	err error
}

// scoreFile scores the sequences of a file. All are read and checked before the first pass.
func (f *scoreFlags) scoreFile(ctx context.Context, file string) error {
	records, err := readRecords(file, false)
	if err != nil {
		return wrapError(file, err)
	}
	var mutations []string
	if f.mutations != "" {
		mutations, err = readLines(f.mutations)
		if err != nil {
			return wrapError("--mutations", err)
		}
	}
	m, err := f.loadModel(ctx)
	if err != nil {
		return err
	}
	if f.also != nil { // all models are loaded first: a wrong name should not cost a run of the others
		models := []*unmask.Model{m}
		for _, name := range f.also {
			d := f.deviceFlags
			d.model = name
			m, err = d.loadModel(ctx)
			if err != nil {
				return err
			}
			models = append(models, m)
		}
		return f.printRanking(ctx, records, models)
	}
	list := make([]sequence, len(records))
	for i, r := range records {
		list[i].Record = r
		list[i].err = jsonline.CheckUTF8(r.Sequence)
		if list[i].err != nil {
			continue
		}
		if err := list[i].tokenize(m, mutations, f.Positions); err != nil {
			return fmt.Errorf("sequence %d (%.40s): %w", i+1, r.Name, err)
		}
	}
	score := f.printPerplexity
	switch {
	case f.mutations != "":
		score = f.printLogOdds
	case f.table.matrix || f.table.top > 0:
		score = f.printTable
	}
	failed := 0
	for i := range list {
		if list[i].err != nil {
			failed++
			if err := f.printFailure(&list[i]); err != nil {
				return err
			}
			continue
		}
		if err := score(ctx, m, &list[i], uint32(i)); err != nil {
			return fmt.Errorf("sequence %d (%.40s): %w", i+1, list[i].Name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s not scored, want UTF-8", terminal.FormatCount(failed, "sequence"))
	}
	return nil
}

// failedSequence is the JSON of a sequence that is not scored.
type failedSequence struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// scoredMutation is the JSON of the log-odds of a mutation.
type scoredMutation struct {
	Name     string   `json:"name"`
	Mutation string   `json:"mutation"`
	LogOdds  *float64 `json:"log_odds"`
}

// scoredSequence is the JSON of a sequence's perplexity.
type scoredSequence struct {
	Name string `json:"name"`
	Text string `json:"text"`

	// Tokens counts all tokens, Scored those that were masked in some pass, and Right those where
	// the most probable token was the right one.
	Tokens int `json:"tokens"`
	Scored int `json:"scored"`
	Right  int `json:"right"`

	Perplexity *float64 `json:"perplexity"`

	// LogP is null where a position is not scored, and for log 0.
	LogP []*float64 `json:"logp"`
}

// printFailure prints a line for a sequence that is not scored. CSV has no place for one.
func (f *scoreFlags) printFailure(s *sequence) error {
	switch {
	case f.json:
		return json.NewEncoder(stdout).Encode(failedSequence{s.Name, s.err.Error()})
	case f.table.matrix || f.table.top > 0:
		terminal.Logf("%.40s: %v", s.Name, s.err)
		return nil
	}
	return printLine(tableName(s.Name) + "\terror\t" + s.err.Error())
}

// tableName returns a name as it stands in a tab-separated line: a tab in it would move all columns
// behind it, and a line's end would cut the line.
func tableName(name string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(name)
}

// tokenize reads the tokens of a sequence and its mutations, and checks the positions to score.
func (s *sequence) tokenize(m *unmask.Model, mutations []string, positions []int) (err error) {
	s.tokens, err = scores.EncodeText(m, s.Sequence)
	if err != nil {
		return err
	}
	if n := len(s.tokens); positions != nil && positions[len(positions)-1] >= n {
		return fmt.Errorf("--at has %d, want 1 to %d", positions[len(positions)-1]+1, n)
	}
	for _, name := range mutations {
		mutation, err := scores.ParseMutation(m.Text, s.tokens, name)
		if err != nil {
			return err
		}
		s.mutations = append(s.mutations, mutation)
	}
	return nil
}

// printLogOdds prints the log-odds of a sequence's mutations.
func (f *scoreFlags) printLogOdds(ctx context.Context, m *unmask.Model, s *sequence,
	_ uint32) error {
	odds, err := scores.LogOdds(ctx, m, s.tokens, s.mutations, f.visible)
	for i, mutation := range s.mutations {
		if err != nil {
			break
		}
		if !f.json {
			err = printLine(fmt.Sprintf("%s\t%s\t%.6f", tableName(s.Name), mutation.Name, odds[i]))
			continue
		}
		err = json.NewEncoder(stdout).Encode(scoredMutation{s.Name, mutation.Name,
			jsonline.FiniteOrNil(odds[i])})
	}
	return err
}

// printPerplexity prints a sequence's perplexity.
func (f *scoreFlags) printPerplexity(ctx context.Context, m *unmask.Model, q *sequence,
	i uint32) error {
	s, err := scores.ScoreTokens(ctx, m, q.tokens, i, f.Options)
	if err != nil {
		return err
	}
	scored, right := s.CountRight()
	switch {
	case scored == 0 && !f.json:
		return printLine(tableName(q.Name) + "\t\tno position was masked")
	case !f.json:
		return printLine(fmt.Sprintf("%s\t%.4f\t%d of %d right", tableName(q.Name), s.Perplexity(),
			right, scored))
	}
	return json.NewEncoder(stdout).Encode(scoredSequence{
		Name:       q.Name,
		Text:       q.Sequence,
		Tokens:     len(s.Tokens),
		Scored:     scored,
		Right:      right,
		Perplexity: jsonline.FiniteOrNil(s.Perplexity()),
		LogP:       jsonline.FinitesOrNil(s.LogP),
	})
}

// readRecords reads FASTA, or lines as texts as they are, whose names are their numbers: without
// blank ones unless whole; then FASTA is what has such a name or, from standard input, begins so.
func readRecords(name string, whole bool) (list []fasta.Record, err error) {
	r, err := openInput(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := bufio.NewReader(r)
	head, _ := b.Peek(4096)
	if fasta.IsFile(name) || fasta.HasHeader(head) && (!whole || name == "-") {
		list, err = fasta.Read(b)
		flags.LogSoftMasked(fasta.UnmaskLetters(list))
		return list, err
	}
	text, err := readAll(b)
	_, err = nonEmptyLines(text, err) // a file of blank lines alone is an error
	for line := range strings.Lines(text) {
		if whole || strings.TrimSpace(line) != "" {
			list = append(list, fasta.Record{
				Name:     fmt.Sprint(len(list) + 1),
				Sequence: strings.TrimRight(line, "\r\n"),
			})
		}
	}
	return list, err
}

// readLines returns the lines of a file that are not empty.
func readLines(name string) ([]string, error) { return nonEmptyLines(readWhole(name)) }

// readWhole returns a file's text without blanks around it.
func readWhole(name string) (string, error) {
	r, err := openInput(name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := readAll(r)
	return strings.TrimSpace(text), err
}

// openInput opens a file; - is standard input.
func openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name)
}

// maxScored is the largest file of lines in bytes.
const maxScored = 64 << 20

// readAll returns all of a file of at most maxScored bytes, without a byte order mark.
func readAll(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScored+1))
	if err == nil && len(data) > maxScored {
		err = fmt.Errorf("more than %d bytes", maxScored)
	}
	return textfile.TrimMark(string(data)), err
}

// nonEmptyLines returns the lines of a text that was read, unless err is set, without the blanks
// around them and the empty ones.
func nonEmptyLines(text string, err error) (list []string, _ error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" {
			list = append(list, line)
		}
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are 0 lines, want at least 1")
	}
	return list, err
}
