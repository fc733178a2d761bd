// Package catalog finds the files of a model by its name: embedded ones, folders, GGUF files and
// repositories of the Hugging Face hub, and exact models, which have none. It opens files but reads
// no weights, so tools that only list or check names need no network.
package catalog

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

	"unmask/exact"
	"unmask/model"
	"unmask/weights/gguf"
	"unmask/weights/hub"
)

// ErrName is wrapped by errors about a name that no model can have.
var ErrName = errors.New("not a model's name")

// NameError is an error about a name that no model can have. It wraps ErrName.
type NameError string

// Error implements error.
func (e NameError) Error() string { return string(e) }

// Is reports whether target is ErrName.
func (e NameError) Is(target error) bool { return target == ErrName }

// absentError is a NameError about a folder or file that does not exist.
type absentError struct{ NameError }

func (absentError) Is(target error) bool { return target == ErrName || target == fs.ErrNotExist }

// exactPrefix begins the names of exact models.
const exactPrefix = "oracle:"

// IsExact reports whether name is that of an exact model, which has no files.
func IsExact(name string) bool { return strings.HasPrefix(name, exactPrefix) }

// ParseExact returns the exact model of a name such as oracle:markov:length=16,tokens=4.
func ParseExact(name string) (*exact.Model, error) {
	spec, ok := strings.CutPrefix(name, exactPrefix)
	if !ok {
		return nil, NameError(fmt.Sprintf("model %s is not exact, want %s...", name, exactPrefix))
	}
	m, err := exact.Parse(spec)
	if err != nil {
		return nil, NameError(fmt.Sprintf("model %s: %v", name, err))
	}
	return m, nil
}

// embedded are the models that Embed registered, by name.
var embedded = map[string]fs.FS{}

// Embed registers the files of a model, such as package demo's, under a name for Open and
// unmask.Load. Programs call it before they load anything.
func Embed(name string, files fs.FS) { embedded[name] = files }

// Embedded returns the names that Embed registered, sorted.
func Embedded() []string { return slices.Sorted(maps.Keys(embedded)) }

// Open opens the files of a model by a name that unmask.Load takes. A model on the hub that is not
// in the cache is downloaded; progress, if not nil, is called meanwhile.
func Open(ctx context.Context, name string, progress func(hub.Progress)) (*model.Source, error) {
	if files, ok := embedded[name]; ok {
		return model.OpenFS(files, name)
	}
	if IsExact(name) {
		return nil, NameError(fmt.Sprintf("model %s is exact and has no files", name))
	}
	dir, err := Locate(ctx, name, progress)
	if err != nil {
		return nil, err
	}
	src, err := model.Open(dir)
	if err != nil {
		return src, err
	}
	src.Repo = hub.RepoFromPath(dir)
	if dir != name {
		src.LocateFolder = companionFinder(ctx, name, progress)
	}
	return src, nil
}

// CheckName returns an error for a name that unmask.Load refuses without asking the hub: one of no
// embedded model, no directory, no exact model, and no possible repository. The error of most wraps
// ErrName.
func CheckName(name string) error {
	if _, ok := embedded[name]; ok {
		return nil
	}
	if IsExact(name) {
		_, err := ParseExact(name)
		return err
	}
	isLocal, err := isLocal(name)
	if isLocal || err != nil {
		return err
	}
	_, _, _, err = hub.ParseModelName(name)
	return err
}

// Locate returns the path of a model's directory or GGUF file; for org/name[@revision][:folder/] it
// is the directory in the hub's cache, downloaded if necessary.
func Locate(ctx context.Context, name string, progress func(hub.Progress)) (string, error) {
	isLocal, err := isLocal(name)
	if err != nil {
		return "", err
	}
	if isLocal {
		return name, nil
	}
	return hub.PullModel(ctx, name, progress)
}

// isLocal reports whether name is a model on this machine. It returns an error for a name that is
// not one on the hub either.
func isLocal(name string) (bool, error) {
	info, err := os.Stat(name)
	if err == nil {
		if info.IsDir() || gguf.IsFileName(name) {
			return true, nil
		}
		return false, NameError(fmt.Sprintf("model %s is a file, want a directory with config.json and "+
			"model.safetensors, a .gguf file, or org/name[@revision][:folder/]", name))
	}

	isPath := strings.HasPrefix(name, ".") || filepath.IsAbs(name)
	isRepository := strings.Count(name, "/") == 1 || strings.ContainsAny(name, "@:")
	if isPath || !isRepository {
		known := append([]string{"org/name[@revision][:folder/]"}, Embedded()...)
		return false, absentError{NameError(fmt.Sprintf(
			"model %s: there is no such directory, and it is none of %s", name,
			strings.Join(known, ", ")))}
	}
	return false, nil
}

// PullCompanions downloads what a published model needs of other repositories, such as a
// generator's image tokenizer, and returns the directories. Most models need nothing.
func PullCompanions(ctx context.Context, name string, progress func(hub.Progress)) ([]string,
	error) {
	var dirs []string
	for _, folder := range []string{"codec", "text_encoder", model.TokenizerFolder} {
		dir, err := pullCompanion(ctx, name, folder, progress)
		if err != nil {
			return nil, err
		}
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// pullCompanion downloads the repository that stands for a folder of a model, of a tokenizer its
// one file, and returns the directory; "" if there is none.
func pullCompanion(ctx context.Context, name, folder string,
	progress func(hub.Progress)) (string, error) {
	repo := companionOf(name, folder)
	if repo == "" {
		return "", nil
	}
	if folder != model.TokenizerFolder {
		return hub.PullModel(ctx, repo, progress)
	}
	client, err := hub.FromEnv()
	if err != nil {
		return "", err
	}
	return client.Pull(ctx, repo, "", []string{"tokenizer.json"}, progress)
}

// companionOf returns the repository that stands for a folder of the model org/name[@revision], or
// of a model in a folder of that repository.
func companionOf(name, folder string) string {
	repo, _, _ := strings.Cut(name, ":")
	repo, _, _ = strings.Cut(repo, "@")
	return model.Companion(repo, folder)
}

// companionFinder returns a function that finds a model's missing folders among its companions. It
// downloads a companion when it is first needed, even after ctx is cancelled: ctx is that of
// loading, and a codec may be needed much later.
func companionFinder(ctx context.Context, name string,
	progress func(hub.Progress)) func(folder string) (string, error) {
	ctx = context.WithoutCancel(ctx)
	return func(folder string) (string, error) {
		return pullCompanion(ctx, name, folder, progress)
	}
}
