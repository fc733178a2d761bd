package weights

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const maxIndex = MaxHeader // bytes of an index.json

// plainFile is a shard's name: within the index's directory, not hidden.
var plainFile = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=-]*\.safetensors$`)

// load adds one safetensors file or, for an index.json, all shards it names.
func (s *Set) load(file string, read func(string) ([]byte, error), add func(string) error) error {
	if !strings.HasSuffix(file, ".index.json") {
		return add(file)
	}
	data, err := read(file)
	if err != nil {
		return err
	}
	where, err := parseIndex(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	held := map[string]map[string]bool{} // shard -> tensors in it
	for _, shard := range shardsOf(where) {
		before := len(s.names)
		known := make(map[string]bool, before)
		for _, name := range s.names {
			known[name] = true
		}
		if err := add(shard); err != nil {
			return fmt.Errorf("%s: shard: %w", file, err)
		}
		held[shard] = map[string]bool{}
		for _, name := range s.names {
			if !known[name] {
				held[shard][name] = true
			}
		}
	}
	var missing []string
	for name, shard := range where {
		if !held[shard][name] {
			missing = append(missing, fmt.Sprintf("%q (%s)", name, shard))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s: tensors not in the shard it names: %s", file, strings.Join(missing, ", "))
	}
	return nil
}

// shardsOf returns the files of a weight map, each once, sorted.
func shardsOf(where map[string]string) []string {
	var shards []string
	for _, shard := range where {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// parseIndex returns the shard of every tensor.
func parseIndex(data []byte) (map[string]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("index: weight_map is empty or missing")
	}
	for _, shard := range shardsOf(index.WeightMap) {
		if !plainFile.MatchString(shard) {
			return nil, fmt.Errorf("index: shard %.80q, allowed is a .safetensors file beside the index", shard)
		}
	}
	return index.WeightMap, nil
}

// readIndex reads an index of bounded size.
func readIndex(dir fs.FS, at, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(at, name), err)
	}
	if len(data) > maxIndex {
		return nil, fmt.Errorf("%s: more than %d bytes", filepath.Join(at, name), maxIndex)
	}
	return data, nil
}
