package durable

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// InOrder sorts the parts of a run by their first output, and returns an error unless each output
// is in one of them. part returns the name and the range of a part; noun is what an output is
// called in errors.
func InOrder[T any](list []T, noun string, part func(T) (name string, p *Range)) error {
	slices.SortStableFunc(list, func(a, b T) int {
		_, p := part(a)
		_, q := part(b)
		return cmp.Or(p.First-q.First, p.Count-q.Count) // empty ones first
	})
	next, of := 0, 0
	for _, t := range list {
		name, p := part(t)
		of = p.Of
		if p.First < next {
			return fmt.Errorf("%s: %s %d is in another shard too, want each once", name, noun, p.First)
		}
		if p.First > next {
			return missing(noun, next, p.First, of)
		}
		next += p.Count
	}
	if next != of {
		return missing(noun, next, of, of)
	}
	return nil
}

func missing(noun string, first, end, of int) error {
	if end-first == 1 {
		return fmt.Errorf("%s %d of %d is in no shard, want each in one", noun, first, of)
	}
	return fmt.Errorf("%ss %d to %d of %d are in no shard, want each in one", noun, first, end-1, of)
}

// CheckOutside returns an error where out would be a shard or in one: it would no longer be what
// its manifest lists.
func CheckOutside(out string, shards []string) error {
	for _, name := range shards {
		shard, err := os.Stat(name)
		if err != nil {
			return err
		}
		at, err := filepath.Abs(out)
		if err != nil {
			return err
		}
		for { // links are followed: a folder has one identity
			if info, err := os.Stat(at); err == nil && os.SameFile(info, shard) {
				return fmt.Errorf("%s is in shard %s, want another place", out, name)
			}
			above := filepath.Dir(at)
			if above == at {
				break
			}
			at = above
		}
	}
	return nil
}
