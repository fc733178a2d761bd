package runs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const outputs = 20

var settings = Settings{"model": "c0ffee", "seed": "7", "steps": "8"}

func output(i int) []byte {
	return []byte(fmt.Sprintf("output %d %s", i, strings.Repeat("x", i%5)))
}

// kept counts the outputs that the last run was told are
var kept int

// Each run makes the outputs that are missing.
var runs = map[string]func(fsys fileSystem, name string, n int) error{
	"folder": func(fsys fileSystem, name string, n int) (err error) {
		f, err := openFolder(fsys, name, settings, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, f.Close()) }()
		kept = 0
		for _, i := range f.Pending(n) {
			if err := f.Put(i, 7, output(i)); err != nil {
				return err
			}
			kept++
		}
		return nil
	},
	"lines": func(fsys fileSystem, name string, n int) (err error) {
		l, err := openLines(fsys, name, settings, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, l.Close()) }()
		kept = 0
		for _, i := range l.Pending(n) {
			if err := l.Put(i, 7, output(i)); err != nil {
				return err
			}
			kept++
		}
		return nil
	},
}

// scattered returns another order of outputs: each group of 7 backwards.
func scattered(pending []int) (list []int) {
	for group := range slices.Chunk(pending, 7) {
		slices.Reverse(group)
		list = append(list, group...)
	}
	return list
}

// orders are runs with outputs in other orders, or from elsewhere. They leave the same files as
// those in runs.
var orders = map[string]func(fsys fileSystem, name string, n int) error{
	"folder, out of order": func(fsys fileSystem, name string, n int) (err error) {
		f, err := openFolder(fsys, name, settings, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, f.Close()) }()
		kept = 0
		for _, i := range scattered(f.Pending(n)) {
			if err := f.Put(i, 7, output(i)); err != nil {
				return err
			}
			kept = f.Done()
		}
		return nil
	},
	"lines, out of order": func(fsys fileSystem, name string, n int) (err error) {
		l, err := openLines(fsys, name, settings, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, l.Close()) }()
		kept = 0
		for _, i := range scattered(l.Pending(n)) {
			if err := l.Put(i, 7, output(i)); err != nil {
				return err
			}
			kept = l.Done()
		}
		return nil
	},
	"folder, gathered": func(fsys fileSystem, name string, n int) (err error) {
		list := make([]Entry, n)
		for i := range list {
			list[i] = Entry{i, 7, DigestOf(output(i))}
			from := fmt.Sprint("shard", i)
			if m := fsys.(*memory); m.names[from] == nil {
				m.names[from] = &node{output(i), output(i)}
				m.durable[from] = m.names[from]
			}
		}
		f, err := openFolder(fsys, name, settings, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, f.Close()) }()
		kept = f.Done()
		return f.Adopt(list[f.Done():], func(e Entry) ([]byte, string, error) {
			return output(e.Index), fmt.Sprint("shard", e.Index), nil
		})
	},
}

// A run in another order that stops is continued and leaves the same files.
func TestOtherOrder(t *testing.T) {
	for _, kind := range []string{"folder", "lines"} {
		straight := newMemory()
		require.NoError(t, runs[kind](straight, "out", outputs))
		m := newMemory()
		m.failAt = 30
		require.Error(t, orders[kind+", out of order"](m, "out", outputs))
		m.reboot(false)
		require.NoError(t, runs[kind](m, "out", outputs))
		require.Equal(t, straight.contents(), m.contents())
	}
}

// What waits is there until the run is closed, and then it is made again.
func TestWaiting(t *testing.T) {
	m := newMemory()
	f, err := openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	require.NoError(t, f.Put(0, 7, output(0)))
	before := m.contents()
	require.NoError(t, f.Put(3, 7, output(3)))
	require.Equal(t, []int{1, 2}, f.Pending(4))
	e, ok := f.Entry(3)
	require.True(t, ok)
	require.Equal(t, Entry{3, 7, DigestOf(output(3))}, e)
	_, ok = f.Entry(2)
	require.False(t, ok)
	require.NoError(t, f.Close())
	require.Equal(t, before, m.contents())
	f, err = openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	require.NoError(t, f.Put(3, 7, output(3)))
	require.ErrorContains(t, f.Put(3, 7, output(3)), "output 3 is there already")
}

func TestParts(t *testing.T) {
	m := newMemory()
	part := &Part{First: 5, Count: 3, Of: 10}
	f, err := openFolder(m, "out", settings, part)
	require.NoError(t, err)
	require.Equal(t, []int{5, 6, 7}, f.Pending(10))
	require.NoError(t, f.Put(5, 7, output(5)))
	require.NoError(t, f.Put(7, 7, output(7)))
	require.NoError(t, f.Close())
	for _, other := range []*Part{nil, {First: 5, Count: 4, Of: 10}} {
		_, err = openFolder(m, "out", settings, other)
		require.ErrorContains(t, err, "it is outputs 5 to 7 of 10 there, ")
	}
	f, err = openFolder(m, "out", settings, part)
	require.NoError(t, err)
	require.Equal(t, []int{6, 7}, f.Pending(10))
	require.NoError(t, f.Put(6, 7, output(6)))
	require.NoError(t, f.Put(7, 7, output(7)))
	require.ErrorContains(t, f.Put(8, 7, output(8)), "output 8, want outputs 5 to 7 of 10")
	require.NoError(t, f.Close())
	r, err := verify(m, "out")
	require.NoError(t, err)
	require.Equal(t, 3, r.Outputs)
	require.Equal(t, part, r.Part)
	require.Empty(t, r.Faults)
	m.names["out/manifest.jsonl"].data = []byte(strings.Replace(
		string(m.names["out/manifest.jsonl"].data), `"of":10`, `"of":1`, 1))
	_, err = verify(m, "out")
	require.ErrorContains(t, err, "line 1 has a part of")

	l, err := openLines(m, "lines", settings, part)
	require.NoError(t, err)
	require.NoError(t, l.Put(5, 7, output(5)))
	require.NoError(t, l.Put(7, 7, output(7)))
	require.Equal(t, []int{6}, l.Pending(10))
	require.NoError(t, l.Put(6, 7, output(6)))
	require.Equal(t, 8, l.Done())
	require.ErrorContains(t, l.Put(8, 7, output(8)), "output 8, want outputs 5 to 7 of 10")
	require.NoError(t, l.Close())
}

// Every operation of a run fails in turn, or is the last one, and the next run completes the output
// byte for byte.
func TestEveryOperation(t *testing.T) {
	all := maps.Clone(runs)
	maps.Copy(all, orders)
	for kind, run := range all {
		whole := newMemory()
		require.NoError(t, run(whole, "out", outputs))
		total := whole.ops
		require.Greater(t, total, outputs)
		want := whole.contents()
		for fault, how := range map[string]struct {
			err   error
			power bool
		}{
			"ENOSPC": {err: syscall.ENOSPC}, "EIO": {err: syscall.EIO}, "EROFS": {err: syscall.EROFS},
			"kill": {}, "power cut": {power: true},
		} {
			for k := range total {
				m := newMemory()
				m.failAt, m.failWith, kept = k, how.err, 0
				err := run(m, "out", outputs)
				require.True(t, m.hit, "%s %s at %d", kind, fault, k)
				if how.err != nil && err != nil {
					require.ErrorIs(t, err, how.err)
					require.NotContains(t, err.Error(), "\n")
				}
				m.reboot(how.power)
				if kept > 0 {
					r, err := verify(m, "out")
					require.NoError(t, err, "%s %s at %d", kind, fault, k)
					require.GreaterOrEqual(t, r.Outputs, kept, "%s %s at %d", kind, fault, k)
				}
				require.NoError(t, run(m, "out", outputs), "%s %s at %d", kind, fault, k)
				require.Equal(t, want, m.contents(), "%s %s at %d", kind, fault, k)
				r, err := verify(m, "out")
				require.NoError(t, err)
				require.Empty(t, r.Faults)
				require.Equal(t, outputs, r.Outputs)
			}
		}
	}
}

// full is a disk without room.
type full struct{ osFiles }

type fullFile struct {
	openFile
	name string
}

func (full) OpenFile(name string, flag int) (openFile, error) {
	f, err := osFiles{}.OpenFile(name, flag)
	return fullFile{f, name}, err
}

func (f fullFile) WriteAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
}

// On a full disk the error names an output or the manifest, and not the hidden file beside it.
func TestErrorsNameTheFile(t *testing.T) {
	for kind, run := range runs {
		err := run(full{}, filepath.Join(t.TempDir(), "out"), 1)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Contains(t, err.Error(), "manifest", kind)
		require.NotContains(t, err.Error(), ".tmp", kind)
	}
}

// A process is killed while it writes, several times.
func TestKill(t *testing.T) {
	if name := os.Getenv("DURABLE_RUN"); name != "" {
		run := runs[os.Getenv("DURABLE_KIND")]
		if err := run(osFiles{}, name, 2000); err != nil {
			t.Fatal(err)
		}
		return
	}
	for kind, run := range runs {
		name, grown := filepath.Join(t.TempDir(), "out"), int64(0)
		for i := range 4 {
			c := exec.Command(os.Args[0], "-test.run", "^TestKill$")
			c.Env = append(os.Environ(), "DURABLE_RUN="+name, "DURABLE_KIND="+kind)
			require.NoError(t, c.Start())
			for most := 1000; most > 0 && manifestSize(name) <= grown; most-- {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(5*i) * time.Millisecond)
			grown = manifestSize(name)
			require.NoError(t, c.Process.Kill())
			c.Wait()
		}
		done := 0
		if r, err := verify(osFiles{}, name); err == nil {
			done = r.Outputs
		}
		n := max(done, outputs)
		require.NoError(t, run(osFiles{}, name, n))
		r, err := verify(osFiles{}, name)
		require.NoError(t, err)
		require.Empty(t, r.Faults)
		require.Equal(t, n, r.Outputs)
		straight := filepath.Join(t.TempDir(), "straight")
		require.NoError(t, run(osFiles{}, straight, n))
		require.Equal(t, tree(t, straight), tree(t, name))
	}
}

// manifestSize returns the bytes in the manifest of a run, 0 without one.
func manifestSize(name string) int64 {
	for _, manifest := range []string{filepath.Join(name, "manifest.jsonl"), name + ".manifest"} {
		if info, err := os.Stat(manifest); err == nil {
			return info.Size()
		}
	}
	return 0
}

// tree reads the files of a run.
func tree(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	matches, err := filepath.Glob(name + "*")
	require.NoError(t, err)
	for _, m := range matches {
		require.NoError(t, filepath.Walk(m, func(p string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			files[strings.TrimPrefix(p, name)] = string(b)
			return err
		}))
	}
	return files
}

func TestTwoWriters(t *testing.T) {
	for kind, run := range runs {
		name := filepath.Join(t.TempDir(), "out")
		var second error
		if kind == "folder" {
			f, err := openFolder(osFiles{}, name, settings, nil)
			require.NoError(t, err)
			second = run(osFiles{}, name, 1)
			require.NoError(t, f.Close())
		} else {
			l, err := openLines(osFiles{}, name, settings, nil)
			require.NoError(t, err)
			second = run(osFiles{}, name, 1)
			require.NoError(t, l.Close())
		}
		require.ErrorContains(t, second, "another process is writing it")
		require.NoError(t, run(osFiles{}, name, 3))
	}

	// Where locks do nothing, the later process notices that the manifest has grown.
	m := newMemory()
	first, err := openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	m.locks = map[string]bool{}
	other, err := openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	require.NoError(t, other.Put(0, 7, output(0)))
	require.ErrorContains(t, first.Put(0, 7, output(0)), "another process is writing it")
	require.ErrorContains(t, first.Put(0, 7, output(0)), "another process is writing it")
	require.NoError(t, other.Put(1, 7, output(1)))
	r, err := verify(m, "out")
	require.NoError(t, err)
	require.Empty(t, r.Faults)
	require.Equal(t, 2, r.Outputs)
}

func TestOtherSettings(t *testing.T) {
	for _, run := range runs {
		m := newMemory()
		require.NoError(t, run(m, "out", 3))
		before := m.contents()
		now := Settings{"model": "decaf", "seed": "7", "sampler": "halton"}
		_, folder := openFolder(m, "out", now, nil)
		_, lines := openLines(m, "out", now, nil)
		err := folder
		if !m.dirs["out"] {
			err = lines
		}
		require.ErrorContains(t, err, `was begun with other settings: model is "c0ffee" there, `+
			`"decaf" now; sampler is none there, "halton" now; steps is "8" there, none now`)
		require.Equal(t, before, m.contents())
		require.NoError(t, run(m, "out", 4)) // and the lock is free again
	}
}

func TestDamagedOutputs(t *testing.T) {
	m := newMemory()
	run := runs["folder"]
	require.NoError(t, run(m, "out", 6))
	want := m.contents()
	m.names["out/000001.png"].data = nil
	m.names["out/000003.png"].data[2] ^= 4
	delete(m.names, "out/000004.png")
	m.names["out/000009.png"] = &node{data: []byte("x")}
	before := m.contents()
	r, err := verify(m, "out")
	require.NoError(t, err)
	require.Equal(t, []Fault{{"000001.png", "is empty"},
		{"000003.png", "is not what the manifest lists"},
		{"000004.png", "is missing"}, {"000009.png", "is not in the manifest"}}, r.Faults)
	require.Equal(t, settings, r.Settings)
	require.Equal(t, before, m.contents()) // nothing was repaired

	f, err := openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	require.Equal(t, []int{1, 4, 6}, f.Pending(7))
	require.Equal(t, []Fault{{"000001.png", "is empty"}, {"000004.png", "is missing"}}, f.Faults())
	require.NoError(t, f.Put(1, 7, output(1)))
	require.ErrorContains(t, f.Put(4, 7, output(1)), "made again, output 4 is not what")
	require.NoError(t, f.Close())
	require.NoError(t, run(m, "out", 6))
	delete(m.names, "out/000009.png")
	m.names["out/000003.png"].data[2] ^= 4
	require.Equal(t, want, m.contents())

	m = newMemory()
	require.NoError(t, runs["lines"](m, "out", 3))
	good := string(m.names["out"].data)
	for what, spoilt := range map[string]string{
		"line 2: is not what":    strings.Replace(good, "output 1", "output x", 1),
		"line 3: is missing":     good[:len(good)-1],
		"line 1: is missing, as": "",
		"bytes after its last":   good + "torn",
		"bytes after its last l": good + "whole\n",
	} {
		m.names["out"].data = []byte(spoilt)
		r, err := verify(m, "out")
		require.NoError(t, err)
		require.Len(t, r.Faults, 1)
		require.Contains(t, r.Faults[0].String(), what)
		_, err = openLines(m, "out", settings, nil)
		if strings.HasPrefix(spoilt, good) {
			require.NoError(t, err) // outputs without a line are made again
			require.Equal(t, good, string(m.names["out"].data))
			m.locks = map[string]bool{}
			continue
		}
		require.ErrorContains(t, err, what)
	}
}

func TestTornManifest(t *testing.T) {
	for kind, run := range runs {
		m := newMemory()
		require.NoError(t, run(m, "out", 3))
		name := map[string]string{"folder": "out/manifest.jsonl", "lines": "out.manifest"}[kind]
		good := m.names[name].data
		for _, torn := range []string{`{"index":3,"se`, "            \n\n"} {
			m.names[name].data = append(bytes.Clone(good), torn...)
			r, err := verify(m, "out")
			require.NoError(t, err)
			require.Equal(t, []Fault{{filepath.Base(name), "14 bytes follow its last whole line"}},
				r.Faults)
			require.NoError(t, run(m, "out", 3))
			require.Equal(t, string(good), string(m.names[name].data))
		}

		line := string(good[bytes.IndexByte(good, '\n')+1:])
		line = line[:strings.IndexByte(line, '\n')+1]
		for bad, want := range map[string]string{
			"":     "it has no header",
			"{}\n": "line 1 is not a manifest's header",
			"x\n":  "line 1",
			strings.Replace(string(good), `{"unmask":1,`, `{"unmask":2,"kind":"x",`, 1): "line 1 is of " +
				"version 2 of manifests, want 1: a newer unmask wrote it",
			string(good) + line:        "line 5 is not the entry of output 3",
			string(good) + "\n" + line: "line 5",
			strings.Replace(string(good), `"index":1`, `"index": 1`, 1): "line 3",
			strings.Replace(string(good), `"index":1`, `"index":2`, 1):  "line 3",
		} {
			m.names[name].data = []byte(bad)
			require.ErrorContains(t, run(m, "out", 3), want)
			_, err := verify(m, "out")
			require.ErrorContains(t, err, want)
		}
	}
}

func TestNotARun(t *testing.T) {
	dir := t.TempDir()
	file, link, full := filepath.Join(dir, "file"), filepath.Join(dir, "link"),
		filepath.Join(dir, "full")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(full, "000000.png"), []byte("mine"), 0o600))
	folder, lines := runs["folder"], runs["lines"]
	require.ErrorContains(t, folder(osFiles{}, file, 1), "is a file, want a directory")
	require.ErrorContains(t, folder(osFiles{}, link, 1), "is a link, want a directory")
	require.ErrorContains(t, folder(osFiles{}, full, 1), "but no manifest.jsonl")
	require.ErrorContains(t, lines(osFiles{}, file, 1), "want a new file or that of a run")
	require.ErrorContains(t, lines(osFiles{}, link, 1), "is a link, want a regular file")
	require.ErrorContains(t, lines(osFiles{}, full, 1), "is a directory, want a regular file")
	require.ErrorIs(t, folder(osFiles{}, filepath.Join(dir, "no", "where"), 1), os.ErrNotExist)
	_, err := verify(osFiles{}, link)
	require.ErrorContains(t, err, "is a link")
	_, err = verify(osFiles{}, full)
	require.ErrorContains(t, err, "no run was begun here")
	for name, want := range map[string]int{dir: 3, full: 1} {
		left, err := os.ReadDir(name)
		require.NoError(t, err)
		require.Len(t, left, want) // no locks or temporary files
	}
}

func TestMisuse(t *testing.T) {
	m := newMemory()
	f, err := openFolder(m, "out", settings, nil)
	require.NoError(t, err)
	require.ErrorContains(t, f.Put(-1, 7, output(1)), "output -1, want a whole run")
	require.ErrorContains(t, f.Put(0, 7, output(0)), "output -1") // it keeps failing
	l, err := openLines(m, "lines", settings, nil)
	require.NoError(t, err)
	require.ErrorContains(t, l.Put(0, 7, []byte("a\nb")), "has several lines")
	require.True(t, errors.Is(l.failed, l.Put(0, 7, []byte("a"))))
}

func FuzzManifest(f *testing.F) {
	m := newMemory()
	require.NoError(f, runs["folder"](m, "out", 2))
	f.Add(m.names["out/manifest.jsonl"].data)
	f.Add([]byte("{\"unmask\":1,\"settings\":null}\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseManifest(data)
		if err == nil {
			require.Equal(t, len(data), c.size+c.tornSize)
		}
	})
}
