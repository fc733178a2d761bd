package experiments

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
)

// Write writes the chart to dir, as Name.svg, Name.png and Name.pdf. It makes the directory.
func (c *Chart) Write(dir string) (names []string, err error) {
	files := map[string][]byte{}
	for extension, draw := range map[string]func() ([]byte, error){
		".svg": c.SVG,
		".png": c.PNG,
		".pdf": func() ([]byte, error) { return PDF([]Chart{*c}) },
	} {
		name := filepath.Join(dir, c.Name+extension)
		files[name], err = draw()
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, writeFiles(files)
}

// DrawCharts writes charts to a folder, or to a file whose name ends with .pdf, a page for each. It
// returns the names of the files.
func DrawCharts(out string, charts []Chart) (names []string, err error) {
	if filepath.Ext(out) == ".pdf" {
		data, err := PDF(charts)
		if err != nil {
			return nil, err
		}
		return []string{out}, atomicfile.Put(out, data)
	}
	for i := range charts {
		written, err := charts[i].Write(out)
		if err != nil {
			return names, err
		}
		names = append(names, written...)
	}
	return names, nil
}

// writeFiles writes files, each whole or not at all, and makes their directories.
func writeFiles(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := atomicfile.Put(name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// Write writes the report to dir: report.html, verdicts.json, and figures/. The Markdown goes to
// the file markdown, "" for dir/report.md. It returns the names of the Markdown and HTML files.
func (r *Report) Write(dir, markdown string) (names []string, err error) {
	verdicts, err := json.MarshalIndent(r.Verdicts, "", " ")
	if err != nil {
		return nil, err
	}
	html, err := r.HTML()
	if err != nil {
		return nil, err
	}
	figureDir := filepath.Join(dir, "figures")
	for i := range r.Figures {
		if len(r.Figures[i].Curves) == 0 {
			continue
		}
		if _, err := r.Figures[i].Write(figureDir); err != nil {
			return nil, err
		}
	}
	page := filepath.Join(dir, "report.html")
	figures := "figures/"
	if markdown == "" {
		markdown = filepath.Join(dir, "report.md")
	} else {
		figuresPath, err := filepath.Rel(filepath.Dir(markdown), figureDir)
		if err != nil {
			return nil, err
		}
		figures = filepath.ToSlash(figuresPath) + "/"
	}
	return []string{markdown, page}, writeFiles(map[string][]byte{
		filepath.Join(dir, "verdicts.json"): append(verdicts, '\n'),
		page:                                html,
		markdown:                            r.Markdown(figures),
	})
}

// Summary returns one line for each verdict.
func (r *Report) Summary() string {
	var out strings.Builder
	for _, v := range r.Verdicts {
		figure := v.Figure
		if !strings.HasPrefix(figure, "table") {
			figure = "figure " + figure
		}
		if v.Law != "" {
			figure += ", on exact " + v.Law
		}
		fmt.Fprintf(&out, "%-13s %s (%s)%s\n", v.Word(), v.Claim, figure, v.moreSamplesNote())
	}
	return out.String()
}

// WithPrefix returns the settings whose names begin with a kind of model, such as "image model",
// under names without it. One Settings can hold those of two kinds.
func (s Settings) WithPrefix(kind string) Settings {
	prefixed := Settings{}
	for key, value := range s {
		prefixed[kind+" "+key] = value
	}
	return prefixed
}

// CSV returns results as a table for pandas and R: a line for each, with the fields of its point,
// its recipe, counts and the least seconds of a batch, and of each metric the value and one
// standard error. What is unknown is empty.
func CSV(results []Result) ([]byte, error) {
	names := MetricNames(results)
	head := []string{"kind", "name", "sampler", "steps", "alpha", "cache", "bits", "with", "seed", "n",
		"batch", "length", "recipe", "full_passes", "head_rows", "batch_seconds"}
	for _, name := range names {
		head = append(head, name, name+"_error")
	}
	number := func(v float64) string {
		if v == 0 || math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(head)
	for _, r := range results {
		seconds := 0.0
		if len(r.Seconds) > 0 {
			seconds = slices.Min(r.Seconds)
		}
		line := []string{r.Kind, r.Name(), r.Sampler, fmt.Sprint(r.Steps), number(r.Alpha),
			fmt.Sprint(r.Cache), number(float64(r.Bits)), r.Extra, fmt.Sprint(r.Seed), fmt.Sprint(r.N),
			fmt.Sprint(r.Batch), number(float64(r.Length)), r.Recipe, number(r.Passes),
			number(r.HeadRows), number(seconds)}
		for _, name := range names {
			value := ""
			deviation := ""
			if m, ok := r.Metrics[name]; ok {
				value = fmt.Sprint(m.Value)
				deviation = number(m.Error())
			}
			line = append(line, value, deviation)
		}
		w.Write(line)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
