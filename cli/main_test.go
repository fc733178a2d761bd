package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"unmask/cli/share"
	"unmask/demo"
	"unmask/model"
	"unmask/weights"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"await": await, "unmask": func() {
		registerHeld()
		os.Exit(Main(os.Args[1:]))
	}})
}

// TestScripts runs the commands as a user does; testdata/script has one file per topic.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	packs := filepath.Join(root, "testdata", "packs")
	folders := t.TempDir() // a repository with models in folders, as Laya's
	for folder, pack := range map[string]string{"": "sdtt-tiny", "typed-decisions": "laya-tiny",
		"multilingual": "laya-tiny"} {
		if err := os.CopyFS(filepath.Join(folders, folder), os.DirFS(filepath.Join(packs,
			pack))); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(fakeHub{"org/tiny": filepath.Join(packs, "sdtt-tiny"),
		"org/folders":                             folders,
		"amused/amused-256":                       filepath.Join(packs, "amused-256-tiny"),
		"turkeyju/generator_maskgen_vq_l":         filepath.Join(packs, "maskgen-tiny"),
		"turkeyju/tokenizer_tatitok_bl128_vq":     filepath.Join(packs, "tatitok-tiny"),
		"openai/clip-vit-large-patch14-336":       filepath.Join(packs, "clip-text-tiny"),
		"yucornetto/generator_titok_l32_imagenet": filepath.Join(packs, "titok-bert-tiny")})
	t.Cleanup(server.Close) // the scripts run in parallel, after this function
	testscript.Run(t, testscript.Params{
		Condition: func(name string) (bool, error) {
			if name == "hup" { // SIGHUP is ignored under nohup
				return !signal.Ignored(syscall.SIGHUP), nil
			}
			if name == "fleet" { // there is none in a build without NATS
				return len(share.WorkerCommands(buildRun)) > 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"demo-model": demoModel,
			"tokens": writeTokens, "pictures": writePictures,
			"picture": checkPicture, "samedir": sameDirectory, "killed": killed,
			"checkpoint": writeCheckpoint},
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOMAXPROCS", "1") // scripts run side by side; what is computed is the same
			e.Setenv("GOGC", "400")
			e.Setenv("PACKS", filepath.Join(root, "testdata", "packs"))
			e.Setenv("PTH", filepath.Join(root, "weights", "pytorch", "testdata"))
			e.Setenv("HF_HOME", filepath.Join(e.WorkDir, "hub"))
			e.Setenv("HF_ENDPOINT", server.URL)
			e.Setenv("TAKEN", server.Listener.Addr().String())
			e.Setenv("HUB", freeAddress(t, 20000))
			return nil
		},
	})
}

// fakeHub serves directories as repositories, every revision the same commit.
type fakeHub map[string]string

func (h fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	commit := strings.Repeat("ab", 20)
	for repo, dir := range h {
		if strings.HasPrefix(r.URL.Path, "/api/models/"+repo+"/revision/") {
			list := []map[string]string{}
			filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					below, _ := filepath.Rel(dir, name)
					list = append(list, map[string]string{"rfilename": filepath.ToSlash(below)})
				}
				return err
			})
			json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": list})
			return
		}
		rest, ok := strings.CutPrefix(r.URL.Path, "/"+repo+"/resolve/")
		_, file, _ := strings.Cut(rest, "/")
		name := filepath.Join(dir, filepath.FromSlash(path.Clean("/"+file)))
		data, err := os.ReadFile(name)
		if !ok || err != nil {
			continue
		}
		sum := sha256.Sum256(data)
		w.Header().Set("X-Repo-Commit", commit)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		http.ServeContent(w, r, "", info(dir).ModTime(), bytes.NewReader(data))
		return
	}
	http.NotFound(w, r)
}

func info(dir string) os.FileInfo {
	i, err := os.Stat(dir)
	if err != nil {
		panic(err)
	}
	return i
}

// demoModel writes the demo's files to a directory: demo-model DIR [fill TENSOR FLOAT32-BITS].
func demoModel(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.CopyFS(dir, demo.Text()))
	if len(args) == 1 {
		return
	}
	src, err := model.OpenFS(demo.Text(), "demo")
	ts.Check(err)
	var tensors []weights.Tensor
	for _, name := range src.Set.Names() {
		t, _ := src.Set.Get(name)
		c := *t
		if strings.HasSuffix(name, args[2]) {
			bits, err := hex.DecodeString(args[3])
			ts.Check(err)
			c.Data = bytes.Repeat([]byte{bits[1], bits[0]}, c.Numel()) // bfloat16
		}
		tensors = append(tensors, c)
	}
	ts.Check(os.Remove(filepath.Join(dir, "model.safetensors")))
	ts.Check(weights.WriteFile(filepath.Join(dir, "model.safetensors"), tensors, nil))
}

// writeTokens writes a safetensors file: tokens FILE NAME=ROWSxCOLUMNS:VALUE ..., all elements
// VALUE.
func writeTokens(ts *testscript.TestScript, neg bool, args []string) {
	var tensors []weights.Tensor
	for _, arg := range args[1:] {
		name, spec, _ := strings.Cut(arg, "=")
		dims, list, _ := strings.Cut(spec, ":")
		t := weights.Tensor{Name: name, DType: weights.I64}
		n := 1
		for _, d := range strings.Split(dims, "x") {
			size := int(number(ts, d))
			t.Shape = append(t.Shape, size)
			n *= size
		}
		values := strings.Split(list, ",")
		for i := range n {
			t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(number(ts, values[i%len(values)])))
		}
		tensors = append(tensors, t)
	}
	ts.Check(weights.WriteFile(ts.MkAbs(args[0]), tensors, nil))
}

func number(ts *testscript.TestScript, s string) int64 {
	var n int64
	negative := strings.HasPrefix(s, "-")
	for _, c := range strings.TrimPrefix(s, "-") {
		if c < '0' || c > '9' {
			ts.Fatalf("%q is no number", s)
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n
}

// Every command is in one group of the help, and the first page has what to begin with.
func TestHelpShowsEveryCommand(t *testing.T) {
	root := newRoot()
	all := rootHelp(root, true, 100)
	first := rootHelp(root, false, 100)
	for _, name := range commandNames(root) {
		groups := 0
		for _, g := range commandGroups {
			if slices.Contains(strings.Fields(g.names), name) {
				groups++
			}
		}
		require.Equal(t, 1, groups, name)
		require.Regexp(t, `(?m)^  `+name+` `, all)
	}
	require.LessOrEqual(t, strings.Count(first, "\n"), 25, "the first page is one")
	lines := strings.Split(first, "\n")
	require.Equal(t, "To begin with:", lines[2])
	require.Regexp(t, `^  unmask chat .*`, lines[3])
	require.Regexp(t, `^  unmask text --watch .*`, lines[4])
	require.Regexp(t, `^  unmask serve .*`, lines[5])
	require.NotRegexp(t, `(?m)^  logits `, first)
}
