package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"unmask/param"
)

// FindClass returns the class that text names: by its number, or by its name in upper or lower
// case. names may be nil. The error for an unknown name lists the nearest ones.
func FindClass(classes int, names []string, text string) (int32, error) {
	text = strings.TrimSpace(text)
	refuse := func(found, names string) error {
		return &param.Error{
			Name:  "class",
			Found: found,
			Want:  fmt.Sprintf("0 to %d%s", classes-1, names),
		}
	}
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 || n >= classes {
			return 0, refuse(fmt.Sprint(n), "")
		}
		return int32(n), nil
	}
	for i, name := range names {
		if strings.EqualFold(name, text) {
			return int32(i), nil
		}
	}
	if len(names) == 0 {
		return 0, refuse(param.Quote(text), "")
	}
	return 0, refuse(param.Quote(text), " or a name such as "+param.JoinOr(similarNames(names, text)))
}

// similarNames returns a few names similar to text: first those with a common word or a common
// beginning, then those that differ in a few letters.
func similarNames(names []string, text string) []string {
	const maxNames = 4
	type scored struct {
		name  string
		score int
	}
	var list []scored
	words := strings.Fields(strings.ToLower(text))
	for _, name := range names {
		score := 0
		for _, w := range words {
			lower := strings.ToLower(name)
			if slices.Contains(strings.Fields(lower), w) {
				score += 3
			} else if len(w) > 2 && strings.Contains(lower, w) {
				score++
			}
		}
		if score > 0 {
			list = append(list, scored{name, score})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := slices.Clone(param.Nearest(text, names))
	for _, s := range list {
		if !slices.Contains(out, s.name) {
			out = append(out, s.name)
		}
	}
	if len(out) == 0 {
		out = names
	}
	return out[:min(maxNames, len(out))]
}
