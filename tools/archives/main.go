// Command archives makes what a release has for people without Go: an archive for each platform, a
// list of what each program is linked from, and their hashes.
//
//	go run ./tools/archives --out DIR                        all platforms
//	go run ./tools/archives --out DIR --target linux/arm64   one of them; may be given again
//	go run ./tools/archives --sizes                          what the program is made of, by package
//
// DIR gets, for each platform, unmask_VERSION_OS_ARCH.tar.gz (.zip for Windows) with the program,
// its licence, the notices of all modules that it is linked from, completions for shells and
// manual pages, and unmask_VERSION_OS_ARCH.cdx.json, a bill of materials in CycloneDX's format;
// then SHA256SUMS. The same commit gives the same bytes, on any machine with the same Go.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/buildinfo"
)

// target is a platform that Go compiles for.
type target struct {
	OS   string
	Arch string
}

// allTargets are the platforms of a release.
var allTargets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// String returns a target as --target takes it.
func (t target) String() string { return t.OS + "/" + t.Arch }

// base returns the name of a target's files without an extension.
func (t target) base() string {
	return fmt.Sprintf("unmask_%s_%s_%s", buildinfo.Number, t.OS, t.Arch)
}

// program returns the name of the program in a target's archive.
func (t target) program() string {
	if t.OS == "windows" {
		return "unmask.exe"
	}
	return "unmask"
}

// targetList is a flag that may be given again.
type targetList []target

// String returns the targets with commas.
func (l *targetList) String() string { return fmt.Sprint(*l) }

// Set adds a target, or returns an error if Go or this project has no such platform.
func (l *targetList) Set(text string) error {
	for _, t := range allTargets {
		if t.String() == text {
			*l = append(*l, t)
			return nil
		}
	}
	return fmt.Errorf("target is %q, want one of %v", text, allTargets)
}

func main() {
	var targets targetList
	out := flag.String("out", "", "`DIR` for the files; it must not exist")
	sizes := flag.Bool("sizes", false, "print the size of each package in the program, and make nothing")
	flag.Var(&targets, "target", "`OS/ARCH` to make; all without")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var err error
	switch {
	case flag.NArg() > 0 || (*out == "") != *sizes:
		err = errors.New("usage: go run ./tools/archives --out DIR [--target OS/ARCH], or --sizes")
	case *sizes:
		err = printSizes(ctx, os.Stdout)
	default:
		err = makeRelease(ctx, *out, targets)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// makeRelease makes the files of targets, of all without any, in a new folder. If it fails, the
// folder is gone.
func makeRelease(ctx context.Context, out string, targets []target) (err error) {
	if len(targets) == 0 {
		targets = allTargets
	}
	if err := os.Mkdir(out, 0o777); err != nil {
		return fmt.Errorf("out is %s, want a folder that does not exist: %w", out, err)
	}
	work, err := os.MkdirTemp("", "archives")
	if err != nil {
		return err
	}
	defer func() {
		os.RemoveAll(work)
		if err != nil {
			os.RemoveAll(out)
		}
	}()
	modified, err := commitTime(ctx)
	if err != nil {
		return err
	}
	documents, err := makeDocuments(ctx, work, modified)
	if err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Fprintln(os.Stderr, t)
		program := filepath.Join(work, t.OS+"-"+t.Arch, t.program())
		if err := build(ctx, t, program, "-s -w"); err != nil {
			return err
		}
		info, err := readProgramInfo(program)
		if err != nil {
			return err
		}
		notices, err := collectNotices(ctx, info)
		if err != nil {
			return err
		}
		entries := append(slices.Clone(documents),
			entry{name: t.program(), path: program, isProgram: true},
			entry{name: "THIRD-PARTY-NOTICES.txt", data: notices})
		if err := writeArchive(filepath.Join(out, t.base()), t, entries, modified); err != nil {
			return err
		}
		bill := filepath.Join(out, t.base()+".cdx.json")
		if err := os.WriteFile(bill, info.billOfMaterials(t, modified), 0o666); err != nil {
			return err
		}
	}
	return writeSums(out)
}

// writeSums writes SHA256SUMS, which `sha256sum -c` reads, about the other files of a folder.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range files {
		hash, err := hashFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", hash, file.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o666)
}

// hashFile returns the SHA-256 of a file.
func hashFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, bufio.NewReader(file)); err != nil {
		return nil, err
	}
	return hash.Sum(nil), nil
}
