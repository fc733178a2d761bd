package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/experiments"
)

// root is the repository, from here.
const root = "../.."

// The page's tables have the columns of their descriptions and a row for each point of their plans;
// where results are kept, they are those of the plans and the rows are printed from them.
func TestPageHasThePlans(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	for _, table := range tables {
		var planned []experiments.Result
		var points []experiments.Point
		for _, name := range table.plans {
			plan, err := experiments.ReadPlan(filepath.Join(root, plans, name+".yaml"))
			require.NoError(t, err)
			points = append(points, plan.Points()...)
		}
		for _, p := range points {
			planned = append(planned, experiments.Result{Point: p})
		}
		var want []string
		for _, r := range ordered(planned) {
			want = append(want, nameOf(r.Point))
		}
		from, to, err := table.find(text)
		require.NoError(t, err)
		line, rows, found := strings.Cut(string(text[from:to]), "\n\n")
		require.True(t, found && strings.HasPrefix(line, above), table.name)
		require.True(t, strings.HasPrefix(rows, table.titles()), table.name)
		var got []string
		for line := range strings.Lines(strings.TrimPrefix(rows, table.titles())) {
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			got = append(got, cells[0])
			if table.words != "" {
				require.NotEmpty(t, cells[1], "the words of %s", cells[0])
			}
		}
		require.Equal(t, want, got, table.name)

		results := filepath.Join(root, plans, table.name+".jsonl")
		if _, err := os.Stat(results); os.IsNotExist(err) {
			continue
		}
		_, list, _, err := experiments.ReadJournal(results)
		require.NoError(t, err)
		var measured []experiments.Point
		for _, r := range list {
			measured = append(measured, r.Point)
		}
		require.Equal(t, points, measured)
		printed, err := table.into(text, list)
		require.NoError(t, err)
		require.Equal(t, string(text), string(printed), "go run ./tools/tables prints the page")
	}
}

// A table is printed between its comment and what follows; words stay, numbers do not.
func TestTable(t *testing.T) {
	table := table{"text", nil, "when", []column{{"entropy", metric("entropy", "%.2f")},
		{"full passes", passes}, {"head rows", headRows}, {"time", seconds}}}
	result := func(sampler string, cache int, value, time float64) experiments.Result {
		return experiments.Result{Point: experiments.Point{Sampler: sampler, Cache: cache, N: 64,
			Seed: 5},
			Metrics: experiments.Metrics{"entropy": {Value: value}}, Seconds: []float64{9, time},
			Passes: 16, HeadRows: 127.6}
	}
	list := []experiments.Result{result("random", 0, 4.318, 2), result("hybrid", 0, 4.2, 3),
		result("random", 3, 4.1, 2.5), result("random", 1, 4, 2.2)}
	before := "# Title\n<!-- table: text -->\n" +
		"| sampler | when | old |\n|---|---|---|\n| `random` | the reference | 7 |\n| `gone` | x | 1 |\n\nEnd\n"
	after, err := table.into([]byte(before), list)
	require.NoError(t, err)
	require.Equal(t, "# Title\n<!-- table: text -->\nSamples: 64 of each, seed 5:\n\n"+
		"| sampler | when | entropy | full passes | head rows | time |\n"+
		"|---|---|---|---|---|---|\n"+
		"| `random` | the reference | 4.32 | 16 | 128 | 1.0 |\n"+
		"| `random+cache` |  | 4.00 | 16 | 128 | 1.1 |\n"+
		"| `random --cache 3` |  | 4.10 | 16 | 128 | 1.2 |\n"+
		"| `hybrid` |  | 4.20 | 16 | 128 | 1.5 |\n\nEnd\n", string(after))
	again, err := table.into(after, list)
	require.NoError(t, err)
	require.Equal(t, string(after), string(again))

	_, err = table.into([]byte("# Title\n"), list)
	require.EqualError(t, err, "there is no line <!-- table: text -->")
	_, err = table.into([]byte(before), list[1:2])
	require.EqualError(t, err,
		"table text has no results of random, want them to compare times with")
}

// The page has the tables of exactness of all samplers, printed from the results beside it.
func TestPageHasExactness(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	_, list, _, err := experiments.ReadJournal(filepath.Join(root, plans, "exactness.jsonl"))
	require.NoError(t, err)
	var measured []experiments.Point
	for _, r := range list {
		measured = append(measured, r.Point)
	}
	require.Equal(t, experiments.Exactness{N: 256}.Points(), measured)
	printed, err := intoExactness(text, list)
	require.NoError(t, err)
	require.Equal(t, string(printed), string(text), "go run ./tools/tables prints the page")

	_, err = intoExactness([]byte("# Title\n"), list)
	require.EqualError(t, err, "there is no line <!-- table: exactness -->")
}
