package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"unmask/param"
	"unmask/weights"
)

// small are the files of a model beside its weights, those that are there.
var small = append([]string{
	"config.json", "preprocessor_config.json", "scheduler_config.json",
	// Laya's, which has no config.json
	laya, "encoder/config.json", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json",
	"tokenizer/special_tokens_map.json",
	// the adapter with which Nemotron-Labs-Diffusion drafts
	"linear_spec_lora/adapter_config.json", "linear_spec_lora/adapter_model.safetensors",
}, weights.CompanionFiles...)

const (
	pipeline  = "model_index.json"     // names the folders of a pipeline's parts
	codec     = "audio_tokenizer"      // folder of OmniVoice's sound codec
	laya      = "rl_agent_config.json" // in the place of config.json
	maxIndex  = 64 << 20               // bytes
	maxShards = 4096
)

// PullModel makes a model of a repository present in the cache and returns its directory: its
// configuration, its weights in safetensors, in one file or in the parts that an index names, its
// tokenizer and chat template, and the same for each part of a pipeline. It uses the network as
// Pull does.
func (c *Client) PullModel(ctx context.Context, repo, revision string,
	progress func(Progress)) (dir string, err error) {
	revision = cmp.Or(revision, DefaultRevision)
	if err := cmp.Or(checkRepo(repo), checkRevision(revision)); err != nil {
		return "", err
	}
	cached := func() (string, error) { return c.FindModel(repo, revision) }
	var all []string
	return c.pull(ctx, repo, revision, cached, progress,
		func(ctx context.Context, ask *Client) (string, error) {
			commit, list, err := ask.listing(ctx, repo, revision)
			if err != nil {
				return "", err
			}
			all = list
			if err := checkModel(repo, all); err != nil {
				return "", answered{err}
			}
			return commit, nil
		}, func(commit string) error {
			return c.fetchModel(ctx, repo, commit, all, progress)
		})
}

// checkModel returns the reason why a repository with these files is not a readable model.
func checkModel(repo string, all []string) error {
	has := func(ending string) int {
		return slices.IndexFunc(all, func(name string) bool { return strings.HasSuffix(name, ending) })
	}
	switch at := has(".gguf"); {
	case slices.Contains(all, pipeline), slices.Contains(all, laya) && weightsOf(all, "") != "":
		return nil
	case at >= 0 && !slices.Contains(all, "config.json"):
		return fmt.Errorf("the repository has GGUF files, want one by name: %s:%s", repo, all[at])
	case !slices.Contains(all, "config.json"):
		return fmt.Errorf("the repository has no config.json, want a model")
	case weightsOf(all, "") != "":
		return nil
	}
	for _, ending := range []string{".bin", ".pt", ".pth", ".ckpt"} {
		if at := has(ending); at >= 0 {
			return fmt.Errorf("the repository has no model.safetensors, but %s: download it and "+
				"see unmask convert", all[at])
		}
	}
	return fmt.Errorf("the repository has no model.safetensors")
}

// weightsOf returns the file in folder that has the weights or names their parts, "" if there is
// none.
func weightsOf(all []string, folder string) string {
	for _, name := range weights.ModelFiles {
		if name = path.Join(folder, name); slices.Contains(all, name) {
			return name
		}
	}
	return ""
}

// fetchModel fetches the files of a commit that belong to a model.
func (c *Client) fetchModel(ctx context.Context, repo, commit string, all []string,
	progress func(Progress)) error {
	fetch := func(name string) error { return c.fetch(ctx, repo, commit, name, progress) }
	folders := []string{codec, ""} // the model is there when its own weights are
	if slices.Contains(all, pipeline) {
		if err := fetch(pipeline); err != nil {
			return err
		}
		parts, err := c.parts(repo, commit)
		if err != nil {
			return err
		}
		folders = append(folders, parts...)
	}
	for _, folder := range folders {
		for _, name := range small {
			if name = path.Join(folder, name); slices.Contains(all, name) {
				if err := fetch(name); err != nil {
					return err
				}
			}
		}
		name := weightsOf(all, folder)
		if name == "" {
			continue
		}
		if err := fetch(name); err != nil {
			return err
		}
		shards, size, err := c.shards(repo, commit, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(shards, func(s string) bool { return !c.has(repo, commit, s) }) {
			c.announce(repo, commit, name, size, progress)
		}
		for _, shard := range shards {
			if err := fetch(shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// shards returns the parts that an index names, in its folder, and the bytes of all tensors, 0 if
// it does not say; none for other files.
func (c *Client) shards(repo, commit, name string) (shards []string, size int64, err error) {
	if !strings.HasSuffix(name, ".index.json") {
		return nil, 0, nil
	}
	var file struct {
		Map      map[string]string `json:"weight_map"`
		Metadata json.RawMessage   `json:"metadata"`
	}
	if err := c.read(repo, commit, name, &file); err != nil {
		return nil, 0, err
	}
	var total struct {
		Size float64 `json:"total_size"`
	}
	if json.Unmarshal(file.Metadata, &total) == nil {
		size = int64(total.Size)
	}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(file.Map))) {
		if err := checkFile(shard); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		if shards = append(shards, path.Join(path.Dir(name), shard)); len(shards) > maxShards {
			return nil, 0, fmt.Errorf("%s: more than %d parts", name, maxShards)
		}
	}
	return shards, size, nil
}

// parts returns the folders of a pipeline that model_index.json names: those whose value is the
// library and class of a part, as diffusers writes them.
func (c *Client) parts(repo, commit string) ([]string, error) {
	var file map[string]json.RawMessage
	if err := c.read(repo, commit, pipeline, &file); err != nil {
		return nil, err
	}
	var folders []string
	for name, raw := range file {
		var class []*string
		if strings.HasPrefix(name, "_") || json.Unmarshal(raw, &class) != nil || len(class) != 2 ||
			class[0] == nil {
			continue
		}
		if err := checkFile(name); err != nil || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s: part is %.60q, want a folder", pipeline, name)
		}
		folders = append(folders, name)
	}
	slices.Sort(folders)
	return folders, nil
}

// read reads a JSON file of a snapshot.
func (c *Client) read(repo, commit, name string, to any) error {
	file := filepath.Join(c.snapshot(repo, commit), filepath.FromSlash(name))
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxIndex {
		err = fmt.Errorf("%d bytes, want at most %d", info.Size(), maxIndex)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	return param.AtPlace(name, err)
}

// FindModel returns the directory of a cached model without using the network. The error is
// [ErrNotCached] if its configuration or a part of its weights is not there.
func (c *Client) FindModel(repo, revision string) (dir string, err error) {
	if dir, err = c.Find(repo, revision); err != nil {
		return "", err
	}
	all, _, err := contents(dir)
	if err != nil {
		return "", err
	}
	commit := filepath.Base(dir)
	missing := func(name string) (string, error) {
		return "", c.missing(repo, cmp.Or(revision, DefaultRevision), name)
	}
	folders := []string{""}
	if slices.Contains(all, pipeline) {
		parts, err := c.parts(repo, commit)
		if err != nil {
			return "", err
		}
		folders = parts
	} else if !slices.Contains(all, "config.json") && !slices.Contains(all, laya) {
		return missing("config.json")
	}
	for _, folder := range folders {
		name := weightsOf(all, folder)
		if name == "" {
			// A pipeline's tokenizer and scheduler have no weights.
			if folder == "" || !slices.ContainsFunc(all,
				func(name string) bool { return strings.HasPrefix(name, folder+"/") }) {
				return missing(path.Join(folder, weights.ModelFiles[0]))
			}
			continue
		}
		shards, _, err := c.shards(repo, commit, name)
		if err != nil {
			return "", err
		}
		for _, shard := range shards {
			if !slices.Contains(all, shard) {
				return missing(shard)
			}
		}
	}
	return dir, nil
}

// ParseModelName splits "org/name", "org/name@revision" or "org/name@revision:file.gguf". file is
// "" for a model of several files. The default revision is [DefaultRevision].
func ParseModelName(s string) (repo, revision, file string, err error) {
	whole := s
	s, file, named := strings.Cut(s, ":")
	if strings.HasPrefix(file, "//") {
		return "", "", "", checkRepo(whole) // the address of a page
	}
	if named {
		if err := checkFile(file); err != nil || !strings.HasSuffix(file, ".gguf") {
			return "", "", "", fmt.Errorf("file is %.100q, want a GGUF file of the repository",
				file)
		}
	}
	repo, revision, found := strings.Cut(s, "@")
	if !found {
		revision = DefaultRevision
	}
	if err := cmp.Or(checkRepo(repo), checkRevision(revision)); err != nil {
		return "", "", "", err
	}
	return repo, revision, file, nil
}

// PullModel calls [Client.PullModel] with the client of the environment, of a name that
// [ParseModelName] reads. It returns a directory, or the path of a GGUF file.
func PullModel(ctx context.Context, name string, progress func(Progress)) (string, error) {
	repo, revision, file, err := ParseModelName(name)
	if err != nil {
		return "", err
	}
	c, err := FromEnv()
	if err != nil {
		return "", err
	}
	if file == "" {
		return c.PullModel(ctx, repo, revision, progress)
	}
	dir, err := c.Pull(ctx, repo, revision, []string{file}, progress)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(file)), nil
}
