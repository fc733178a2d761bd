package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// run runs a command with more environment, and returns what it writes.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	c.Stdout = &out
	c.Stderr = &errs
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// buildEnvironment returns the environment that decides what Go compiles; that of the machine must
// not. GOFLAGS is not empty, because go would take an empty one from its own file of settings.
func buildEnvironment(t target) []string {
	return []string{"GOOS=" + t.OS, "GOARCH=" + t.Arch, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=-buildvcs=auto", "GOEXPERIMENT=", "GOFIPS140=off"}
}

// build compiles the program for a target.
func build(ctx context.Context, t target, path, linkerFlags string) error {
	_, err := run(ctx, buildEnvironment(t), "go", "build", "-trimpath", "-ldflags", linkerFlags,
		"-o", path, "./cmd/unmask")
	return err
}

// commitTime returns the time that all files in the archives get: that of the commit. Where there
// is no history, SOURCE_DATE_EPOCH says it.
func commitTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		line, err := run(ctx, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("there is no commit, so set SOURCE_DATE_EPOCH: %w", err)
		}
		text = strings.TrimSpace(string(line))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// makeDocuments makes the files that are alike for all targets: licence, changelog, manual pages
// and completions. The program of this machine writes the latter two.
func makeDocuments(ctx context.Context, work string, modified time.Time) ([]entry, error) {
	program := filepath.Join(work, "host", "unmask")
	if _, err := run(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", program,
		"./cmd/unmask"); err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "LICENSE", path: "LICENSE"},
		{name: "CHANGELOG.md", path: "CHANGELOG.md"},
	}
	pages := filepath.Join(work, "man")
	env := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", modified.Unix()), "HOME=" + work}
	if _, err := run(ctx, env, program, "man", pages); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		entries = append(entries, entry{name: "man/man1/" + file.Name(),
			path: filepath.Join(pages, file.Name())})
	}
	for shell, name := range map[string]string{"bash": "unmask.bash", "zsh": "_unmask",
		"fish": "unmask.fish", "powershell": "unmask.ps1"} {
		script, err := run(ctx, env, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: "completions/" + name, data: script})
	}
	return entries, nil
}
