package model

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"unmask/internal/atomicfile"
	"unmask/weights"
)

// pipelineFile stands in place of config.json in a folder of several networks, in the layout of
// diffusers. Open then reads the network in the folder pipelineNetwork.
const (
	pipelineFile    = "model_index.json"
	pipelineNetwork = "transformer"
)

// openPipeline opens the folder of a pipeline; ok is false if dir is not one.
func openPipeline(dir string) (src *Source, ok bool, err error) {
	files := atomicfile.DirFS(dir)
	if _, err := fs.Stat(files, "config.json"); err == nil {
		return nil, false, nil
	}
	config, err := ReadFile(files, pipelineFile, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, true, fmt.Errorf("%s: %w", filepath.Join(dir, pipelineFile), err)
	}
	set, err := weights.Open(filepath.Join(dir, pipelineNetwork))
	if err != nil {
		return nil, true, err
	}
	return &Source{Name: dir, Config: config, Set: set, Files: files, dir: dir}, true, nil
}

// OpenSub opens another network of the same model, in a folder of its own. what is its description
// in errors. The caller closes its Set.
func (s *Source) OpenSub(folder, what string) (*Source, error) {
	if info, err := fs.Stat(s.Files, folder); err != nil || !info.IsDir() {
		if s.LocateFolder != nil {
			dir, err := s.LocateFolder(folder)
			if err != nil {
				return nil, err
			}
			if dir != "" {
				return Open(dir)
			}
		}
		return nil, fmt.Errorf("there is no folder %s, want %s there", folder, what)
	}
	if s.dir != "" {
		return Open(filepath.Join(s.dir, folder))
	}
	files, err := fs.Sub(s.Files, folder)
	if err != nil {
		return nil, err
	}
	return OpenFS(files, filepath.Join(s.Name, folder))
}

// networkFolder returns the folder of the network that a modules.json of sentence-transformers
// names, "" without such a file and where the network is beside it.
func networkFolder(files fs.FS) (string, error) {
	data, err := ReadFile(files, weights.ModulesFile, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", weights.ModulesFile, err)
	}
	return weights.NetworkFolder(data)
}

// moduleFS has the files of a network in a folder of its own, and then those beside its
// modules.json.
type moduleFS struct {
	network fs.FS
	root    fs.FS
}

// Open implements fs.FS.
func (m moduleFS) Open(name string) (fs.File, error) {
	if name == "." {
		return m.root.Open(name) // the network's folder is in it
	}
	f, err := m.network.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.root.Open(name)
	}
	return f, err
}
