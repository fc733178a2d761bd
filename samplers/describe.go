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

	// Params are what Parse takes in parentheses, those of the rules inside last.
	Params []param.Param `json:"parameters"`

	// Inside says which rules may stand in parentheses, such as "an order"; "" means none.
	Inside string `json:"inside,omitempty"`

	// Cache says whether steps may have intermediate stages of partial caching, and CacheRefusal why
	// not.
	Cache        bool   `json:"cache"`
	CacheRefusal string `json:"uncached,omitempty"`

	// SelfPaced says that the rule takes no steps and no schedule.
	SelfPaced bool `json:"self_paced"`

	// Order says that the rule is an Order; Parse makes it a sampler as a ChooseThenSample.
	Order bool `json:"-"`

	// Foreign says that another package than this one registered the rule.
	Foreign bool `json:"-"`
}

// List describes all registered rules, the paper's first.
func List() (list []Info) {
	for _, e := range registry {
		refusal := CacheRefusal(e.Prototype)
		list = append(list, Info{
			Name:         e.Name,
			Line:         e.Line,
			Paper:        e.Paper,
			Params:       e.acceptedParams(true),
			Inside:       e.describeInside(),
			Cache:        refusal == "",
			CacheRefusal: refusal,
			SelfPaced:    Is[SelfPaced](e.Prototype),
			Order:        e.order,
			Foreign:      e.goType.PkgPath() != reflect.TypeFor[Random]().PkgPath(),
		})
	}
	return list
}

// acceptedParams returns the parameters that a text may give to a rule: its own, those of its
// default rules inside and, if it is an order used as a sampler, gamma.
func (e *entry) acceptedParams(asSampler bool) []param.Param {
	params := []param.Param{} // not nil, so that JSON has an empty list
	add := func(p param.Param) {
		if !slices.ContainsFunc(params, func(q param.Param) bool { return q.Name == p.Name }) {
			params = append(params, p)
		}
	}
	for _, f := range e.params {
		add(f.Param)
	}
	for _, in := range e.inside {
		for _, p := range byName[in.text].acceptedParams(!in.order) {
			add(p)
		}
	}
	if e.order && asSampler {
		add(GammaParam)
	}
	return params
}

// describeInside says which rules may stand inside a rule: "" or such as "two orders".
func (e *entry) describeInside() string {
	if len(e.inside) == 0 {
		return ""
	}
	article := "a"
	noun := "sampler"
	if e.inside[0].order {
		article = "an"
		noun = "order"
	}
	switch n := len(e.inside); n {
	case 1:
		return article + " " + noun
	case 2:
		return "two " + noun + "s"
	default:
		return fmt.Sprintf("%d %ss", n, noun)
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
	name := d.Name
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
	line := d.Line
	if len(inside) > 0 {
		line += " (" + strings.Join(inside, ", ") + ")"
	}
	return fmt.Sprintf("%-18s %s [%s]", name, line, d.Paper)
}
