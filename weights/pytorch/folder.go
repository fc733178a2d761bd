package pytorch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/weights"
)

// Names in a folder of transformers' models with PyTorch weights.
const (
	folderFile  = "pytorch_model.bin"
	folderIndex = "pytorch_model.bin.index.json"
	configFile  = "config.json"
)

// maxCompanion is the largest companion, config.json and index in bytes.
const maxCompanion = 100 << 20

// convertFolder converts a folder with config.json and pytorch_model.bin or its shards, and the
// folders that its modules.json names: their layers have weights of their own.
func convertFolder(ctx context.Context, src, dir string, o Options) error {
	companions, err := readCompanions(src)
	if err != nil {
		return err
	}
	network := ""
	if list, ok := companions[weights.ModulesFile]; ok {
		network, err = weights.NetworkFolder(list)
		if err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
	}
	networkSrc := filepath.Join(src, filepath.FromSlash(network))

	// Nothing is written for a folder that has no weights to convert.
	if _, _, err := findShards(networkSrc); err != nil {
		return err
	}
	layer := o
	layer.Weights = ""
	if list, ok := companions[weights.ModulesFile]; ok {
		modules, err := weights.ParseModules(list)
		if err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
		for _, module := range modules {
			if module == network {
				continue
			}
			moduleDir := filepath.Join(src, filepath.FromSlash(module))
			err := convertModule(ctx, moduleDir, filepath.Join(dir, filepath.FromSlash(module)), layer)
			if err != nil {
				return err
			}
		}
	}
	if network == "" {
		return convertFiles(ctx, src, dir, o, companions)
	}

	networkCompanions, err := readCompanions(networkSrc)
	if err != nil {
		return err
	}
	networkDir := filepath.Join(dir, filepath.FromSlash(network))
	if err := convertFiles(ctx, networkSrc, networkDir, o, networkCompanions); err != nil {
		return err
	}
	for name, data := range companions {
		if err := atomicfile.Put(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// convertModule converts the folder of a module, or copies its files if the weights need no
// conversion, as those of a pooling, which has none.
func convertModule(ctx context.Context, src, dir string, o Options) error {
	for _, name := range []string{folderFile, folderIndex} {
		if _, err := os.Stat(filepath.Join(src, name)); err == nil {
			return convertFiles(ctx, src, dir, o, nil)
		}
	}
	for _, name := range []string{"model.safetensors", configFile} {
		data, err := atomicfile.ReadBounded(filepath.Join(src, name), maxCompanion)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if err := atomicfile.Put(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// convertFiles converts the files of one folder, to which companions belong.
func convertFiles(ctx context.Context, src, dir string, o Options,
	companions map[string][]byte) error {
	files, shardByTensor, err := findShards(src)
	if err != nil {
		return err
	}
	config, err := readJSON(filepath.Join(src, configFile))
	if err != nil {
		return err
	}

	// The shards become one checkpoint, whose limits hold for all of them together.
	c := &Checkpoint{}
	foundIn := map[string]string{} // the shard of each tensor
	used := ""
	for _, name := range files {
		shard, err := Open(filepath.Join(src, name))
		if err != nil {
			return err
		}
		defer shard.Close()
		shardUsed, err := shard.selectWeights(o.Weights, o.say)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(src, name), err)
		}
		used = cmp.Or(used, shardUsed)
		c.size += shard.size
		c.arrays = append(c.arrays, shard.arrays...)
		c.hiddenPlaces = append(c.hiddenPlaces, shard.hiddenPlaces...)
		for _, t := range shard.tensors {
			if first, ok := foundIn[t.Name]; ok {
				return fmt.Errorf("%s: tensor %q is in %s too", filepath.Join(src, name), t.Name, first)
			}
			foundIn[t.Name] = name
		}
		c.tensors = append(c.tensors, shard.tensors...)
	}
	for _, name := range slices.Sorted(maps.Keys(shardByTensor)) {
		if foundIn[name] != shardByTensor[name] && !slices.Contains(c.arrays, name) {
			return fmt.Errorf("%s: tensor %.200q is not in %s", filepath.Join(src, folderIndex), name,
				shardByTensor[name])
		}
	}
	return c.write(ctx, dir, o, recordWeights(config, used), companions)
}

// findShards returns the names of a folder's files of weights, and, if there is an index, the file
// of each tensor.
func findShards(dir string) (files []string, shardByTensor map[string]string, err error) {
	if _, err := os.Stat(filepath.Join(dir, folderFile)); err == nil {
		return []string{folderFile}, nil, nil
	}
	indexPath := filepath.Join(dir, folderIndex)
	data, err := readJSON(indexPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: neither %s nor %s is there", dir, folderFile, folderIndex)
	}
	if err != nil {
		return nil, nil, err
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil || len(index.Map) == 0 {
		return nil, nil, fmt.Errorf("%s: weight_map is missing, want the file of each tensor", indexPath)
	}
	for _, file := range index.Map {
		if file != filepath.Base(file) || file == "." || file == ".." {
			return nil, nil, fmt.Errorf("%s: file is %.100q, want one in the folder", indexPath, file)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	return slices.Compact(files), index.Map, nil
}

// readJSON reads a small file that must be a JSON object.
func readJSON(name string) ([]byte, error) {
	data, err := atomicfile.ReadBounded(name, maxCompanion)
	if err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("%s: is not a JSON object: %v", name, err)
	}
	return data, nil
}

// readCompanions reads the other files of a folder. Packages keep a vocab.txt that several models
// share one folder up.
func readCompanions(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range weights.CompanionFiles {
		data, err := atomicfile.ReadBounded(filepath.Join(dir, name), maxCompanion)
		if errors.Is(err, fs.ErrNotExist) && name == "vocab.txt" {
			data, err = atomicfile.ReadBounded(filepath.Join(dir, "..", name), maxCompanion)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// write writes the model to dir: the tensors, the companions, and config.json last, because a
// folder with a config.json counts as a model.
func (c *Checkpoint) write(ctx context.Context, dir string, o Options, config []byte,
	companions map[string][]byte) error {
	streams, err := c.listStreams(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	modelName := filepath.Join(dir, "model.safetensors")
	for _, name := range []string{filepath.Join(dir, configFile), modelName} {
		_, err := os.Lstat(name)
		if err == nil && !o.Overwrite {
			return fmt.Errorf("%s is there already, want a directory without a model", name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	if len(c.arrays) > 0 {
		o.say("left out: %s", describeArrays(c.arrays))
	}
	if len(c.hiddenPlaces) > 0 {
		o.say("left out: tensors in %.200s, want them in dictionaries and lists",
			strings.Join(c.hiddenPlaces, ", "))
	}
	metadata := map[string]string{"format": "pt"} // transformers refuses a file without it
	if err := weights.WriteFileStreams(modelName, streams, metadata); err != nil {
		return err
	}
	for name, data := range companions {
		if err := atomicfile.Put(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return atomicfile.Put(filepath.Join(dir, configFile), config)
}
