package server

import (
	"fmt"
	"path"
	"strings"

	"unmask"
)

// Named is a model to be served under a name.
type Named struct{ Name, Model string }

// ParseModels reads MODEL or NAME=MODEL, with MODEL as unmask.Load takes it. Without NAME the name
// is the last part of MODEL. It returns an error for names that Add refuses and for models that
// unmask.CheckName refuses, so that this is known before a server listens.
func ParseModels(args []string) (list []Named, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		var n Named
		var given bool
		if n.Name, n.Model, given = strings.Cut(arg, "="); !given || unmask.IsExact(arg) {
			n = Named{strings.TrimSuffix(path.Base(arg), ".gguf"), arg}
		}
		if err := checkServed(n.Name); err != nil {
			return nil, err
		}
		if seen[n.Name] {
			return nil, twice(n.Name)
		}
		if err := unmask.CheckName(n.Model); err != nil {
			return nil, err
		}
		seen[n.Name] = true
		list = append(list, n)
	}
	return list, nil
}

// checkServed returns an error for a name that requests could not give.
func checkServed(name string) error {
	if !servedName.MatchString(name) {
		return fmt.Errorf("model name is %.80q, want 1 to 64 letters, digits, dots, dashes and "+
			"underscores", name)
	}
	return nil
}

func twice(name string) error {
	return fmt.Errorf("model name %s is there twice, want other names: NAME=DIR", name)
}
