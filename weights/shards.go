package weights

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const maxIndex = MaxHeader // largest index.json in bytes

// plainFile matches the name of a shard: in the index's directory, not hidden.
var plainFile = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=-]*\.safetensors$`)

// load adds one safetensors file of dir or all shards of an index.json. With file "" it chooses
// one. at is the directory's name in errors.
func (s *Set) load(dir fs.FS, file, at string, add func(string) ([]*Tensor, error)) error {
	var err error
	if file == "" {
		if file, err = modelFile(dir); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	defer s.alias()
	if !strings.HasSuffix(file, ".index.json") {
		_, err := add(file)
		return err
	}
	index := filepath.Join(at, file)
	where, err := readIndex(dir, file)
	if err != nil {
		return fmt.Errorf("%s: %w", index, err)
	}
	for _, shard := range shardsOf(where) {
		tensors, err := add(shard)
		if err != nil {
			return fmt.Errorf("%s: shard %s: %w", index, shard, err)
		}
		for _, t := range tensors {
			if where[t.Name] == shard {
				delete(where, t.Name)
			}
		}
	}
	if len(where) > 0 {
		var missing []string
		for name, shard := range where {
			missing = append(missing, fmt.Sprintf("%q (%s)", name, shard))
		}
		slices.Sort(missing)
		return fmt.Errorf("%s: tensors not in the shard it names: %s", index, strings.Join(missing, ", "))
	}
	return nil
}

// shardsOf returns the files of a weight map, each once, sorted.
func shardsOf(where map[string]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(where)))
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
			return nil, fmt.Errorf("index: shard %.80q, want a .safetensors file beside the index", shard)
		}
	}
	return index.WeightMap, nil
}

// readIndex reads and parses an index of bounded size.
func readIndex(dir fs.FS, name string) (map[string]string, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxIndex {
		return nil, fmt.Errorf("index: more than %d bytes", maxIndex)
	}
	return parseIndex(data)
}
