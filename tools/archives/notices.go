package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenceFile matches the names of files with licences and notices.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense|authors)([.-][a-z0-9.-]*)?$`)

// collectNotices returns the licences and notices of Go's library and of the modules that a
// program is linked from. It is an error if a module has none.
func collectNotices(ctx context.Context, p programInfo) ([]byte, error) {
	root, err := run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var notices bytes.Buffer
	fmt.Fprintln(&notices, "unmask is linked from Go's library and the modules below. Their licences and notices follow.")
	if err := writeNotices(&notices, p.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	folders, err := moduleFolders(ctx)
	if err != nil {
		return nil, err
	}
	for _, dep := range p.Deps {
		name := source(dep).Path + " " + source(dep).Version
		folder := folders[dep.Path]
		if folder == "" {
			return nil, fmt.Errorf("the files of %s are not on this machine", name)
		}
		if err := writeNotices(&notices, name, folder); err != nil {
			return nil, err
		}
	}
	return notices.Bytes(), nil
}

// moduleFolders returns the folder of each module of the build, by its path.
func moduleFolders(ctx context.Context) (map[string]string, error) {
	list, err := run(ctx, nil, "go", "list", "-m", "-json=Path,Dir", "all")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Dir string }
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return folders, nil
		}
		if err != nil {
			return nil, err
		}
		folders[m.Path] = m.Dir
	}
}

// writeNotices writes the licences and notices in a module's folder.
func writeNotices(notices *bytes.Buffer, name, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found := false
	for _, file := range files {
		if file.IsDir() || !licenceFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(notices, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), name, file.Name(),
			bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no file with a licence", name)
	}
	return nil
}
