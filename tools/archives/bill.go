package main

import (
	"debug/buildinfo"
	"encoding/json"
	"runtime/debug"
	"strings"
	"time"

	release "unmask/internal/buildinfo"
)

// programInfo is what a program was linked from, as the program itself says.
type programInfo struct {
	*debug.BuildInfo
}

// readProgramInfo reads it from a program for any platform.
func readProgramInfo(path string) (programInfo, error) {
	info, err := buildinfo.ReadFile(path)
	return programInfo{info}, err
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
func (p programInfo) billOfMaterials(t target, modified time.Time) []byte {
	program := component{Type: "application", Ref: "unmask", Name: "unmask", Version: release.Number,
		Properties: []property{{"platform", t.String()}}}
	for _, setting := range p.Settings {
		if setting.Key == "vcs.revision" {
			program.Properties = append(program.Properties, property{"commit", setting.Value})
		}
	}
	number := strings.TrimPrefix(p.GoVersion, "go")
	parts := []component{{Type: "library", Ref: "pkg:golang/std@" + number, Name: "std",
		Version: number, PURL: "pkg:golang/std@" + number}}
	for _, dep := range p.Deps {
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
		Metadata: metadata{Timestamp: modified.Format(time.RFC3339), Component: program},
		Parts:    parts, Edges: []dependency{edge}}, "", " ")
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return append(text, '\n')
}
