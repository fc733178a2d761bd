package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var when = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// The bytes of an archive depend on its files alone, not on their order or their own times.
func TestArchivesAreReproducible(t *testing.T) {
	for _, system := range []target{{"linux", "arm64"}, {"windows", "amd64"}} {
		var archives [][]byte
		for try := range 2 {
			dir := t.TempDir()
			program := filepath.Join(dir, "built")
			require.NoError(t, os.WriteFile(program, []byte("a program"), 0o600))
			require.NoError(t, os.Chtimes(program, time.Now(), when.Add(time.Duration(try)*time.Hour)))
			entries := []entry{{name: "LICENSE", data: []byte("free")},
				{name: system.program(), path: program, isProgram: true},
				{name: "man/man1/unmask.1", data: []byte("a page")}}
			if try == 1 {
				entries[0], entries[2] = entries[2], entries[0]
			}
			base := filepath.Join(dir, system.base())
			require.NoError(t, writeArchive(base, system, entries, when))
			files, err := filepath.Glob(base + ".*")
			require.NoError(t, err)
			require.Len(t, files, 1)
			data, err := os.ReadFile(files[0])
			require.NoError(t, err)
			archives = append(archives, data)
		}
		require.Equal(t, archives[0], archives[1], system)
		want := map[string]string{
			system.base() + "/LICENSE":             "free",
			system.base() + "/" + system.program(): "a program",
			system.base() + "/man/man1/unmask.1":   "a page",
		}
		require.Equal(t, want, unpack(t, system, archives[0]))
	}
}

// unpack returns the content of an archive's files by their names.
func unpack(t *testing.T, system target, data []byte) map[string]string {
	files := map[string]string{}
	if system.OS == "windows" {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for _, file := range archive.File {
			content, err := file.Open()
			require.NoError(t, err)
			text, err := io.ReadAll(content)
			require.NoError(t, err)
			files[file.Name] = string(text)
		}
		return files
	}
	content, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		require.Equal(t, filepath.Base(header.Name) == "unmask", header.Mode == 0o755, header.Name)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}

// The hashes are in the format of sha256sum, those of the standard's example among them.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("abc"), 0o600))
	require.NoError(t, writeSums(dir))
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.txt\n",
		string(sums))
}

// A module without a file that says its licence stops a release.
func TestNotices(t *testing.T) {
	var notices bytes.Buffer
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "license_test.go"), nil, 0o600))
	require.ErrorContains(t, writeNotices(&notices, "a v1", dir), "a v1 has no file with a licence")
	for _, name := range []string{"LICENSE", "COPYING.md", "NOTICE.txt", "LICENCE-MIT"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o600))
	}
	require.NoError(t, writeNotices(&notices, "a v1", dir))
	for _, name := range []string{"LICENSE", "COPYING.md", "NOTICE.txt", "LICENCE-MIT"} {
		require.Contains(t, notices.String(), "of "+name)
	}
}

// A bill lists each module, the one that replaces it where there is one.
func TestBillOfMaterials(t *testing.T) {
	info := programInfo{&debug.BuildInfo{GoVersion: "go1.26.8",
		Deps: []*debug.Module{{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:x"},
			{Path: "example.org/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.org/c",
				Version: "v3.0.0"}}}}}
	var read bill
	require.NoError(t, json.Unmarshal(info.billOfMaterials(allTargets[0], when), &read))
	var urls []string
	for _, part := range read.Parts {
		urls = append(urls, part.PURL)
	}
	require.Equal(t, []string{"pkg:golang/std@1.26.8", "pkg:golang/example.org/a@v1.0.0",
		"pkg:golang/example.org/c@v3.0.0"}, urls)
	require.Equal(t, urls, read.Edges[0].Depends)
}

// Symbols count for their package or module, and an embedded file counts once.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model"), make([]byte, 1000), 0o600))
	packages := []compiled{{ImportPath: "unmask/demo", Dir: dir, EmbedFiles: []string{"model"}},
		{ImportPath: "example.org/a.b/in", Module: &struct{ Path string }{"example.org/a.b"}},
		{ImportPath: "slices", Standard: true}}
	symbols := []elf.Symbol{{Name: "unmask/demo.(*Model).Load", Size: 10},
		{Name: "unmask/demo..gobytes.1", Size: 1000}, {Name: "example.org/a%2eb/in.init", Size: 7},
		{Name: "slices.Sort[go.shape.[]unmask/demo.Model]", Size: 5}, {Name: "go:func.*", Size: 3}}
	sizes, err := sumSizes(symbols, packages)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"unmask/demo": 10, "unmask/demo, embedded files": 1000,
		"example.org/a.b": 7, "Go's library": 5, "types, strings, tables of the linker": 3}, sizes)
}
