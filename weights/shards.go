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

// shardName matches the name of a shard: in the index's directory, not hidden. An index comes with
// the model, so it must not lead to files elsewhere.
var shardName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+=-]*\.safetensors$`)

// addFiles adds one safetensors file of dir, or all shards of an index.json, by addFile. With file
// "" it chooses one. dirName is the directory's name in errors.
func (s *Set) addFiles(dir fs.FS, file, dirName string,
	addFile func(name string, isWanted func(tensor string) bool) ([]*Tensor, error)) error {
	if file == "" {
		var err error
		if file, err = findModelFile(dir); err != nil {
			return fmt.Errorf("%s: %w", dirName, err)
		}
	}
	defer s.addAliases()
	if !strings.HasSuffix(file, ".index.json") {
		_, err := addFile(file, func(string) bool { return true })
		return err
	}

	index := filepath.Join(dirName, file)
	shardByTensor, err := readIndex(dir, file)
	if err != nil {
		return fmt.Errorf("%s: %w", index, err)
	}
	indexed := maps.Clone(shardByTensor)
	for _, shard := range listShards(shardByTensor) {
		// The index says which of two copies counts: the other is left over from before an overlay.
		tensors, err := addFile(shard, func(tensor string) bool {
			counted, ok := indexed[tensor]
			return !ok || counted == shard
		})
		if err != nil {
			return fmt.Errorf("%s: shard %s: %w", index, shard, err)
		}
		for _, t := range tensors {
			if shardByTensor[t.Name] == shard {
				delete(shardByTensor, t.Name)
			}
		}
	}

	// What is left was promised by the index and not found. A shard of another download would
	// otherwise show only as a missing tensor of the network.
	if len(shardByTensor) > 0 {
		var missing []string
		for name, shard := range shardByTensor {
			missing = append(missing, fmt.Sprintf("%q (%s)", name, shard))
		}
		slices.Sort(missing)
		return fmt.Errorf("%s: tensors not in the shard it names: %s", index, strings.Join(missing, ", "))
	}
	return nil
}

// listShards returns the files of a weight map, each once, sorted.
func listShards(shardByTensor map[string]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(shardByTensor)))
}

// parseIndex returns the shard of every tensor by the tensor's name.
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
	for _, shard := range listShards(index.WeightMap) {
		if !shardName.MatchString(shard) {
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
