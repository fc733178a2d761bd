package samplers

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"unmask/param"
)

// Info describes a registered rule, as JSON for programs that offer it to users.
type Info struct {
	Name  string `json:"name"`
	Line  string `json:"line"`
	Paper string `json:"paper"`
	// as Parse takes them in parentheses, those of rules inside last
	Params []param.Param `json:"parameters"`
	// what may stand in parentheses, such as "an order"; "" means nothing
	Inside       string `json:"inside,omitempty"`
	Cache        bool   `json:"cache"`              // whether it may have intermediate stages
	CacheRefusal string `json:"uncached,omitempty"` // why not
	SelfPaced    bool   `json:"self_paced"`         // it takes no steps and no schedule

	Order   bool `json:"-"` // an Order; Parse makes it a sampler as a ChooseThenSample
	Foreign bool `json:"-"` // registered by another package than this one
}

// List describes all registered rules, the paper's first.
func List() (out []Info) {
	for _, e := range registry {
		d := Info{Name: e.Name, Line: e.Line, Paper: e.Paper, Params: e.takes(true),
			Inside: e.goesAround(), CacheRefusal: CacheRefusal(e.Prototype), Order: e.order,
			Foreign: e.kind.PkgPath() != reflect.TypeFor[Random]().PkgPath()}
		d.Cache = d.CacheRefusal == ""
		_, d.SelfPaced = As[SelfPaced](e.Prototype)
		out = append(out, d)
	}
	return out
}

// takes returns the parameters that a text may give to a rule: its own, those of its default rules
// inside and, if it is an order used as a sampler, gamma.
func (e *entry) takes(sampler bool) []param.Param {
	out := []param.Param{}
	add := func(p param.Param) {
		if !slices.ContainsFunc(out, func(q param.Param) bool { return q.Name == p.Name }) {
			out = append(out, p)
		}
	}
	for _, f := range e.params {
		add(f.Param)
	}
	for _, in := range e.inside {
		for _, p := range byName[in.text].takes(!in.order) {
			add(p)
		}
	}
	if e.order && sampler {
		add(GammaParam)
	}
	return out
}

// goesAround returns a description of what may stand inside a rule.
func (e *entry) goesAround() string {
	if len(e.inside) == 0 {
		return ""
	}
	one, what := "a ", "sampler"
	if e.inside[0].order {
		one, what = "an ", "order"
	}
	switch n := len(e.inside); n {
	case 1:
		return one + what
	case 2:
		return "two " + what + "s"
	default:
		return fmt.Sprintf("%d %ss", n, what)
	}
}

// Text returns all of the description in lines: each parameter with its range, default and meaning.
func (d Info) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n  %s\n", d.Name, d.Line, d.Paper)
	if d.Inside != "" {
		fmt.Fprintf(&b, "  in parentheses: %s\n", d.Inside)
	}
	for _, p := range d.Params {
		fmt.Fprintf(&b, "  %-12s %s", p.Name, p.Want())
		if p.Default != "" {
			fmt.Fprintf(&b, ", default %s", p.Default)
		}
		fmt.Fprintf(&b, ": %s\n", p.Help)
	}
	if !d.Cache {
		fmt.Fprintf(&b, "  no --cache: %s\n", d.CacheRefusal)
	}
	return b.String()
}

// String returns one line for a list: the name, with * if the rule can have no intermediate stages,
// what it does, its parameters and its paper.
func (d Info) String() string {
	name, line := d.Name, d.Line
	if !d.Cache {
		name += "*"
	}
	var inside []string
	if d.Inside != "" {
		inside = append(inside, d.Inside)
	}
	for _, p := range d.Params {
		inside = append(inside, p.Name)
	}
	if len(inside) > 0 {
		line += " (" + strings.Join(inside, ", ") + ")"
	}
	return fmt.Sprintf("%-18s %s [%s]", name, line, d.Paper)
}
