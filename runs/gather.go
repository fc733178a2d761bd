package runs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/internal/durable"
)

// source is one shard to be gathered.
type source struct {
	name string
	*durable.Contents
}

// Gather combines the shards of a run: out becomes the folder or the file of lines of a single run,
// byte for byte. It checks that the shards are of one run, that they have its outputs 0 to n-1 each
// once, and that every output agrees with its shard's manifest. Files of a folder are hard links to
// those of the shards if the file system supports it, so do not change them there. out may exist
// from an interrupted Gather. It returns the number of outputs.
func Gather(out string, shards []string) (int, error) {
	if err := checkOutside(out, shards); err != nil {
		return 0, err
	}
	list, err := readShards(shards)
	if err != nil {
		return 0, err
	}
	n := list[0].Range.Of
	all, in := entries(list)
	to, read, err := open(out, list[0], in)
	if err != nil {
		return n, err
	}
	if done := to.Done(); done > len(all) {
		err = fmt.Errorf("%s has %d outputs, the shards have %d", out, done, len(all))
	} else if folder, ok := to.(*durable.Folder); ok && len(folder.Faults()) > 0 {
		err = fmt.Errorf("%s: %s", out, folder.Faults()[0])
	} else {
		err = to.Adopt(all[done:], read)
	}
	return n, cmp.Or(err, to.Close())
}

// adopter is a folder or a file of lines that takes outputs of others.
type adopter interface {
	Done() int
	Adopt(list []durable.Entry, read func(durable.Entry) ([]byte, string, error)) error
	Close() error
}

// readShards reads the manifests, checks that they belong together, and sorts them.
func readShards(names []string) ([]source, error) {
	var list []source
	for _, name := range names {
		c, err := durable.ReadContents(durable.OS{}, name)
		if err != nil {
			return nil, err
		}
		s := source{name, c}
		switch p := c.Range; {
		case p == nil:
			return nil, fmt.Errorf("%s is a whole run, want shards", name)
		case len(c.Entries) < p.Count:
			return nil, fmt.Errorf("%s has %d of %d outputs, want all: the command that began it goes on",
				name, len(c.Entries), p.Count)
		}
		if len(list) > 0 {
			if err := list[0].fits(s); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, inOrder(list)
}

// fits returns an error for a shard of another run.
func (s source) fits(other source) error {
	switch d := durable.Differences(s.Settings, other.Settings); {
	case len(d) > 0:
		return fmt.Errorf("%s and %s are of other runs: %s", s.name, other.name,
			strings.NewReplacer(" there,", " in the first,", " now", " in the second").Replace(
				strings.Join(d, "; ")))
	case s.Folder != other.Folder:
		return fmt.Errorf("%s and %s are a folder and a file, want shards of one run", s.name,
			other.name)
	case s.Range.Of != other.Range.Of:
		return fmt.Errorf("%s has %s, %s has %s, want shards of one run", s.name, s.Range, other.name,
			other.Range)
	}
	return nil
}

// inOrder sorts shards by their first output, and returns an error unless each output is in one.
func inOrder(list []source) error {
	slices.SortStableFunc(list, func(a, b source) int {
		return cmp.Or(a.Range.First-b.Range.First, a.Range.Count-b.Range.Count) // empty ones first
	})
	next, of := 0, list[0].Range.Of
	for _, s := range list {
		first := s.Range.First
		if first < next {
			return fmt.Errorf("%s: output %d is in another shard too, want each once", s.name, first)
		}
		if first > next {
			return missing(next, first, of)
		}
		next += s.Range.Count
	}
	if next != of {
		return missing(next, of, of)
	}
	return nil
}

func missing(first, end, of int) error {
	if end-first == 1 {
		return fmt.Errorf("output %d of %d is in no shard, want each in one", first, of)
	}
	return fmt.Errorf("outputs %d to %d of %d are in no shard, want each in one", first, end-1, of)
}

// checkOutside returns an error where out would be a shard or in one: it would no longer be what
// its manifest lists.
func checkOutside(out string, shards []string) error {
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

// entries returns the entries of all shards, and the name of each one's shard.
func entries(list []source) (all []durable.Entry, in []string) {
	for _, s := range list {
		for _, e := range s.Entries {
			all, in = append(all, e), append(in, s.name)
		}
	}
	return all, in
}

// open opens the run that shards become, and returns what reads an output of theirs: its bytes, and
// the file that has them. in has the shard of each output.
func open(out string, of source, in []string) (adopter,
	func(durable.Entry) ([]byte, string, error), error) {
	if of.Folder {
		f, err := durable.OpenFolder(durable.OS{}, out, ending, of.Settings, nil)
		return f, func(e durable.Entry) ([]byte, string, error) {
			name := filepath.Join(in[e.Index], f.Name(e.Index))
			if err := atomicfile.Check(name); err != nil {
				return nil, name, err
			}
			data, err := atomicfile.ReadFile(name)
			return data, name, err
		}, err
	}
	l, err := durable.OpenLines(durable.OS{}, out, of.Settings, nil)
	var file string
	var rest []byte
	return l, func(e durable.Entry) ([]byte, string, error) {
		name := in[e.Index]
		if name != file {
			data, err := atomicfile.ReadFile(name)
			if err != nil {
				return nil, name, err
			}
			file, rest = name, data
			for k := e.Index; k > 0 && in[k-1] == name; k-- { // lines that were gathered before
				_, rest, _ = bytes.Cut(rest, []byte("\n"))
			}
		}
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return nil, name, fmt.Errorf("%s: the line of output %d is missing", name, e.Index)
		}
		rest = after
		return append(bytes.Clone(line), '\n'), name, nil
	}, err
}
