package weights

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/param"
)

// Set is the tensors of one model by name. Concurrent reads are safe, but Close does not wait for
// them.
type Set struct {
	tensors map[string]*Tensor

	// outside are the tensors that Rebase found without the prefix.
	outside []*Tensor

	// prefix is what Rebase removed from the names.
	prefix string

	metadata map[string]string
	sources  []*source // the files, which Close unmaps
}

const (
	fileName  = "model.safetensors"
	indexName = "model.safetensors.index.json"
)

// ModelFiles are the files that have a model's weights or name their parts, of huggingface_hub and
// of diffusers with its float16 variants, in the order in which Open takes them.
var ModelFiles = []string{fileName, indexName, "diffusion_pytorch_model.safetensors",
	"model.fp16.safetensors", "diffusion_pytorch_model.fp16.safetensors"}

// SentenceTransformerFiles are the names that sentence-transformers has had for its settings of a
// network, in the order in which it looks for them.
var SentenceTransformerFiles = []string{
	"sentence_bert_config.json", "sentence_roberta_config.json",
	"sentence_distilbert_config.json", "sentence_camembert_config.json",
	"sentence_albert_config.json", "sentence_xlm-roberta_config.json", "sentence_xlnet_config.json",
}

// CompanionFiles are the files beside config.json and the weights that a model may need: the
// tokenizer in any of its forms, how to chat, and what sentence-transformers does after the
// network. The folders that modules.json names have more of it.
var CompanionFiles = append([]string{"generation_config.json", "tokenizer.json", "vocab.json",
	"merges.txt", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json",
	"chat_template.jinja", "chat_template.json", "additional_chat_templates/tool_use.jinja",
	"vocab.txt", "modules.json",
	"config_sentence_transformers.json"},
	SentenceTransformerFiles...)

// CheckpointPatterns match the weights of repositories that have a PyTorch file and no config.json:
// the first ones of ESM-C (biohub/esmc-300m-2024-12, esmc-600m-2024-12), and GenMol's.
var CheckpointPatterns = []string{"data/weights/esmc_*.pth", "model_v[0-9].ckpt"}

// MarkerFile has all weights of von's networks for typed questions. What is in a model.safetensors
// beside it only gives the authors' class its form.
const MarkerFile = "option_marker.pt"

// ModulesFile is the list of what sentence-transformers does with a text, one module after another.
const ModulesFile = "modules.json"

// maxModules is the most modules of sentence-transformers that a model may have.
const maxModules = 64

// ParseModules returns the folders that the contents of a modules.json name, each once, without the
// model's own. They are relative paths in the model's folder. A path out of that folder is an
// error: the file may come from anybody.
func ParseModules(data []byte) ([]string, error) {
	var modules []struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(data, &modules); err != nil {
		return nil, fmt.Errorf("modules.json: %w", err)
	}
	if len(modules) > maxModules {
		return nil, fmt.Errorf("modules.json has %d modules, want at most %d", len(modules), maxModules)
	}
	var folders []string
	for _, m := range modules {
		if m.Path == "" || slices.Contains(folders, m.Path) {
			continue
		}
		if !fs.ValidPath(m.Path) || m.Path == "." {
			return nil, fmt.Errorf("modules.json: path is %.100q, want a folder beside it", m.Path)
		}
		folders = append(folders, m.Path)
	}
	return folders, nil
}

// NetworkFolder returns the folder of the network itself, which is the first module of a
// modules.json with these contents; "" where it is beside that file, or where the file is not such
// a list. A path out of the model's folder is an error.
func NetworkFolder(modules []byte) (string, error) {
	var list []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(modules, &list) != nil || len(list) == 0 || list[0].Path == "" {
		return "", nil // what reads the modules says what is wrong with them
	}
	folder := list[0].Path
	if !fs.ValidPath(folder) || folder == "." {
		return "", fmt.Errorf("modules.json: path is %.100q, want a folder beside it", folder)
	}
	return folder, nil
}

// Open maps the model at name: a safetensors file, its index.json, or a directory. In a directory
// it looks for model.safetensors, for model.safetensors.index.json with its shards, and for
// diffusion_pytorch_model.safetensors of diffusers or its .fp16 variants. An error names the file:
// a header that the format does not allow, or a tensor that is not in the shard that the index
// names. Close the set when it is no longer needed.
func Open(name string) (*Set, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	dir := name
	file := ""
	if !info.IsDir() {
		dir, file = filepath.Split(name)
		dir = filepath.Clean(dir)
	}
	s := newSet()
	err = s.addFiles(atomicfile.DirFS(dir), file, dir, func(file string,
		isWanted func(string) bool) ([]*Tensor, error) {
		src, err := openSource(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, src)
		return s.addFile(src.data, src, src.path, isWanted)
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenFS is Open within fsys, for models embedded in a program. The files are read, not mapped.
// Errors are those of Open.
func OpenFS(fsys fs.FS, name string) (*Set, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	dir := name
	file := ""
	if !info.IsDir() {
		dir = path.Dir(name)
		file = path.Base(name)
	}
	if fsys, err = fs.Sub(fsys, dir); err != nil {
		return nil, err
	}
	s := newSet()
	err = s.addFiles(fsys, file, dir, func(file string,
		isWanted func(string) bool) ([]*Tensor, error) {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		return s.addFile(data, nil, path.Join(dir, file), isWanted)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Parse returns the tensors of a safetensors file in memory, which the set keeps. name is used in
// errors.
func Parse(data []byte, name string) (*Set, error) {
	s := newSet()
	if _, err := s.addFile(data, nil, name, func(string) bool { return true }); err != nil {
		return nil, err
	}
	s.addAliases()
	return s, nil
}

// newSet returns an empty set.
func newSet() *Set {
	return &Set{tensors: map[string]*Tensor{}, metadata: map[string]string{}}
}

// findModelFile returns the name of the file with the weights in a model's directory.
func findModelFile(dir fs.FS) (string, error) {
	for _, name := range ModelFiles {
		if _, err := fs.Stat(dir, name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("neither %s nor %s is there", fileName, indexName)
}

// addFile parses one safetensors file and adds those of its tensors that are wanted. A name may be
// in one file only.
func (s *Set) addFile(data []byte, src *source, name string,
	isWanted func(tensor string) bool) ([]*Tensor, error) {
	tensors, metadata, err := parseSafetensors(data, src)
	if err == nil {
		tensors = slices.DeleteFunc(tensors, func(t *Tensor) bool { return !isWanted(t.Name) })
		err = s.addTensors(tensors, metadata, src, "in another shard too")
	}
	return tensors, param.AtPlace(name, err)
}

// addAliases adds the other names of tied tensors: safetensors.torch.save_model writes such tensors
// once, and __metadata__ leads from each name that it left out to the one that it wrote
// (safetensors, bindings/python/py_src/safetensors/torch.py, _remove_duplicate_names). The key
// "format" is not one of them: it says which library wrote the file ("pt"), and a tensor may be
// called "pt".
func (s *Set) addAliases() {
	for _, name := range slices.Sorted(maps.Keys(s.metadata)) {
		t := s.tensors[s.metadata[name]]
		if name != "format" && t != nil && s.tensors[name] == nil && checkName(name) == nil {
			s.tensors[name] = t
		}
	}
}

// Names returns the tensors' names, sorted.
func (s *Set) Names() []string {
	names := slices.AppendSeq(make([]string, 0, len(s.tensors)), maps.Keys(s.tensors))
	slices.Sort(names)
	return names
}

// CountBlocks returns one more than the largest number that follows prefix in a name, as in
// "blocks.11.norm1.weight": the number of blocks of a network. Numbers that are too large to be
// followed by a tensor each are ignored.
func (s *Set) CountBlocks(prefix string) (n int) {
	for name := range s.tensors {
		numbered, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		index, _, _ := strings.Cut(numbered, ".")
		if i, err := strconv.Atoi(index); err == nil && i >= n && i < len(s.tensors) {
			n = i + 1
		}
	}
	return n
}

// Get returns the tensor of that name.
func (s *Set) Get(name string) (*Tensor, bool) {
	t, ok := s.tensors[name]
	return t, ok
}

// Metadata returns the strings of the files' __metadata__.
func (s *Set) Metadata() map[string]string { return s.metadata }

// ReleaseAll drops the pages of all files from memory, as Release does for those of one tensor.
func (s *Set) ReleaseAll() error {
	for _, src := range s.sources {
		if src.closed.Load() {
			continue
		}
		if err := releasePages(src.data, src.data); err != nil {
			return fmt.Errorf("%s: release: %w", src.path, err)
		}
	}
	return nil
}

// Close unmaps the files. After it the tensors' Data must not be used; their methods return errors.
func (s *Set) Close() error {
	var err error
	for _, src := range s.sources {
		err = cmp.Or(err, src.close())
	}
	return err
}
