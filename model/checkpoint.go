package model

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// openCheckpoint opens a folder without config.json whose weights are a PyTorch file; ok is false
// if dir is none. What config.json would say is derived from the tensors.
func openCheckpoint(dir string) (src *Source, ok bool, err error) {
	files := atomicfile.DirFS(dir)
	if exists(files, "config.json") {
		return nil, false, nil
	}
	var checkpoints []string
	for _, pattern := range weights.CheckpointPatterns {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, false, nil // a pattern of ours, and a folder that cannot be read has no file
		}
		checkpoints = append(checkpoints, names...)
	}
	if len(checkpoints) == 0 {
		return nil, false, nil
	}
	if len(checkpoints) > 1 {
		return nil, true, fmt.Errorf("%s: there are %d files %s, want one", dir, len(checkpoints),
			strings.Join(checkpoints, ", "))
	}
	name := filepath.Join(dir, filepath.FromSlash(checkpoints[0]))
	set, config, notes, err := pytorch.OpenSet(name)
	if err != nil {
		return nil, true, err
	}
	for i, note := range notes {
		notes[i] = checkpoints[0] + ": " + note
	}
	if config == nil {
		set.Close()
		return nil, true, fmt.Errorf("%s: the tensors are of no known network, want ESM-C's or "+
			"GenMol's", name)
	}
	return &Source{
		Name:   dir,
		Config: config,
		Set:    set,
		Files:  files,
		Notes:  notes,
		dir:    dir,
	}, true, nil
}
