package samplers

import (
	"fmt"
	"strings"

	"unmask/param"
)

// Description describes a registered rule as JSON, for programs that offer it to users.
type Description struct {
	Name       string        `json:"name"`
	Line       string        `json:"line"`
	Paper      string        `json:"paper"`
	Parameters []param.Param `json:"parameters"`
	Inside     string        `json:"inside,omitempty"` // what may stand in parentheses
	Cache      bool          `json:"cache"`            // whether it may have intermediate stages
	Uncached   string        `json:"uncached,omitempty"`
	SelfPaced  bool          `json:"self_paced"` // it takes no steps and no schedule
}

// Describe describes all registered rules, the paper's first.
func Describe() ([]Description, error) {
	var out []Description
	for _, info := range List() {
		s, err := Parse(info.Name)
		if err != nil {
			return nil, err
		}
		d := Description{Name: info.Name, Line: info.Line, Paper: info.Paper, Parameters: info.Params,
			Inside: info.Inside}
		if d.Parameters == nil {
			d.Parameters = []param.Param{}
		}
		_, d.SelfPaced = As[SelfPaced](s)
		d.Uncached = Uncached(s)
		d.Cache = d.Uncached == ""
		out = append(out, d)
	}
	return out, nil
}

// Text returns all of the description in lines: each parameter with its range, default and meaning.
func (d Description) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n  %s\n", d.Name, d.Line, d.Paper)
	if d.Inside != "" {
		fmt.Fprintf(&b, "  in parentheses: %s\n", d.Inside)
	}
	for _, p := range d.Parameters {
		fmt.Fprintf(&b, "  %-12s %s", p.Name, p.Want())
		if p.Default != "" {
			fmt.Fprintf(&b, ", default %s", p.Default)
		}
		fmt.Fprintf(&b, ": %s\n", p.Help)
	}
	if !d.Cache {
		fmt.Fprintf(&b, "  no --cache: %s\n", d.Uncached)
	}
	return b.String()
}

// String returns one line for a list: the name, with * if the rule can have no intermediate stages,
// what it does, its parameters and its paper.
func (d Description) String() string {
	name, line := d.Name, d.Line
	if !d.Cache {
		name += "*"
	}
	var inside []string
	if d.Inside != "" {
		inside = append(inside, d.Inside)
	}
	for _, p := range d.Parameters {
		inside = append(inside, p.Name)
	}
	if len(inside) > 0 {
		line += " (" + strings.Join(inside, ", ") + ")"
	}
	return fmt.Sprintf("%-18s %s [%s]", name, line, d.Paper)
}
