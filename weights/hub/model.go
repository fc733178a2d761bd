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
	"regexp"
	"slices"
	"strings"

	"unmask/param"
	"unmask/weights"
)

// modelFiles are the files of a model beside its weights; those that are there are fetched.
var modelFiles = append([]string{
	"config.json", "preprocessor_config.json", "scheduler_config.json",
	// Laya's, which has no config.json, and von's
	layaConfig, "marker_calibration.json", "encoder/config.json",
	"tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json",
	"tokenizer/special_tokens_map.json",
	// the adapter with which Nemotron-Labs-Diffusion drafts
	"linear_spec_lora/adapter_config.json", "linear_spec_lora/adapter_model.safetensors",
}, weights.CompanionFiles...)

const (
	pipelineFile = "model_index.json"     // names the folders of a pipeline's parts
	codecFolder  = "audio_tokenizer"      // folder of OmniVoice's sound codec
	layaConfig   = "rl_agent_config.json" // in the place of config.json
	maxIndex     = 64 << 20               // bytes
	maxShards    = 4096
)

// PullModel makes a model of a repository present in the cache and returns its directory: its
// configuration, its weights in safetensors, in one file or in the parts that an index names, its
// tokenizer and chat template, and the same for each part of a pipeline. It uses the network as
// Pull does.
func (c *Client) PullModel(ctx context.Context, repo, revision string,
	progress func(Progress)) (dir string, err error) {
	return c.PullFolder(ctx, repo, revision, "", progress)
}

// PullFolder is PullModel for a model in a folder of the repository, of which the other files are
// not fetched. It returns the folder's directory in the snapshot.
func (c *Client) PullFolder(ctx context.Context, repo, revision, folder string,
	progress func(Progress)) (dir string, err error) {
	revision = cmp.Or(revision, DefaultRevision)
	if err := checkNames(repo, revision); err != nil {
		return "", err
	}
	if folder != "" {
		if err := checkFile(folder); err != nil {
			return "", err
		}
	}
	findCached := func() (string, error) { return c.findSnapshot(repo, revision, folder) }
	var files []string
	resolve := func(ctx context.Context, quick *Client) (commit string, err error) {
		commit, files, err = quick.listRepo(ctx, repo, revision)
		if err != nil {
			return "", err
		}
		if err := checkModelFiles(repo, folder, files); err != nil {
			return "", answeredError{err}
		}
		return commit, nil
	}
	fetch := func(commit string) error {
		return c.fetchModel(ctx, repo, commit, folder, files, progress)
	}
	dir, err = c.pullCommit(ctx, repo, revision, findCached, progress, resolve, fetch)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(folder)), nil
}

// checkModelFiles returns the reason why a folder of a repository with these files is not a
// readable model. It is asked before anything is downloaded.
func checkModelFiles(repo, folder string, files []string) error {
	place := "the repository"
	if folder != "" {
		place = fmt.Sprintf("the repository's folder %.100q", folder)
	}
	indexBySuffix := func(suffix string) int {
		return slices.IndexFunc(files, func(name string) bool {
			return strings.HasSuffix(name, suffix) && isBelow(name, folder)
		})
	}
	has := func(name string) bool { return slices.Contains(files, path.Join(folder, name)) }
	hasWeights := findWeights(files, folder) != ""
	if has(pipelineFile) || has(layaConfig) && hasWeights || isCheckpoint(files, folder) {
		return nil
	}
	if i := indexBySuffix(".gguf"); i >= 0 && !has("config.json") {
		return fmt.Errorf("%s has GGUF files, want one by name: %s:%s", place, repo, files[i])
	}
	if has(weights.ModulesFile) && hasNetworkBelow(files, folder) {
		return nil
	}
	if !has("config.json") {
		hint := ""
		if folders := listModelFolders(files); len(folders) > 0 && folder == "" {
			hint = fmt.Sprintf(", or one of its folders, such as %s:%s/", repo, folders[0])
		}
		return fmt.Errorf("%s has no config.json, want a model%s", place, hint)
	}
	if hasWeights {
		return nil
	}
	for _, suffix := range []string{".bin", ".pt", ".pth", ".ckpt"} {
		if i := indexBySuffix(suffix); i >= 0 {
			return fmt.Errorf("%s has no model.safetensors, but %s: download it and "+
				"see unmask convert", place, files[i])
		}
	}
	return fmt.Errorf("%s has no model.safetensors", place)
}

// isBelow reports whether a file is in a folder of the repository, "" for the whole.
func isBelow(name, folder string) bool {
	return folder == "" || strings.HasPrefix(name, folder+"/")
}

// hasNetworkBelow reports whether a folder in this one has a configuration and weights. It may be
// the network of a modules.json, which is not read before it is fetched.
func hasNetworkBelow(files []string, folder string) bool {
	return slices.ContainsFunc(files, func(name string) bool {
		below, file := path.Split(name)
		below = strings.TrimSuffix(below, "/")
		isBelow := below != folder && path.Dir(below) == cmp.Or(folder, ".")
		return file == "config.json" && isBelow && findWeights(files, below) != ""
	})
}

// listModelFolders returns the folders that have a model of their own: a configuration and weights.
// Parts of a pipeline are none, nor are the layers of sentence-transformers, which are numbered.
func listModelFolders(files []string) []string {
	var folders []string
	for _, name := range files {
		folder, file := path.Split(name)
		folder = strings.TrimSuffix(folder, "/")
		if folder == "" {
			continue
		}
		if file == pipelineFile {
			folders = append(folders, folder)
		}
		if file != "config.json" && file != layaConfig {
			continue
		}
		parent := strings.TrimSuffix(path.Dir(folder), ".")
		isLayer := modulePath.MatchString(path.Base(folder))
		isPart := slices.Contains(files, path.Join(parent, pipelineFile)) ||
			path.Base(folder) == codecFolder
		if !isLayer && !isPart && findWeights(files, folder) != "" {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// modulePath matches the folders that sentence-transformers writes for its modules.
var modulePath = regexp.MustCompile(`^[0-9]+_[A-Za-z0-9_]*$`)

// findWeights returns the file in folder that has the weights or names their parts, "" if there is
// none.
func findWeights(files []string, folder string) string {
	if name := path.Join(folder, weights.MarkerFile); slices.Contains(files, name) {
		return name
	}
	for _, name := range weights.ModelFiles {
		name = path.Join(folder, name)
		if slices.Contains(files, name) {
			return name
		}
	}
	if isCheckpoint(files, folder) {
		return files[slices.IndexFunc(files, isCheckpointFile)]
	}
	return ""
}

// isCheckpoint reports whether the model in folder is one whose repository has a PyTorch file and
// no config.json.
func isCheckpoint(files []string, folder string) bool {
	return folder == "" && !slices.Contains(files, "config.json") &&
		slices.ContainsFunc(files, isCheckpointFile)
}

// isCheckpointFile reports whether a file has the name of a checkpoint of PyTorch.
func isCheckpointFile(name string) bool {
	return slices.ContainsFunc(weights.CheckpointPatterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // its only error is a pattern that is none
		return ok
	})
}

// fetchModel fetches those of a commit's files that belong to the model in a folder, root. Its own
// weights come last: FindModel takes a folder with them for a whole model.
func (c *Client) fetchModel(ctx context.Context, repo, commit, root string, files []string,
	progress func(Progress)) error {
	folders := []string{path.Join(root, codecFolder), root}
	if index := path.Join(root, pipelineFile); slices.Contains(files, index) {
		if err := c.fetchFile(ctx, repo, commit, index, progress); err != nil {
			return err
		}
		parts, err := c.listParts(repo, commit, root)
		if err != nil {
			return err
		}
		folders = append(folders, parts...)
	}
	for _, folder := range folders {
		for _, name := range modelFiles {
			name = path.Join(folder, name)
			if !slices.Contains(files, name) {
				continue
			}
			if err := c.fetchFile(ctx, repo, commit, name, progress); err != nil {
				return err
			}
		}
		if err := c.fetchModules(ctx, repo, commit, files, folder, progress); err != nil {
			return err
		}
		if err := c.fetchWeights(ctx, repo, commit, files, folder, progress); err != nil {
			return err
		}
	}
	return nil
}

// fetchModules fetches what the modules of sentence-transformers have in folders of their own,
// whatever these are called. A folder that is not there is an error when the model is used.
func (c *Client) fetchModules(ctx context.Context, repo, commit string, files []string,
	folder string, progress func(Progress)) error {
	index := path.Join(folder, weights.ModulesFile)
	if !slices.Contains(files, index) {
		return nil
	}
	var list json.RawMessage
	if err := c.readJSON(repo, commit, index, &list); err != nil {
		return err
	}
	modules, err := weights.ParseModules(list)
	if err != nil {
		return err
	}
	network, err := weights.NetworkFolder(list)
	if err != nil {
		return err
	}
	for _, module := range modules {
		needed := []string{"config.json"}
		if module == network {
			needed = modelFiles
		}
		module = path.Join(folder, module)
		for _, name := range needed {
			name = path.Join(module, name)
			if !slices.Contains(files, name) {
				continue
			}
			if err := c.fetchFile(ctx, repo, commit, name, progress); err != nil {
				return err
			}
		}
		if err := c.fetchWeights(ctx, repo, commit, files, module, progress); err != nil {
			return err
		}
	}
	return nil
}

// fetchWeights fetches the weights in a folder, nothing if it has none.
func (c *Client) fetchWeights(ctx context.Context, repo, commit string, files []string,
	folder string, progress func(Progress)) error {
	name := findWeights(files, folder)
	if name == "" {
		return nil
	}
	if err := c.fetchFile(ctx, repo, commit, name, progress); err != nil {
		return err
	}
	shards, size, err := c.listShards(repo, commit, name)
	if err != nil {
		return err
	}
	isMissing := func(shard string) bool { return !c.hasFile(repo, commit, shard) }
	if slices.ContainsFunc(shards, isMissing) {
		c.announceDownload(repo, commit, name, size, progress)
	}
	for _, shard := range shards {
		if err := c.fetchFile(ctx, repo, commit, shard, progress); err != nil {
			return err
		}
	}
	return nil
}

// listShards returns the parts that an index names, in its folder, and the bytes of all tensors, 0
// if it does not say; none for other files.
func (c *Client) listShards(repo, commit, name string) (shards []string, size int64, err error) {
	if !strings.HasSuffix(name, ".index.json") {
		return nil, 0, nil
	}
	var index struct {
		Map      map[string]string `json:"weight_map"`
		Metadata json.RawMessage   `json:"metadata"`
	}
	if err := c.readJSON(repo, commit, name, &index); err != nil {
		return nil, 0, err
	}
	var metadata struct {
		Size float64 `json:"total_size"`
	}
	if json.Unmarshal(index.Metadata, &metadata) == nil {
		size = int64(metadata.Size)
	}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(index.Map))) {
		if err := checkFile(shard); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		shards = append(shards, path.Join(path.Dir(name), shard))
		if len(shards) > maxShards {
			return nil, 0, fmt.Errorf("%s: more than %d parts", name, maxShards)
		}
	}
	return shards, size, nil
}

// listParts returns the folders of a pipeline that the model_index.json in a folder names: those
// whose value is the library and class of a part, as diffusers writes them.
func (c *Client) listParts(repo, commit, root string) ([]string, error) {
	var index map[string]json.RawMessage
	if err := c.readJSON(repo, commit, path.Join(root, pipelineFile), &index); err != nil {
		return nil, err
	}
	var folders []string
	for name, raw := range index {
		var class []*string // library and name; a part that is left out has null
		if strings.HasPrefix(name, "_") || json.Unmarshal(raw, &class) != nil || len(class) != 2 ||
			class[0] == nil {
			continue
		}
		if err := checkFile(name); err != nil || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s: part is %.60q, want a folder", pipelineFile, name)
		}
		folders = append(folders, path.Join(root, name))
	}
	slices.Sort(folders)
	return folders, nil
}

// readJSON reads a JSON file of a snapshot into v.
func (c *Client) readJSON(repo, commit, name string, v any) error {
	file := filepath.Join(c.snapshotDir(repo, commit), filepath.FromSlash(name))
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxIndex {
		err = fmt.Errorf("%d bytes, want at most %d", info.Size(), maxIndex)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	return param.AtPlace(name, err)
}

// FindModel returns the directory of a cached model without using the network. The error is
// [ErrNotCached] if its configuration or a part of its weights is not there.
func (c *Client) FindModel(repo, revision string) (dir string, err error) {
	return c.findSnapshot(repo, revision, "")
}

// findSnapshot returns the directory of a cached snapshot with the whole model in a folder, root.
func (c *Client) findSnapshot(repo, revision, root string) (dir string, err error) {
	dir, err = c.Find(repo, revision)
	if err != nil {
		return "", err
	}
	files, _, err := listFiles(dir)
	if err != nil {
		return "", err
	}
	commit := filepath.Base(dir)
	missing := func(name string) (string, error) {
		return "", c.missingFile(repo, cmp.Or(revision, DefaultRevision), name)
	}

	has := func(name string) bool { return slices.Contains(files, path.Join(root, name)) }
	folders := []string{root}
	if has(weights.ModulesFile) && !has("config.json") {
		var list json.RawMessage
		if err := c.readJSON(repo, commit, path.Join(root, weights.ModulesFile), &list); err != nil {
			return "", err
		}
		network, err := weights.NetworkFolder(list)
		if err != nil {
			return "", err
		}
		folders = []string{path.Join(root, network)}
		config := path.Join(root, network, "config.json")
		if !slices.Contains(files, config) {
			return missing(config)
		}
	} else if has(pipelineFile) {
		folders, err = c.listParts(repo, commit, root)
		if err != nil {
			return "", err
		}
	} else if !has("config.json") && !has(layaConfig) && !isCheckpoint(files, root) {
		return missing(path.Join(root, "config.json"))
	}

	for _, folder := range folders {
		name := findWeights(files, folder)
		if name == "" {
			// A pipeline's tokenizer and scheduler have no weights, but some other file.
			isInFolder := func(name string) bool { return strings.HasPrefix(name, folder+"/") }
			if folder == root || !slices.ContainsFunc(files, isInFolder) {
				return missing(path.Join(folder, weights.ModelFiles[0]))
			}
			continue
		}
		shards, _, err := c.listShards(repo, commit, name)
		if err != nil {
			return "", err
		}
		for _, shard := range shards {
			if !slices.Contains(files, shard) {
				return missing(shard)
			}
		}
	}
	return dir, nil
}

// ParseModelName splits "org/name", "org/name@revision", "org/name@revision:file.gguf" or, for a
// model in a folder of the repository, "org/name@revision:folder/". file is "" for a model of
// several files, and ends in a slash if it is a folder. The default revision is [DefaultRevision].
func ParseModelName(s string) (repo, revision, file string, err error) {
	model, file, hasFile := strings.Cut(s, ":")
	if strings.HasPrefix(file, "//") {
		return "", "", "", checkRepo(s) // the address of a page
	}
	if hasFile {
		folder, isFolder := strings.CutSuffix(file, "/")
		err := checkFile(folder)
		if err != nil || !isFolder && !strings.HasSuffix(file, ".gguf") {
			return "", "", "", fmt.Errorf("file is %.100q, want a GGUF file of the repository, or a "+
				"folder and /", file)
		}
	}
	repo, revision, hasRevision := strings.Cut(model, "@")
	if !hasRevision {
		revision = DefaultRevision
	}
	if err := checkNames(repo, revision); err != nil {
		return "", "", "", err
	}
	return repo, revision, file, nil
}

// PullModel calls [Client.PullModel] with the client of the environment, of a name that
// [ParseModelName] reads. It returns a directory, or the path of a GGUF file, of which all parts
// are fetched.
func PullModel(ctx context.Context, name string, progress func(Progress)) (string, error) {
	repo, revision, file, err := ParseModelName(name)
	if err != nil {
		return "", err
	}
	c, err := FromEnv()
	if err != nil {
		return "", err
	}
	folder, isFolder := strings.CutSuffix(file, "/")
	if file == "" || isFolder {
		return c.PullFolder(ctx, repo, revision, folder, progress)
	}
	files, _ := weights.PartNames(file)
	if files == nil {
		files = []string{file}
	}
	dir, err := c.Pull(ctx, repo, revision, files, progress)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(file)), nil
}
