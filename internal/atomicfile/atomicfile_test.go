package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error { io.WriteString(w, s); return err }
	}
	require.NoError(t, WriteFile(name, text("one", nil)))
	require.NoError(t, WriteFile(name, text("two", nil)))
	require.ErrorContains(t, WriteFile(name, text("three", errors.New("broken"))), "broken")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "x"), nil, 0o644))
	require.Error(t, WriteFile(filepath.Join(dir, "d"), text("a directory is not replaced", nil)))
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "none", "f"), text("", nil)), os.ErrNotExist)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	t.Chdir(dir)
	require.NoError(t, WriteFile("g", text("relative", nil)))
}

// Until it is committed, and after it is discarded, a file is unchanged, and nothing else is left.
func TestFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(name, []byte("before"), 0o600))
	f, err := Create(name)
	require.NoError(t, err)
	io.WriteString(f, "half")
	require.Equal(t, "before", read(t, name))
	f.Discard()
	f.Discard()
	require.Equal(t, "before", read(t, name))
	require.ErrorIs(t, f.Commit(), os.ErrClosed)
	require.Equal(t, []string{"f"}, names(t, dir))

	f, err = Create(name)
	require.NoError(t, err)
	io.WriteString(f, "new")
	require.NoError(t, f.CommitAs(filepath.Join(dir, "g")))
	require.Equal(t, "before", read(t, name))
	require.Equal(t, "new", read(t, filepath.Join(dir, "g")))
	require.Equal(t, []string{"f", "g"}, names(t, dir))

	require.ErrorContains(t, Check(dir), "is a directory, want a file")
}

// Leftovers of killed processes are removed by a file of the name a day later; files that are being
// written stay, and so do those of other names.
func TestLeftoversGoAway(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f.txt")
	for _, left := range []string{".f.txt.ABCDEFGH.tmp", ".other.ABCDEFGH.tmp", ".f.txt.mine.tmp"} {
		left = filepath.Join(dir, left)
		require.NoError(t, os.WriteFile(left, nil, 0o644))
		before := time.Now().Add(-25 * time.Hour)
		require.NoError(t, os.Chtimes(left, before, before))
	}
	alive, err := Create(name)
	require.NoError(t, err)
	io.WriteString(alive, "first")
	require.NoError(t, WriteFile(name,
		func(w io.Writer) error { _, err := io.WriteString(w, "second"); return err }))
	require.Equal(t, "second", read(t, name))
	require.NoError(t, alive.Commit())
	require.Equal(t, "first", read(t, name))
	require.Equal(t, []string{".f.txt.mine.tmp", ".other.ABCDEFGH.tmp", "f.txt"}, names(t, dir))
}

// An error names the file, and not the hidden one beside it.
// A process that exits in the middle of its writing leaves the old files and nothing else.
func TestDiscardAll(t *testing.T) {
	if dir := os.Getenv("WHOLE_DISCARD"); dir != "" {
		for _, name := range []string{"committed", "discarded", "unfinished"} {
			f, err := Create(filepath.Join(dir, name))
			require.NoError(t, err)
			_, err = f.Write([]byte("new"))
			require.NoError(t, err)
			switch name {
			case "committed":
				require.NoError(t, f.Commit())
			case "discarded":
				f.Discard()
			}
		}
		DiscardAll()
		os.Exit(0)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "unfinished"), []byte("old"), 0o666))
	c := exec.Command(os.Args[0], "-test.run", "^TestDiscardAll$")
	c.Env = append(os.Environ(), "WHOLE_DISCARD="+dir)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for name, want := range map[string]string{"committed": "new", "unfinished": "old"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f.txt")
	_, err := Create(filepath.Join(dir, "none", "f.txt"))
	require.EqualError(t, err, "open "+filepath.Join(dir, "none", "f.txt")+": "+
		errors.Unwrap(err).Error())
	require.ErrorIs(t, err, os.ErrNotExist)

	broken := func() *File {
		f, err := Create(name)
		require.NoError(t, err)
		require.NoError(t, f.file.Close()) // stands for a full disk
		return f
	}
	f := broken()
	_, err = f.Write(make([]byte, 1<<17))
	require.EqualError(t, err, "write "+name+": file already closed")
	f.Discard()
	f = broken()
	io.WriteString(f, "x")
	require.EqualError(t, f.Commit(), "write "+name+": file already closed")

	f, err = Create(name)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(name, 0o755))
	err = f.Commit()
	require.ErrorContains(t, err, "rename "+name+": ")
	require.NotContains(t, err.Error(), tmpSuffix)
	require.Equal(t, []string{"f.txt"}, names(t, dir))
}

// A private file is its owner's alone while it is written and after.
func TestWritePrivate(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("modes are Unix's")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	require.NoError(t, WritePrivate(name, func(w io.Writer) error {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		info, err := entries[0].Info() // the hidden file
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		_, err = io.WriteString(w, "text")
		return err
	}))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, "text", read(t, name))
}

func read(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

func names(t *testing.T, dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Message has the name of a file once and no name of a system call, however the error is wrapped.
func TestWords(t *testing.T) {
	t.Chdir(t.TempDir())
	_, missing := os.Open("x")
	require.Error(t, missing)
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, "x: no such file"},
		{fmt.Errorf("--out: %w", missing), "--out: x: no such file"},
		{fmt.Errorf("x: %w", missing), "x: no such file"},
		{fmt.Errorf("x: %w", WithoutPath(missing)), "x: no such file"},
		{fmt.Errorf("%w and %w", missing, missing), "x: no such file and x: no such file"},
		{errors.Join(errors.New("first"), missing), "first\nx: no such file"},
		{&fs.PathError{Op: "write", Path: "y", Err: fs.ErrClosed}, "y: file already closed"},
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: fs.ErrPermission},
			"b: permission denied"},
		{errors.New("open x: no such file or directory"), "open x: no such file or directory"},
	} {
		require.Equal(t, c.want, Message(c.err))
	}
}

// A name in a missing directory is refused before the work for it, as is what cannot be a folder.
func TestCheckPlaceAndFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("d", 0o755))
	require.NoError(t, os.WriteFile("f", nil, 0o644))
	for _, check := range []func(string) error{CheckPlace, CheckFolder} {
		for _, name := range []string{"new", "d/new", "./new"} {
			require.NoError(t, check(name))
		}
		require.EqualError(t, check("gone/new"), "directory gone is missing, want one for gone/new")
		require.Error(t, check("f/new"))
	}
	require.NoError(t, CheckPlace("f"))
	require.EqualError(t, CheckPlace("d"), "d is a directory, want a file")
	require.NoError(t, CheckFolder("d/"))
	require.EqualError(t, CheckFolder("f"), "f is a file, want a directory")
	if os.Symlink("d", "l") == nil {
		require.EqualError(t, CheckFolder("l/"), "l/ is a link, want a directory")
	}
}

func TestReadSmallEnds(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("there is no /dev/zero")
	}
	_, err := ReadSmall("/dev/zero", 1000)
	require.EqualError(t, err, "/dev/zero has more than 1000 bytes, want at most that")
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, make([]byte, 1000), 0o600))
	data, err := ReadSmall(name, 1000)
	require.NoError(t, err)
	require.Len(t, data, 1000)
}
