package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// compiled is a package of the program, as `go list` describes it.
type compiled struct {
	ImportPath string
	Dir        string
	Module     *struct{ Path string }
	Standard   bool
	EmbedFiles []string
}

// owner returns the name under which a package is counted: its own for those of this project, the
// module's for others, and one name for all of Go's library.
func (c *compiled) owner() string {
	switch {
	case c.Standard:
		return "Go's library"
	case c.Module == nil || c.Module.Path == "unmask":
		return c.ImportPath
	default:
		return c.Module.Path
	}
}

// printSizes prints how many megabytes of the program for linux/amd64 each module and each package
// of this project takes, the largest first, down to 0.1 MB.
func printSizes(ctx context.Context, out io.Writer) error {
	work, err := os.MkdirTemp("", "archives")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	host := target{OS: "linux", Arch: "amd64"}
	program := filepath.Join(work, host.program())
	if err := build(ctx, host, program, ""); err != nil {
		return err
	}
	packages, err := listPackages(ctx, host)
	if err != nil {
		return err
	}
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return err
	}
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool { // what takes no room in the file
		return int(s.Section) >= len(file.Sections) || file.Sections[s.Section].Type == elf.SHT_NOBITS
	})
	sizes, err := sumSizes(symbols, packages)
	if err != nil {
		return err
	}
	if lines := file.Section(".gopclntab"); lines != nil {
		sizes["table of functions and lines, for all packages"] = lines.Size
	}
	var total uint64
	for _, size := range sizes {
		total += size
	}
	fmt.Fprintf(out, "%6.1f MB  all\n", float64(total)/1e6)
	for _, name := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return int(sizes[b]) - int(sizes[a])
	}) {
		if sizes[name] >= 1e5 {
			fmt.Fprintf(out, "%6.1f MB  %s\n", float64(sizes[name])/1e6, name)
		}
	}
	return nil
}

// listPackages returns the packages that a target's program has.
func listPackages(ctx context.Context, t target) ([]compiled, error) {
	list, err := run(ctx, buildEnvironment(t), "go", "list", "-deps",
		"-json=ImportPath,Dir,Module,Standard,EmbedFiles", "./cmd/unmask")
	if err != nil {
		return nil, err
	}
	var packages []compiled
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var c compiled
		err := decoder.Decode(&c)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, c)
	}
}

// sumSizes adds the sizes in bytes of symbols and of embedded files by owner. The linker's symbols,
// which belong to no package, are one owner.
func sumSizes(symbols []elf.Symbol, packages []compiled) (map[string]uint64, error) {
	owners := map[string]string{}
	sizes := map[string]uint64{}
	for _, c := range packages {
		owners[c.ImportPath] = c.owner()
		for _, name := range c.EmbedFiles {
			info, err := os.Stat(filepath.Join(c.Dir, name))
			if err != nil {
				return nil, err
			}
			sizes[c.owner()+", embedded files"] += uint64(info.Size())
		}
	}
	for _, symbol := range symbols {
		if strings.Contains(symbol.Name, "..gobytes.") {
			continue // an embedded file that is one variable: it is counted above
		}
		owner := owners[packageOf(symbol.Name)]
		if owner == "" {
			owner = "types, strings, tables of the linker"
		}
		sizes[owner] += symbol.Size
	}
	return sizes, nil
}

// packageOf returns the import path of a symbol such as unmask/dit.(*network).load, "" for one that
// the linker modified.
func packageOf(symbol string) string {
	slash := strings.LastIndexByte(strings.SplitN(symbol, "[", 2)[0], '/') + 1
	dot := strings.IndexByte(symbol[slash:], '.')
	if dot < 0 {
		return ""
	}
	path, err := url.PathUnescape(symbol[:slash+dot])
	if err != nil {
		return ""
	}
	return path
}
