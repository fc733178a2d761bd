package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"unmask/research/experiments"
	"unmask/samplers"
)

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
	if p.Alpha != 0 && p.Alpha != samplers.DefaultAlpha {
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

// above begins the line above the rows.
const above = "Samples: "

// titles returns the first line of the table and the one below it.
func (t table) titles() string {
	cells := []string{"sampler"}
	if t.words != "" {
		cells = append(cells, t.words)
	}
	for _, c := range t.columns {
		cells = append(cells, c.title)
	}
	return row(cells) + strings.Repeat("|---", len(cells)) + "|\n"
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

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
	if list[at].With != "" {
		with = ", " + strings.Replace(list[at].With, "=", " ", 1)
	}
	fmt.Fprintf(&b, "%s%d of each, seed %d%s:\n\n", above, list[at].N, list[at].Seed, with)
	b.WriteString(t.titles())
	for _, r := range ordered(list) {
		cells := []string{nameOf(r.Point)}
		if t.words != "" {
			cells = append(cells, words[cells[0]])
		}
		for _, c := range t.columns {
			cells = append(cells, c.cell(r, list[at]))
		}
		b.WriteString(row(cells))
	}
	return b.String(), nil
}

// into returns the page with the table of results in place of the one that is there, whose words it
// keeps.
func (t table) into(page []byte, list []experiments.Result) ([]byte, error) {
	from, to, err := t.find(page)
	if err != nil {
		return nil, err
	}
	text, err := t.markdown(list, t.kept(page[from:to]))
	return slices.Concat(page[:from], []byte(text), page[to:]), err
}

// find returns where what the program prints begins and ends.
func (t table) find(page []byte) (from, to int, err error) {
	mark := fmt.Appendf(nil, "<!-- table: %s -->\n", t.name)
	at := bytes.Index(page, mark)
	if at < 0 {
		return 0, 0, fmt.Errorf("there is no line %s", bytes.TrimSpace(mark))
	}
	from = at + len(mark)
	rows := from
	if bytes.HasPrefix(page[from:], []byte(above)) {
		if blank := bytes.Index(page[from:], []byte("\n\n")); blank >= 0 {
			rows += blank + 2
		}
	}
	for to = rows; to < len(page) && page[to] == '|'; {
		end := bytes.IndexByte(page[to:], '\n')
		if end < 0 {
			return from, len(page), nil
		}
		to += end + 1
	}
	return from, to, nil
}

// kept returns the words of a table's rows by their first cell.
func (t table) kept(rows []byte) map[string]string {
	words := map[string]string{}
	for line := range strings.Lines(string(rows)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if t.words != "" && len(cells) > 2 {
			words[cells[0]] = cells[1]
		}
	}
	return words
}

// exactnessMark begins the tables of exactness, which end before the next heading.
const exactnessMark = "<!-- table: exactness -->\n"

// intoExactness returns the page with the tables of results in place of those that are there.
func intoExactness(page []byte, list []experiments.Result) ([]byte, error) {
	before, rest, found := bytes.Cut(page, []byte(exactnessMark))
	if !found {
		return nil, fmt.Errorf("there is no line %s", strings.TrimSpace(exactnessMark))
	}
	at := bytes.Index(rest, []byte("\n## "))
	if at < 0 {
		return nil, fmt.Errorf("there is no heading after %s", strings.TrimSpace(exactnessMark))
	}
	return slices.Concat(before, []byte(exactnessMark), []byte(experiments.ExactnessTable(list)),
		rest[at:]), nil
}
