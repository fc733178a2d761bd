package samplers

import "unmask/param"

// Description is a registered rule as it is listed for programs.
type Description struct {
	Name       string        `json:"name"`
	Line       string        `json:"line"`
	Paper      string        `json:"paper"`
	Parameters []param.Param `json:"parameters"`
	Inside     string        `json:"inside,omitempty"` // what may stand in parentheses
	Cache      bool          `json:"cache"`            // whether it may have intermediate stages
	Uncached   string        `json:"uncached,omitempty"`
}

// Describe describes all registered rules, as List.
func Describe() ([]Description, error) {
	var out []Description
	for _, info := range List() {
		s, err := Parse(info.Name)
		if err != nil {
			return nil, err
		}
		d := Description{Name: info.Name, Line: info.Line, Paper: info.Paper, Parameters: info.Params,
			Inside: info.Inside, Cache: true}
		if d.Parameters == nil {
			d.Parameters = []param.Param{}
		}
		if u, ok := As[Uncached](s); ok {
			d.Cache, d.Uncached = false, u.Uncached()
		}
		out = append(out, d)
	}
	return out, nil
}
