package unmask

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/backend/plain"
	"unmask/exact"
	"unmask/model"
	"unmask/weights/gguf"
	"unmask/weights/hub"
)

// ErrName is wrapped by errors about a name that no model can have.
var ErrName = errors.New("not a model's name")

type nameError string

func (e nameError) Error() string        { return string(e) }
func (e nameError) Is(target error) bool { return target == ErrName }

// absentError is a nameError of what is not there.
type absentError struct{ nameError }

func (absentError) Is(target error) bool { return target == ErrName || target == fs.ErrNotExist }

// exactPrefix begins the names of exact models.
const exactPrefix = "oracle:"

// IsExact reports whether name is that of an exact model, which has no files.
func IsExact(name string) bool { return strings.HasPrefix(name, exactPrefix) }

var embedded = map[string]fs.FS{}

// Embed registers the files of a model, such as package demo's, under a name for Load. Programs
// call it before they load anything.
func Embed(name string, files fs.FS) { embedded[name] = files }

// Embedded returns the names that Embed registered, sorted.
func Embedded() []string { return slices.Sorted(maps.Keys(embedded)) }

// Open opens the files of a model by a name that Load takes.
func Open(ctx context.Context, name string, progress func(hub.Progress)) (*model.Source, error) {
	if files, ok := embedded[name]; ok {
		return model.OpenFS(files, name)
	}
	if IsExact(name) {
		return nil, nameError(fmt.Sprintf("model %s is exact and has no files", name))
	}
	dir, err := Locate(ctx, name, progress)
	if err != nil {
		return nil, err
	}
	src, err := model.Open(dir)
	if err == nil {
		src.Repo = hub.RepoFromPath(dir)
	}
	if err == nil && dir != name {
		src.LocateFolder = elsewhere(ctx, name, progress)
	}
	return src, err
}

// CheckName returns an error for a name that Load refuses without the hub: of no embedded model, no
// directory, no exact model, and no possible repository. The error of most wraps ErrName.
func CheckName(name string) error {
	if _, ok := embedded[name]; ok {
		return nil
	}
	if IsExact(name) {
		_, err := ParseExact(name)
		return err
	}
	there, err := isThere(name)
	if there || err != nil {
		return err
	}
	_, _, _, err = hub.ParseModelName(name)
	return err
}

// Locate returns the path of a model's directory or GGUF file; for org/name[@revision] it is the
// directory in the hub's cache, downloaded if necessary.
func Locate(ctx context.Context, name string, progress func(hub.Progress)) (string, error) {
	switch there, err := isThere(name); {
	case err != nil:
		return "", err
	case there:
		return name, nil
	}
	return hub.PullModel(ctx, name, progress)
}

// isThere reports whether name is a model on this machine. It returns an error for a name that is
// not one on the hub either.
func isThere(name string) (bool, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && (info.IsDir() || gguf.IsFileName(name)):
		return true, nil
	case err == nil:
		return false, nameError(fmt.Sprintf("model %s is a file, want a directory with config.json and "+
			"model.safetensors, a .gguf file, or org/name[@revision]", name))
	case strings.HasPrefix(name, ".") || filepath.IsAbs(name) ||
		strings.Count(name, "/") != 1 && !strings.ContainsAny(name, "@:"):
		return false, absentError{nameError(fmt.Sprintf("model %s: there is no such directory, and it is "+
			"none of %s", name,
			strings.Join(append([]string{"org/name[@revision]"}, Embedded()...), ", ")))}
	}
	return false, nil
}

// ParseExact returns the exact model of a name such as oracle:markov:length=16,tokens=4.
func ParseExact(name string) (*exact.Model, error) {
	spec, ok := strings.CutPrefix(name, exactPrefix)
	if !ok {
		return nil, nameError(fmt.Sprintf("model %s is not exact, want %s...", name, exactPrefix))
	}
	m, err := exact.Parse(spec)
	if err != nil {
		return nil, nameError(fmt.Sprintf("model %s: %v", name, err))
	}
	return m, nil
}

// loadExact returns an exact model whose tokens are shown as letters or, if there are too many, as
// numbers.
func loadExact(name string) (*Model, error) {
	m, err := ParseExact(name)
	if err != nil {
		return nil, err
	}
	info := model.Info{Architecture: "oracle",
		Sizes:     map[string]int{"length": m.Length(), "tokens": m.Tokens()},
		Tokenizer: "letters, or numbers above 26 tokens"}
	if shape := m.Shape(); len(shape) == 2 {
		info.Sizes["height"], info.Sizes["width"] = shape[0], shape[1]
	}
	l := &model.Loaded{Denoiser: exact.NewDenoiser(m), Info: info, Kind: model.KindText,
		Tokenizer: exact.Symbols(m, Hole)}
	u := NewModel(l, plain.New(), nil)
	u.Name = name
	return u, nil
}

// Companions returns the hub names of the other repositories that a published model needs, such as
// a generator's image tokenizer. Most models need none.
func Companions(name string) (list []string) {
	for _, folder := range []string{"codec", "text_encoder"} {
		if repo := companionOf(name, folder); repo != "" {
			list = append(list, repo)
		}
	}
	return list
}

// companionOf returns the repository that stands for a folder of the model org/name[@revision].
func companionOf(name, folder string) string {
	repo, _, _ := strings.Cut(name, "@")
	return model.Companion(repo, folder)
}

// elsewhere returns a function that finds a model's missing folders among its companions. It
// downloads a companion when it is first needed, even after ctx is cancelled.
func elsewhere(ctx context.Context, name string,
	progress func(hub.Progress)) func(folder string) (string, error) {
	ctx = context.WithoutCancel(ctx)
	return func(folder string) (string, error) {
		repo := companionOf(name, folder)
		if repo == "" {
			return "", nil
		}
		return hub.PullModel(ctx, repo, progress)
	}
}
