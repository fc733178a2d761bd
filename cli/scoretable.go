package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/internal/fasta"
	"unmask/likelihood/scores"
	"unmask/param"
)

// parsePositions reads a list such as 26-33,99 as positions from 0, rising; nil for no text.
func parsePositions(text string) (list []int, err error) {
	const limit = 1 << 20
	for part := range strings.SplitSeq(text, ",") {
		firstText, lastText, isRange := strings.Cut(part, "-")
		if !isRange {
			lastText = firstText
		}
		first, err1 := strconv.Atoi(firstText)
		last, err2 := strconv.Atoi(lastText)
		switch {
		case text == "":
			return nil, nil
		case cmp.Or(err1, err2) != nil || first < 1 || last < first || last-first+len(list) > limit:
			return nil, usagef("--at has %s, want positions from 1 such as 26-33,99", param.Quote(part))
		}
		for p := first; p <= last; p++ {
			list = append(list, p-1)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// scoreTable is CSV of the probabilities of tokens at the scored positions: a column for each token
// that may be drawn or, if top is not 0, a line for each of so many tokens.
type scoreTable struct {
	matrix bool
	top    int

	// columns are the tokens of the matrix; nil before the first position.
	columns []int32

	// headPrinted reports whether the line of names was printed, which is once for all sequences.
	headPrinted bool
}

// maxColumns bounds a matrix: vocabularies of residues and of SMILES are smaller.
const maxColumns = 2048

// printTable prints the lines of a sequence.
func (f *scoreFlags) printTable(ctx context.Context, m *unmask.Model, s *sequence, i uint32) error {
	o := f.Options
	t := &f.table
	if n := m.Spec().Outcomes; t.matrix && n > maxColumns {
		return usagef("--matrix of a vocabulary of %d tokens, want at most %d: --top N prints N of them",
			n, maxColumns)
	}
	head := []string{"name", "position", "token"}
	lines := make([][][]string, len(s.tokens)) // of each position
	decode := func(id int32) string { return m.Text.Decode([]int32{id}) }
	o.Visit = func(p int, logits []float32, sum float64) {
		var list []int32
		for id, l := range logits {
			if !math.IsInf(float64(l), -1) {
				list = append(list, int32(id))
			}
		}
		line := []string{s.Name, strconv.Itoa(p + 1), decode(s.tokens[p])}
		probability := func(id int32) string { return formatNumber(math.Exp(float64(logits[id]) - sum)) }
		if !t.matrix {
			slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
			for r, id := range list[:min(t.top, len(list))] {
				lines[p] = append(lines[p], slices.Concat(line,
					[]string{strconv.Itoa(r + 1), decode(id), probability(id)}))
			}
			return
		}
		if t.columns == nil {
			t.columns = list
		}
		for _, id := range t.columns {
			line = append(line, probability(id))
		}
		lines[p] = [][]string{line}
	}
	if _, err := scores.ScoreTokens(ctx, m, s.tokens, i, o); err != nil {
		return err
	}
	if !t.matrix {
		head = append(head, "rank", "candidate", "p")
	}
	for _, id := range t.columns {
		head = append(head, decode(id))
	}
	if !t.headPrinted && len(head) > 3 {
		t.headPrinted = true
		lines[0] = slices.Insert(lines[0], 0, head)
	}
	return printCSV(slices.Concat(lines...))
}

// formatNumber returns a number with six digits.
func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// printCSV prints lines of comma-separated values.
func printCSV(lines [][]string) error {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(lines); err != nil {
		return err
	}
	return writeStdout(b.String())
}

// rankedSequence is one of the different sequences of a file.
type rankedSequence struct {
	fasta.Record

	// copies counts the records that have this sequence.
	copies int

	// rankSum is the sum of its ranks by all models, from 1.
	rankSum int

	// tokens and fields have its tokens and its perplexity by each model.
	tokens [][]int32
	fields []string
}

// printRanking prints the different sequences of a file as CSV by the mean of their ranks by
// models, which read all of them before the first pass.
func (f *scoreFlags) printRanking(ctx context.Context, records []fasta.Record,
	models []*unmask.Model) error {
	seen := map[string]*rankedSequence{}
	list := []*rankedSequence(nil)
	for i, r := range records {
		q := seen[r.Sequence]
		if q == nil {
			q = &rankedSequence{Record: r}
			seen[r.Sequence] = q
			list = append(list, q)
			for _, m := range models {
				encoded := sequence{Record: r}
				if err := encoded.tokenize(m, nil, f.Positions); err != nil {
					return fmt.Errorf("%s: sequence %d (%.40s): %w", m.Name, i+1, r.Name, err)
				}
				q.tokens = append(q.tokens, encoded.tokens)
			}
		}
		q.copies++
	}
	head := []string{"name", "copies"}
	for i, m := range models {
		perplexity := map[*rankedSequence]float64{}
		for n, q := range list {
			s, err := scores.ScoreTokens(ctx, m, q.tokens[i], uint32(n), f.Options)
			if err != nil {
				return fmt.Errorf("%s: sequence %.40s: %w", m.Name, q.Name, err)
			}
			perplexity[q] = s.Perplexity()
		}
		slices.SortStableFunc(list, func(a, b *rankedSequence) int {
			return cmp.Compare(perplexity[a], perplexity[b])
		})
		for rank, q := range list {
			q.rankSum, q.fields = q.rankSum+1+rank, append(q.fields, formatNumber(perplexity[q]))
		}
		head = append(head, "perplexity "+m.Name)
	}
	slices.SortStableFunc(list, func(a, b *rankedSequence) int {
		return cmp.Compare(a.rankSum, b.rankSum)
	})
	lines := [][]string{append(head, "mean_rank", "sequence")}
	for _, q := range list {
		mean := formatNumber(float64(q.rankSum) / float64(len(models)))
		lines = append(lines, slices.Concat([]string{q.Name, strconv.Itoa(q.copies)}, q.fields,
			[]string{mean, q.Sequence}))
	}
	return printCSV(lines)
}
