// Package samplers has the results behind docs/samplers.md; this test prints the page from them.
package samplers

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/experiments"
	rules "unmask/samplers"
)

// docs/samplers.md has tables and plots of what was measured. They are made here, with -update, and
// compared without:
//
//	go test ./docs/samplers -update

var update = flag.Bool("update", false, "write the tables and plots of docs/samplers.md anew")

const pageFile = "../samplers.md"

// table is a table of the page. Under a comment <!-- table: NAME --> there is a line that says how
// many samples a row has, a blank one, and the rows; it ends with the first line that is no row.
type table struct {
	name    string
	plans   []string // in docs/samplers, without .yaml
	words   string   // title of the column that is written by hand, "" for none
	columns []column
}

// column is a measured column: its title, and the cell of a result beside that of random.
type column struct {
	title string
	cell  func(r, random experiments.Result) string
}

var tables = []table{
	{"text", []string{"text", "text-cache"}, "when", []column{
		{"perplexity", metric("perplexity", "%.3g")},
		{"entropy", metric("entropy", "%.2f")},
		{"distinct2", metric("distinct2", "%.2f")},
		{"contradictions", metric("contradictions", "%.2f")},
		{"slips", metric("slips", "%.2f")},
		{"full passes", passes}, {"head rows", headRows}, {"time", seconds}}},
	{"image", []string{"image"}, "", []column{
		{"Frechet distance", metric("frechet", "%.3f")},
		{"precision", metric("precision", "%.2f")},
		{"recall", metric("recall", "%.2f")},
		{"full passes", passes}, {"time", seconds}}},
}

// metric returns the cells of a metric, with its standard error where it is known.
func metric(name, format string) func(r, _ experiments.Result) string {
	return func(r, _ experiments.Result) string {
		m, ok := r.Metrics[name]
		if !ok {
			return "-"
		}
		cell := fmt.Sprintf(format, m.Value)
		if e := m.Error(); e > 0 {
			cell += fmt.Sprintf(" ± %.2g", e)
		}
		return cell
	}
}

func passes(r, _ experiments.Result) string { return fmt.Sprintf("%.4g", r.Passes) }

func headRows(r, _ experiments.Result) string { return fmt.Sprintf("%.0f", r.HeadRows) }

// seconds is the least time of a batch over random's; other programs can only add to it.
func seconds(r, random experiments.Result) string {
	if len(r.Seconds) == 0 || len(random.Seconds) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", slices.Min(r.Seconds)/slices.Min(random.Seconds))
}

// nameOf returns the first cell of a row: the sampler and, where it is not 0, the cache.
func nameOf(p experiments.Point) string {
	name := p.Sampler
	if p.Alpha != 0 && p.Alpha != rules.DefaultAlpha {
		name += fmt.Sprintf(" --alpha %g", p.Alpha)
	}
	switch {
	case p.Cache == 1:
		name += "+cache"
	case p.Cache > 1:
		name += fmt.Sprintf(" --cache %d", p.Cache)
	}
	return "`" + name + "`"
}

// ordered returns results in the order of their first sampler, each with its caches after it.
func ordered(list []experiments.Result) []experiments.Result {
	var names []string
	for _, r := range list {
		if !slices.Contains(names, r.Sampler) {
			names = append(names, r.Sampler)
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b experiments.Result) int {
		if a.Sampler == b.Sampler {
			return a.Cache - b.Cache
		}
		return slices.Index(names, a.Sampler) - slices.Index(names, b.Sampler)
	})
	return list
}

func row(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func head(b *strings.Builder, cells []string) {
	row(b, cells)
	fmt.Fprintf(b, "%s|\n", strings.Repeat("|---", len(cells)))
}

// above begins the line above the rows.
const above = "Samples: "

// markdown returns the line above the table, and the table of results. words has the cells written
// by hand, by the first cell.
func (t table) markdown(list []experiments.Result, words map[string]string) (string, error) {
	at := slices.IndexFunc(list, func(r experiments.Result) bool {
		return r.Sampler == "random" && r.Cache == 0
	})
	if at < 0 {
		return "", fmt.Errorf("table %s has no results of random, want them to compare times with",
			t.name)
	}
	var b strings.Builder
	with := ""
	if list[at].Extra != "" {
		with = ", " + strings.Replace(list[at].Extra, "=", " ", 1)
	}
	fmt.Fprintf(&b, "%s%d of each, seed %d%s:\n\n", above, list[at].N, list[at].Seed, with)
	cells := []string{"sampler"}
	if t.words != "" {
		cells = append(cells, t.words)
	}
	for _, c := range t.columns {
		cells = append(cells, c.title)
	}
	head(&b, cells)
	for _, r := range ordered(list) {
		cells := []string{nameOf(r.Point)}
		if t.words != "" {
			cells = append(cells, words[cells[0]])
		}
		for _, c := range t.columns {
			cells = append(cells, c.cell(r, list[at]))
		}
		row(&b, cells)
	}
	return b.String(), nil
}

// into returns the page with the table of results in place of the one that is there, whose words it
// keeps.
func (t table) into(page []byte, list []experiments.Result) ([]byte, error) {
	from, to, err := findTable(page, t.name)
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	for line := range strings.Lines(string(page[from:to])) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if t.words != "" && len(cells) > 2 {
			words[cells[0]] = cells[1]
		}
	}
	text, err := t.markdown(list, words)
	return slices.Concat(page[:from], []byte(text), page[to:]), err
}

// findTable returns where a table begins, with the line above it, and ends.
func findTable(page []byte, name string) (from, to int, err error) {
	mark := fmt.Appendf(nil, "<!-- table: %s -->\n", name)
	at := bytes.Index(page, mark)
	if at < 0 {
		return 0, 0, fmt.Errorf("there is no line %s", bytes.TrimSpace(mark))
	}
	from = at + len(mark)
	to = from
	if bytes.HasPrefix(page[from:], []byte(above)) {
		if blank := bytes.Index(page[from:], []byte("\n\n")); blank >= 0 {
			to += blank + 2
		}
	}
	for to < len(page) && page[to] == '|' {
		end := bytes.IndexByte(page[to:], '\n')
		if end < 0 {
			return from, len(page), nil
		}
		to += end + 1
	}
	return from, to, nil
}

// exactnessMark begins the tables of exactness, which end before the next heading.
const exactnessMark = "<!-- table: exactness -->\n"

// intoExactness returns the page with the tables of results in place of those that are there.
func intoExactness(page []byte, list []experiments.Result) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte(exactnessMark))
	at := bytes.Index(rest, []byte("\n## "))
	if !found || at < 0 {
		return nil, fmt.Errorf("there is no line %s before a heading", strings.TrimSpace(exactnessMark))
	}
	return slices.Concat(before, []byte(exactnessMark), []byte(experiments.ExactnessTable(list)),
		rest[at:]), nil
}

// decoderCurves returns what rules did at several settings, from careful to bold.
func decoderCurves(t *testing.T) (list []experiments.Accuracy) {
	var file struct {
		Rows []struct {
			Curve                            string
			Dialogues, Right, Tokens, Passes int
		}
	}
	data, err := os.ReadFile("../../bench/results/decoder-curves.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &file))
	for _, r := range file.Rows {
		a := experiments.Accuracy{Method: r.Curve, Right: r.Right, Checked: r.Dialogues,
			Accuracy: float64(r.Right) / float64(r.Dialogues),
			PerPass:  float64(r.Tokens) / float64(r.Passes)}
		a.Low, a.High = experiments.Wilson(r.Right, r.Dialogues)
		list = append(list, a)
	}
	experiments.SetAUP(list)
	return list
}

// intoDecoders returns the page with the table of the decoders' AUP in place of the one there.
func intoDecoders(page []byte, list []experiments.Accuracy) ([]byte, error) {
	from, to, err := findTable(page, "decoder-curves")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, []string{"rule", "tokens per pass", fmt.Sprintf("right of %d", list[0].Checked),
		"AUP"})
	for from := 0; from < len(list); {
		var passes, right []string
		first := list[from]
		for ; from < len(list) && list[from].Method == first.Method; from++ {
			passes = append(passes, fmt.Sprintf("%.1f", list[from].PerPass))
			right = append(right, fmt.Sprint(list[from].Right))
		}
		row(&b, []string{first.Method, strings.Join(passes, ", "), strings.Join(right, ", "),
			fmt.Sprintf("%.0f", first.AUP)})
	}
	return slices.Concat(page[:from], []byte(b.String()), page[to:]), nil
}

// kept compares a file with what it should be, or writes it with -update. The last digits of a plot
// may differ between processors.
func kept(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, want, 0o644))
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	if filepath.Ext(name) != ".svg" || runtime.GOARCH == "amd64" {
		require.Equal(t, string(want), string(got),
			"%s: go test ./docs/samplers -update writes it", name)
	}
}

// The page's tables and plots are printed from the results beside it, which are those of the plans.
func TestPageOfSamplers(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	results := func(name string, planned []experiments.Point) []experiments.Result {
		_, list, _, err := experiments.ReadJournal(name + ".jsonl")
		require.NoError(t, err)
		var measured []experiments.Point
		for _, r := range list {
			measured = append(measured, r.Point)
		}
		require.Equal(t, planned, measured, name)
		return list
	}
	for _, table := range tables {
		var planned []experiments.Point
		for _, name := range table.plans {
			plan, err := experiments.ReadPlan(name + ".yaml")
			require.NoError(t, err)
			planned = append(planned, plan.Points()...)
		}
		page, err = table.into(page, results(table.name, planned))
		require.NoError(t, err)
		require.NotContains(t, string(page), "` |  |", "every row has words")
	}
	list := results("exactness", experiments.Exactness{N: 256}.Points())
	page, err = intoExactness(page, list)
	require.NoError(t, err)
	curves := decoderCurves(t)
	page, err = intoDecoders(page, curves)
	require.NoError(t, err)
	kept(t, pageFile, page)

	exactness, decoders := experiments.ExactnessChart(list), experiments.AccuracyChart(curves)
	decoders.Name, decoders.Y = "decoders", "right answers, share"
	decoders.Title = "Replies of the embedded model that talks"
	for _, c := range []experiments.Chart{exactness, decoders} {
		svg, err := c.SVG()
		require.NoError(t, err)
		require.Contains(t, string(svg), "Bars: ")
		kept(t, c.Name+".svg", svg)
	}
}

// A table is printed between its comment and what follows; words stay, numbers do not.
func TestPageTable(t *testing.T) {
	table := table{"text", nil, "when", []column{{"entropy", metric("entropy", "%.2f")},
		{"full passes", passes}, {"head rows", headRows}, {"time", seconds}}}
	result := func(sampler string, cache int, value, time float64) experiments.Result {
		return experiments.Result{
			Point:   experiments.Point{Sampler: sampler, Cache: cache, N: 64, Seed: 5},
			Metrics: experiments.Metrics{"entropy": {Value: value}}, Seconds: []float64{9, time},
			Passes: 16, HeadRows: 127.6}
	}
	list := []experiments.Result{result("random", 0, 4.318, 2), result("hybrid", 0, 4.2, 3),
		result("random", 3, 4.1, 2.5), result("random", 1, 4, 2.2)}
	before := "# Title\n<!-- table: text -->\n| sampler | when | old |\n|---|---|---|\n" +
		"| `random` | the reference | 7 |\n| `gone` | x | 1 |\n\nEnd\n"
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
	_, err = intoExactness([]byte("# Title\n"), nil)
	require.EqualError(t, err, "there is no line <!-- table: exactness --> before a heading")
	_, err = intoDecoders([]byte("# Title\n"), nil)
	require.EqualError(t, err, "there is no line <!-- table: decoder-curves -->")
}
