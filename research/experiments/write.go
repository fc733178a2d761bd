package experiments

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
)

// Write writes the chart to dir, as Name.svg and Name.png. It makes the directory.
func (c *Chart) Write(dir string) error {
	svg, err := c.SVG()
	if err != nil {
		return err
	}
	png, err := c.PNG()
	if err != nil {
		return err
	}
	name := filepath.Join(dir, c.Name)
	return writeFiles(map[string][]byte{name + ".svg": svg, name + ".png": png})
}

// DrawCharts writes charts to dir and returns the names of their files.
func DrawCharts(dir string, charts []Chart) (names []string, err error) {
	for i := range charts {
		if err := charts[i].Write(dir); err != nil {
			return names, err
		}
		name := filepath.Join(dir, charts[i].Name)
		names = append(names, name+".svg", name+".png")
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
	drawn := filepath.Join(dir, "figures")
	for i := range r.Figures {
		if len(r.Figures[i].Curves) == 0 {
			continue
		}
		if err := r.Figures[i].Write(drawn); err != nil {
			return nil, err
		}
	}
	page, figures := filepath.Join(dir, "report.html"), "figures/"
	if markdown == "" {
		markdown = filepath.Join(dir, "report.md")
	} else {
		from, err := filepath.Rel(filepath.Dir(markdown), drawn)
		if err != nil {
			return nil, err
		}
		figures = filepath.ToSlash(from) + "/"
	}
	return []string{markdown, page}, writeFiles(map[string][]byte{
		filepath.Join(dir, "verdicts.json"): append(verdicts, '\n'), page: html,
		markdown: r.Markdown(figures)})
}

// Summary returns one line for each verdict.
func (r *Report) Summary() string {
	var out strings.Builder
	for _, v := range r.Verdicts {
		figure := v.Figure
		if !strings.HasPrefix(figure, "table") {
			figure = "figure " + figure
		}
		fmt.Fprintf(&out, "%-13s %s (%s)%s\n", v.Word(), v.Claim, figure, v.more())
	}
	return out.String()
}

// Of returns the settings whose names begin with a kind of model, such as "image model", under
// names without it. One Settings can hold those of two kinds.
func (s Settings) Of(kind string) Settings {
	named := Settings{}
	for key, value := range s {
		named[kind+" "+key] = value
	}
	return named
}
