package bench

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Usual is the pattern of the measurements that say most in at most three minutes on two cores:
// whole passes of the published sizes, their parts, and the demo models.
const Usual = "ceiling,forward/lm12,forward/vit20,partial32,decode,head/logits,attention,conv," +
	"generate/text,generate/image"

// Select returns the measurements that match a pattern: "forward" and "forward/lm12" match all
// names below them, "*" matches one part of a name, as in "forward/*/int8", and commas separate
// several patterns. An empty pattern matches all.
func Select(pattern string) ([]Measurement, error) {
	all := All()
	if pattern == "" {
		return all, nil
	}
	chosen := make([]bool, len(all))
	for part := range strings.SplitSeq(pattern, ",") {
		trimmed := strings.TrimSpace(part)
		isKnown := false
		for i, m := range all {
			// only as many parts of the name are compared as the pattern has
			names := strings.Split(m.Name, "/")
			n := min(strings.Count(trimmed, "/")+1, len(names))
			ok, err := path.Match(trimmed, strings.Join(names[:n], "/"))
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", part, err)
			}
			if ok {
				chosen[i] = true
				isKnown = true
			}
		}
		if !isKnown {
			return nil, fmt.Errorf("pattern %q matches nothing, want names such as forward/lm12/f32 and "+
				"their beginnings: %s", part, strings.Join(familyNames(all), ", "))
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

// familyNames returns the first parts of the names, each once.
func familyNames(list []Measurement) []string {
	var out []string
	for _, m := range list {
		family, _, _ := strings.Cut(m.Name, "/")
		if !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}
