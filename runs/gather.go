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
)

// source is one shard to be gathered.
type source struct {
	name string
	*Contents
}

// Gather combines the shards of a run: out becomes the folder or the file of lines of a single run,
// byte for byte. It checks that the shards are of one run, that they have its outputs 0 to n-1 each
// once, and that every output agrees with its shard's manifest. It returns the number of outputs.
//
// Files of a folder are hard links to those of the shards if the file system supports it, so do not
// change them there. out may exist from an interrupted Gather, which then goes on. An error names
// the shard or the output.
func Gather(out string, shards []string) (int, error) {
	if err := checkOutside(out, shards); err != nil {
		return 0, err
	}
	sources, err := readSources(shards)
	if err != nil {
		return 0, err
	}

	var entries []Entry
	var shardNames []string // of each entry
	for _, s := range sources {
		for _, e := range s.Entries {
			entries = append(entries, e)
			shardNames = append(shardNames, s.name)
		}
	}

	settings := sources[0].Settings
	if sources[0].Folder {
		err = gatherFolder(out, settings, entries, shardNames)
	} else {
		err = gatherLines(out, settings, entries, shardNames)
	}
	return sources[0].Part.Of, err
}

// gatherFolder links the files of shards into the folder out. shardNames has the shard of each
// entry.
func gatherFolder(out string, s Settings, entries []Entry, shardNames []string) (err error) {
	folder, err := openFolder(osFiles{}, out, s, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, folder.Close()) }()

	linked := folder.Done() // by a Gather that was interrupted
	if linked > len(entries) {
		return fmt.Errorf("%s has %d outputs, the shards have %d", out, linked, len(entries))
	}
	if faults := folder.Faults(); len(faults) > 0 {
		return fmt.Errorf("%s: %s", out, faults[0])
	}

	readFile := func(e Entry) ([]byte, string, error) {
		name := filepath.Join(shardNames[e.Index], folder.Name(e.Index))
		if err := atomicfile.Check(name); err != nil {
			return nil, name, err
		}
		data, err := atomicfile.ReadFile(name)
		return data, name, err
	}
	return folder.Adopt(entries[linked:], readFile)
}

// gatherLines copies the lines of shards into the file out. shardNames has the shard of each entry.
func gatherLines(out string, s Settings, entries []Entry, shardNames []string) (err error) {
	lines, err := openLines(osFiles{}, out, s, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, lines.Close()) }()

	copied := lines.Done()
	if copied > len(entries) {
		return fmt.Errorf("%s has %d outputs, the shards have %d", out, copied, len(entries))
	}

	// Entries come in order, so each shard is read once, and unread is what follows the last line
	// that was taken from it.
	var current string
	var unread []byte
	readLine := func(e Entry) ([]byte, string, error) {
		name := shardNames[e.Index]
		if name != current {
			data, err := atomicfile.ReadFile(name)
			if err != nil {
				return nil, name, err
			}
			current = name
			unread = data

			// An interrupted Gather has some of the shard's lines already.
			for i := e.Index; i > 0 && shardNames[i-1] == name; i-- {
				_, unread, _ = bytes.Cut(unread, []byte("\n"))
			}
		}

		line, unreadAfter, isWhole := bytes.Cut(unread, []byte("\n"))
		if !isWhole {
			return nil, name, fmt.Errorf("%s: the line of output %d is missing", name, e.Index)
		}
		unread = unreadAfter
		return append(bytes.Clone(line), '\n'), name, nil
	}
	return lines.Adopt(entries[copied:], readLine)
}

// readSources reads the manifests of shards, checks that they belong together, and sorts them by
// their outputs.
func readSources(names []string) ([]source, error) {
	var sources []source
	for _, name := range names {
		contents, err := readContents(osFiles{}, name)
		if err != nil {
			return nil, err
		}
		s := source{name, contents}
		if s.Part == nil {
			return nil, fmt.Errorf("%s is a whole run, want shards", name)
		}
		if len(s.Entries) < s.Part.Count {
			return nil, fmt.Errorf("%s has %d of %d outputs, want all: the command that began it goes on",
				name, len(s.Entries), s.Part.Count)
		}
		if len(sources) > 0 {
			if err := sources[0].checkSameRun(s); err != nil {
				return nil, err
			}
		}
		sources = append(sources, s)
	}
	return sources, sortSources(sources)
}

// checkSameRun returns an error if second is a shard of another run than s.
func (s source) checkSameRun(second source) error {
	if differences := listDifferences(s.Settings, second.Settings); len(differences) > 0 {
		inShards := strings.NewReplacer(" there,", " in the first,", " now", " in the second")
		return fmt.Errorf("%s and %s are of other runs: %s", s.name, second.name,
			inShards.Replace(strings.Join(differences, "; ")))
	}
	if s.Folder != second.Folder {
		return fmt.Errorf("%s and %s are a folder and a file, want shards of one run", s.name,
			second.name)
	}
	if s.Part.Of != second.Part.Of {
		return fmt.Errorf("%s has %s, %s has %s, want shards of one run", s.name, s.Part, second.name,
			second.Part)
	}
	return nil
}

// sortSources sorts shards by their first output, and returns an error unless each output is in
// exactly one.
func sortSources(sources []source) error {
	slices.SortStableFunc(sources, func(a, b source) int {
		// A run of few outputs has empty shards. They come before the shard that begins where they do.
		return cmp.Or(a.Part.First-b.Part.First, a.Part.Count-b.Part.Count)
	})

	next := 0
	n := sources[0].Part.Of
	for _, s := range sources {
		first := s.Part.First
		if first < next {
			return fmt.Errorf("%s: output %d is in another shard too, want each once", s.name, first)
		}
		if first > next {
			return missingError(next, first, n)
		}
		next += s.Part.Count
	}
	if next != n {
		return missingError(next, n, n)
	}
	return nil
}

// missingError says that outputs first to end-1 of n are in no shard.
func missingError(first, end, n int) error {
	if end-first == 1 {
		return fmt.Errorf("output %d of %d is in no shard, want each in one", first, n)
	}
	return fmt.Errorf("outputs %d to %d of %d are in no shard, want each in one", first, end-1, n)
}

// checkOutside returns an error if out would be a shard or in one: it would no longer be what its
// manifest lists.
func checkOutside(out string, shards []string) error {
	for _, name := range shards {
		shard, err := os.Stat(name)
		if err != nil {
			return err
		}
		place, err := filepath.Abs(out)
		if err != nil {
			return err
		}

		// Paths are compared by the identity of the files, not by name, because any directory above
		// out may be a link.
		for {
			if info, err := os.Stat(place); err == nil && os.SameFile(info, shard) {
				return fmt.Errorf("%s is in shard %s, want another place", out, name)
			}
			parent := filepath.Dir(place)
			if parent == place {
				break
			}
			place = parent
		}
	}
	return nil
}
