package weights

import (
	"fmt"
	"slices"
	"strings"
)

// Rebase returns a view of the set with names as the network has them: without `_orig_mod` parts,
// which torch.compile inserts, and without the prefix before the anchor. The anchor is the last
// part of a name that every checkpoint of the network has ("vocab_embed.embedding").
//
// prefixes, each with its final dot, are tried in order. Without prefixes the anchor must occur
// once. With prefixes but no anchor, the first one that any name begins with is removed. If nothing
// fits, no prefix is removed.
//
// Tensors keep the file's name in Tensor.Name, so that errors name what the user finds in the file.
// Tensors outside the prefix are not in Names or Get; Bind reports them.
func (s *Set) Rebase(anchor string, prefixes ...string) (*Set, error) {
	canonical := make(map[string]*Tensor, len(s.tensors))
	names := make([]string, 0, len(s.tensors))
	for _, fileName := range s.Names() {
		name := dropCompiledParts(fileName)
		if t := canonical[name]; t != nil {
			return nil, fmt.Errorf("tensors %q and %q are both %q", t.Name, s.tensors[fileName].Name,
				name)
		}
		canonical[name] = s.tensors[fileName]
		names = append(names, name)
	}
	slices.Sort(names)

	prefix, err := findPrefix(names, anchor, prefixes)
	if err != nil {
		return nil, err
	}
	view := s.withoutTensors()
	view.prefix += prefix
	for _, name := range names {
		if short, ok := strings.CutPrefix(name, prefix); ok && short != "" {
			view.tensors[short] = canonical[name]
		} else {
			view.outside = append(view.outside, canonical[name])
		}
	}
	return view, nil
}

// Prefix returns what Rebase removed from the names.
func (s *Set) Prefix() string { return s.prefix }

// dropCompiledParts removes every `_orig_mod` part of a dotted name.
func dropCompiledParts(name string) string {
	if !strings.Contains(name, "_orig_mod") {
		return name
	}
	parts := slices.DeleteFunc(strings.Split(name, "."),
		func(p string) bool { return p == "_orig_mod" })
	if len(parts) == 0 {
		return name
	}
	return strings.Join(parts, ".")
}

// findPrefix returns the prefix that Rebase removes.
func findPrefix(names []string, anchor string, prefixes []string) (string, error) {
	if anchor == "" {
		for _, p := range prefixes {
			if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, p) }) {
				return p, nil
			}
		}
		return "", nil
	}

	var anchored []string // what stands before the anchor, of each name that ends in it
	for _, name := range names {
		if p, ok := strings.CutSuffix(name, anchor); ok && (p == "" || strings.HasSuffix(p, ".")) {
			anchored = append(anchored, p)
		}
	}
	for _, p := range prefixes {
		if slices.Contains(anchored, p) {
			return p, nil
		}
	}
	switch len(anchored) {
	case 0:
		return "", nil
	case 1:
		return anchored[0], nil
	}
	// A guess could load the weights of another network in the same file (a discriminator, an
	// average of the weights).
	return "", fmt.Errorf("%d tensors end in %q, under the prefixes %q: one is allowed", len(anchored),
		anchor, anchored)
}
