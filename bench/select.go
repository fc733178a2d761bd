package bench

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Select returns the measurements that match a pattern: "forward" and "forward/lm12" match all
// names below them, "*" matches one part of a name, as in "forward/*/int8", and commas separate
// several patterns. An empty pattern matches all.
func Select(pattern string) ([]Measurement, error) {
	all := All()
	if pattern == "" {
		return all, nil
	}
	chosen := make([]bool, len(all))
	for one := range strings.SplitSeq(pattern, ",") {
		found := false
		for i, m := range all {
			trimmed, parts := strings.TrimSpace(one), strings.Split(m.Name, "/")
			n := min(strings.Count(trimmed, "/")+1, len(parts)) // so many parts of the name are compared
			ok, err := path.Match(trimmed, strings.Join(parts[:n], "/"))
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", one, err)
			}
			chosen[i], found = chosen[i] || ok, found || ok
		}
		if !found {
			return nil, fmt.Errorf("pattern %q matches nothing, want names such as forward/lm12/f32 and "+
				"their beginnings: %s",
				one, strings.Join(families(all), ", "))
		}
	}
	var out []Measurement
	for i, m := range all {
		if chosen[i] {
			out = append(out, m)
		}
	}
	return out, nil
}

func families(all []Measurement) []string {
	var out []string
	for _, m := range all {
		if f, _, _ := strings.Cut(m.Name, "/"); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
