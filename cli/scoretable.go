package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/likelihood/scores"
	"unmask/param"
)

// atFlag adds --at, which positions reads.
func atFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "at", "", "score these `POSITIONS` only, from 1: 26-33,99-111")
}

// maxPosition bounds the positions of --at.
const maxPosition = 1 << 20

// positions reads a list such as 26-33,99 as positions from 0, rising; nil for no text.
func positions(text string) (list []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last, err2 := first, error(nil)
		if isRange {
			last, err2 = strconv.Atoi(to)
		}
		if cmp.Or(err, err2) != nil || first < 1 || last < first || last > maxPosition {
			return nil, usage("--at has %s, want positions from 1 such as 26-33,99", param.Quote(part))
		}
		for p := first; p <= last; p++ {
			list = append(list, p-1)
		}
		if len(list) > maxPosition {
			return nil, usage("--at has more than %d positions, want at most that", maxPosition)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// scoreTable is CSV of the probabilities of tokens at the scored positions.
type scoreTable struct {
	matrix bool // a column for each token that may be drawn
	top    int  // or a line for each of so many tokens

	columns []int32 // of a matrix; nil before the first position
}

// maxColumns bounds a matrix: vocabularies of residues and of SMILES are smaller.
const maxColumns = 2048

// begin prints the first line of a table of a model's tokens; that of a matrix waits until it is
// known which may be drawn.
func (t *scoreTable) begin(m *unmask.Model) error {
	if n := m.Spec().Outcomes; t.matrix && n > maxColumns {
		return usage("--matrix of a vocabulary of %d tokens, want at most %d: --top N prints N of them",
			n, maxColumns)
	}
	if t.matrix {
		return nil
	}
	return printCSV([][]string{{"name", "position", "token", "rank", "candidate", "p"}})
}

// tabulate prints the lines of a sequence.
func (f *scoreFlags) tabulate(ctx context.Context, m *unmask.Model, s *sequence, i uint32) error {
	lines := make([][][]string, 1+len(s.tokens)) // the first line of a matrix, and of each position
	decode := func(id int32) string { return m.Text.Decode([]int32{id}) }
	o, t := f.Options, &f.table
	o.See = func(p int, logits []float32, sum float64) {
		line := []string{s.Name, strconv.Itoa(p + 1), decode(s.tokens[p])}
		probability := func(id int32) string {
			return strconv.FormatFloat(math.Exp(float64(logits[id])-sum), 'g', 6, 64)
		}
		list := t.columns
		if list == nil {
			list = drawable(logits)
		}
		if !t.matrix {
			slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
			for r, id := range list[:min(t.top, len(list))] {
				lines[1+p] = append(lines[1+p], slices.Concat(line,
					[]string{strconv.Itoa(r + 1), decode(id), probability(id)}))
			}
			return
		}
		if t.columns == nil {
			t.columns, lines[0] = list, [][]string{{"name", "position", "token"}}
			for _, id := range list {
				lines[0][0] = append(lines[0][0], decode(id))
			}
		}
		for _, id := range list {
			line = append(line, probability(id))
		}
		lines[1+p] = [][]string{line}
	}
	if _, err := scores.Of(ctx, m, s.tokens, i, o); err != nil {
		return err
	}
	return printCSV(slices.Concat(lines...))
}

// drawable returns the tokens whose logits are finite.
func drawable(logits []float32) (list []int32) {
	for id, l := range logits {
		if !math.IsInf(float64(l), -1) {
			list = append(list, int32(id))
		}
	}
	return list
}

// printCSV prints lines of comma-separated values.
func printCSV(lines [][]string) error {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(lines); err != nil {
		return err
	}
	return standardOutput(b.String())
}
