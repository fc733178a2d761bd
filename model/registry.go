package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"unmask/backend"
	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/internal/sniff"
	"unmask/internal/textfile"
	"unmask/param"
	"unmask/weights"
	"unmask/weights/gguf"
	"unmask/weights/pytorch"
)

// Options say how a model is loaded.
type Options struct {
	Backend   backend.Backend
	Precision backend.Precision
}

// Source holds the files of a model.
type Source struct {
	// Name is for error messages.
	Name string

	// Repo is org/name on the hub, where the files come from there; "" if that is unknown.
	Repo string

	// KindOverride is a kind that replaces what config.json says or leaves open; see Format.Kinds.
	KindOverride string

	// Config is config.json.
	Config []byte

	Set *weights.Set

	// Files is the model's directory.
	Files fs.FS

	// Notes are about what config.json has, see CheckKeys.
	Notes []string

	// Template is the chat template that the authors' program has in place of the files', "" for
	// theirs. Load sets it.
	Template string

	// LocateFolder returns the directory of another network for a folder that is missing here, "" if
	// it knows none. It may be nil.
	LocateFolder func(folder string) (dir string, err error)

	// dir is the directory of Files; "" for an embedded model and for a GGUF file.
	dir string

	// gguf are the files of a GGUF model, one or its parts; nil for other models.
	gguf []string
}

// Open opens a model: a directory with config.json and model.safetensors or its shards; the
// directory of a diffusers pipeline, where Config is model_index.json and Set the transformer's;
// one with a checkpoint of ESM-C or GenMol, or with von's option_marker.pt; or a GGUF file, whose
// name ends in .gguf. An error names the file that is missing or wrong. Close the source's Set if
// the model is not loaded.
func Open(dir string) (*Source, error) {
	if gguf.IsFileName(dir) {
		return openGGUF(dir)
	}
	if src, ok, err := openPipeline(dir); ok {
		return src, err
	}
	if src, ok, err := openCheckpoint(dir); ok {
		return src, err
	}
	files := atomicfile.DirFS(dir)
	network, err := networkFolder(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	networkDir := filepath.Join(dir, filepath.FromSlash(network))
	if network != "" {
		files = moduleFS{network: atomicfile.DirFS(networkDir), root: files}
	}
	config, err := readConfig(files, networkDir)
	if err != nil {
		return nil, err
	}
	src := &Source{Name: dir, Config: config, Files: files, dir: networkDir}
	if exists(files, weights.MarkerFile) {
		// What config.json would be is derived too, and not needed.
		src.Set, _, src.Notes, err = pytorch.OpenSet(filepath.Join(networkDir, weights.MarkerFile))
	} else {
		src.Set, err = weights.Open(networkDir)
	}
	if err != nil {
		return nil, err
	}
	return src, nil
}

// openGGUF opens a GGUF file as the source of its model. The tokenizer's files are made of its keys
// when they are read.
func openGGUF(name string) (*Source, error) {
	f, err := gguf.Open(name)
	if err != nil {
		return nil, err
	}
	config, set, err := f.Model()
	if err != nil {
		f.Set.Close()
		return nil, err
	}
	return &Source{Name: name, Config: config, Set: set, Files: f.CompanionFS(), gguf: f.Parts}, nil
}

// OpenFS is Open for an embedded model. The source has the name, and its errors begin with it.
func OpenFS(files fs.FS, name string) (*Source, error) {
	network, err := networkFolder(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	networkFiles := files
	if network != "" {
		networkFiles, err = fs.Sub(files, network)
		if err != nil {
			return nil, err
		}
		files = moduleFS{network: networkFiles, root: files}
	}
	config, err := readConfig(files, filepath.Join(name, filepath.FromSlash(network)))
	if err != nil {
		return nil, err
	}
	set, err := weights.OpenFS(networkFiles, ".")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Source{Name: name, Config: config, Set: set, Files: files}, nil
}

// maxConfig is the largest config.json in bytes; published ones have a few thousand.
const maxConfig = 1 << 20

// readConfig reads config.json, or that of the encoder in a folder of Laya's.
func readConfig(files fs.FS, name string) ([]byte, error) {
	config, err := ReadFile(files, "config.json", maxConfig)
	if err != nil && exists(files, "rl_agent_config.json") {
		config, err = ReadFile(files, "encoder/config.json", maxConfig)
	}
	if err != nil && exists(files, "adapter_config.json") {
		err = fmt.Errorf("%w; there is adapter_config.json: an adapter (LoRA) without its network is not "+
			"read", err)
	}
	return config, param.AtPlace(filepath.Join(name, "config.json"), err)
}

// exists reports whether there is a file or folder of a name.
func exists(files fs.FS, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}

// ReadFile reads a regular file of at most maxSize bytes. Errors do not name the file; one about a
// missing file wraps fs.ErrNotExist.
func ReadFile(files fs.FS, name string, maxSize int64) ([]byte, error) {
	info, err := fs.Stat(files, name) // before opening: opening a pipe would wait for a writer
	switch {
	case err != nil:
		return nil, atomicfile.WithoutPath(err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("not a regular file but %s", info.Mode())
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%d bytes, want at most %d", info.Size(), maxSize)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return data, atomicfile.WithoutPath(err)
	}
	return data, sniff.CheckPlaceholder(data)
}

// Load finds the source's format and loads the model. It releases the weights afterwards, because
// the network has packed them. An error begins with the source's name: a config.json of no format,
// or one with a value that no network here computes, or tensors that are missing or of another
// shape.
func Load(src *Source, o Options) (_ *Loaded, err error) {
	defer backend.Recover(&err)
	if src, err = src.withoutCompiledParts(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	f, err := formatOf(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	if err := src.checkPlain(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	asKind := src.KindOverride // a format may change it
	m, err := f.Load(src, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", src.Name, f.Name, err)
	}
	m.Info.Architecture = cmp.Or(m.Info.Architecture, f.Name)
	m.Info.Notes = append(m.Info.Notes, src.Notes...)
	if asKind != "" {
		m.Info.Notes = append(m.Info.Notes, fmt.Sprintf("read as %s, as asked for; model_type is %q",
			asKind, src.Facts().Type))
	}
	if err := m.complete(src, o); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return m, src.Set.ReleaseAll()
}

// withoutCompiledParts returns the source with the names that tensors have without the parts that
// torch.compile inserts, by which formats know a network's variants.
func (s *Source) withoutCompiledParts() (*Source, error) {
	if s.Set == nil {
		return s, nil
	}
	isCompiled := func(name string) bool { return strings.Contains(name, "_orig_mod.") }
	if !slices.ContainsFunc(s.Set.Names(), isCompiled) {
		return s, nil
	}
	set, err := s.Set.Rebase("")
	if err != nil {
		return s, err
	}
	set, err = set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		named := *t
		named.Name = name
		return name, &named, nil
	})
	if err != nil {
		return s, err
	}
	plain := *s
	plain.Set = set
	return &plain, nil
}

// DecodeConfig decodes config.json into v and ignores unknown fields. The error of other JSON names
// the line and the place in it.
func DecodeConfig(src *Source, v any) error {
	err := json.Unmarshal(src.Config, v)
	if err == nil {
		return nil
	}
	if textfile.HasMark(src.Config) {
		return fmt.Errorf("config.json: begins with a byte order mark, want '{'")
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset := int(max(s.Offset, 1)) - 1 // of the byte that is wrong; Offset counts it too
		line := bytes.Count(src.Config[:min(offset, len(src.Config))], []byte("\n")) + 1
		if place := jsonline.PlaceOf(src.Config, offset); place != "" {
			return fmt.Errorf("config.json: line %d, %s: %w", line, place, jsonline.PlainError(err))
		}
		return fmt.Errorf("config.json: line %d: %w", line, jsonline.PlainError(err))
	}
	return fmt.Errorf("config.json: %w", jsonline.PlainError(err))
}

// HasTensor reports whether the name of any tensor ends in suffix.
func (s *Source) HasTensor(suffix string) bool {
	return slices.ContainsFunc(s.Set.Names(),
		func(name string) bool { return strings.HasSuffix(name, suffix) })
}

// Bind binds the tensors of set to root, as weights.Bind does, and calls load to pack them. The
// error is that of either.
func (o Options) Bind(root any, set *weights.Set, options weights.BindOptions,
	load func(Options) error) (report weights.Report, err error) {
	options.Report = &report
	if err := weights.Bind(root, set, options); err != nil {
		return report, err
	}
	return report, load(o)
}

// Parameters returns the number of elements of the named tensors.
func Parameters(names []string, set *weights.Set) int {
	n := 0
	for _, name := range names {
		if t, ok := set.Get(name); ok {
			n += t.Numel()
		}
	}
	return n
}
