package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	release "unmask/internal/buildinfo"
)

// linked is what a program was linked from, as the program itself says.
type linked struct {
	*debug.BuildInfo
}

// readLinked reads it from a program for any platform.
func readLinked(path string) (linked, error) {
	info, err := buildinfo.ReadFile(path)
	return linked{info}, err
}

// source returns the module whose files were compiled: the one that replaces m, if there is one.
func source(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// component is a part of a program in CycloneDX's bill of materials, version 1.6.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

// property is a named value of a component.
type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// bill is a bill of materials: https://cyclonedx.org/docs/1.6/json.
type bill struct {
	Format   string       `json:"bomFormat"`
	Spec     string       `json:"specVersion"`
	Version  int          `json:"version"`
	Metadata metadata     `json:"metadata"`
	Parts    []component  `json:"components"`
	Edges    []dependency `json:"dependencies"`
}

// metadata says what a bill is about.
type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

// dependency lists the parts of one component.
type dependency struct {
	Ref     string   `json:"ref"`
	Depends []string `json:"dependsOn"`
}

// billOfMaterials returns the modules that the program is linked from, and Go's own library.
func (l linked) billOfMaterials(t target, made time.Time) []byte {
	program := component{Type: "application", Ref: "unmask", Name: "unmask", Version: release.Number,
		Properties: []property{{"platform", t.String()}}}
	for _, setting := range l.Settings {
		if setting.Key == "vcs.revision" {
			program.Properties = append(program.Properties, property{"commit", setting.Value})
		}
	}
	number := strings.TrimPrefix(l.GoVersion, "go")
	parts := []component{{Type: "library", Ref: "pkg:golang/std@" + number, Name: "std",
		Version: number, PURL: "pkg:golang/std@" + number}}
	for _, dep := range l.Deps {
		m := source(dep)
		url := "pkg:golang/" + m.Path + "@" + m.Version
		part := component{Type: "library", Ref: url, Name: m.Path, Version: m.Version, PURL: url}
		if m.Sum != "" {
			part.Properties = []property{{"go.sum", m.Sum}}
		}
		parts = append(parts, part)
	}
	edge := dependency{Ref: program.Ref}
	for _, part := range parts {
		edge.Depends = append(edge.Depends, part.Ref)
	}
	text, err := json.MarshalIndent(bill{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: made.Format(time.RFC3339), Component: program},
		Parts:    parts, Edges: []dependency{edge}}, "", " ")
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return append(text, '\n')
}

// legal matches the names of files with licences and notices.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense|authors)([.-][a-z0-9.-]*)?$`)

// collectNotices returns the licences and notices of Go's library and of the modules that a
// program is linked from. It is an error if a module has none.
func collectNotices(ctx context.Context, l linked) ([]byte, error) {
	root, err := run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var notices bytes.Buffer
	fmt.Fprintln(&notices, "unmask is linked from Go's library and the modules below. Their licences and notices follow.")
	if err := writeNotices(&notices, l.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	folders, err := moduleFolders(ctx)
	if err != nil {
		return nil, err
	}
	for _, dep := range l.Deps {
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
		if file.IsDir() || !legal.MatchString(file.Name()) {
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
