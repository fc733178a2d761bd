package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// Another module, with a sampler of at most 40 lines and a network with a cache of at most 70,
// calls Main and has both in every command.
func TestOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "testdata", "outside"))))
	for name, most := range map[string]int{"sampler.go": 40, "network.go": 70} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.LessOrEqual(t, bytes.Count(data, []byte("\n")), most, name)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"),
		bytes.Replace(mod, []byte("../.."), []byte(root), 1), 0o644))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
	run := func(name string, args ...string) string {
		c := exec.Command(name, args...)
		c.Dir = dir
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		require.NoError(t, c.Run(), "%s %v: %s", name, args, &errs)
		return out.String()
	}
	run("go", "build", "-mod=mod", "-buildvcs=false", "-ldflags=-s -w", "-o",
		"outside", ".")

	writeGlance(t, filepath.Join(dir, "glance"))
	outside := filepath.Join(dir, "outside")
	require.Contains(t, run(outside, "samplers"), "every other position first")
	require.Contains(t, run(outside, "inspect", "glance"), "architecture  glance")
	text := []string{"text", "--model", "glance", "--sampler", "alternate(stride=3)", "--cache", "1",
		"-n", "3", "--json", "--out"}
	run(outside, append(text, "one.jsonl", "--batch", "1")...)
	run(outside, append(text, "three.jsonl", "--threads", "1")...)
	one, three := read(t, dir, "one.jsonl"), read(t, dir, "three.jsonl")
	require.Equal(t, one, three)
	require.Equal(t, 3, strings.Count(one, "\n"))
	require.Contains(t, one, `"partial_rows":`)
	require.NotContains(t, one, `"partial_rows":0`)

	plan := "model: oracle:markov:length=12,tokens=3\nsamplers: [\"alternate(stride=3)\", " +
		"random]\nsteps: [4]\nn: 8\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o644))
	run(outside, "sweep", "plan.yaml")
	require.Contains(t, read(t, dir, "results.jsonl"), "alternate(stride=3)")
}

// Who imports one package alone compiles no more than docs/library.md says, and no server, plots or
// NATS.
func TestImportsAreFew(t *testing.T) {
	document := read(t, "../docs", "library.md")
	row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9]+) \\| ([0-9]+) \\|$")
	rows := row.FindAllStringSubmatch(document, -1)
	require.Len(t, rows, 3)
	for _, r := range rows {
		const format = "{{if not .Standard}}{{.Module.Main}} {{.Module.Path}} {{.ImportPath}}{{end}}"
		list, err := exec.Command("go", "list", "-deps", "-f", format, "../"+r[1]).Output()
		require.NoError(t, err)
		modules := map[string]bool{}
		packages := 0
		for line := range strings.Lines(string(list)) {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				continue
			}
			packages++
			if fields[0] == "false" {
				modules[fields[1]] = true
			}
			require.NotRegexp(t, "/nats|gonum/plot|/server$|/cli$|/fleet$", fields[2], r[1])
		}
		maxModules, _ := strconv.Atoi(r[2])
		maxPackages, _ := strconv.Atoi(r[3])
		require.NotZero(t, packages, r[1])
		require.LessOrEqual(t, len(modules), maxModules, r[1])
		require.LessOrEqual(t, packages, maxPackages, r[1])
	}
}

func read(t *testing.T, dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(data)
}

// writeGlance writes a model of the outside network with random weights and the demo's tokenizer.
func writeGlance(t *testing.T, dir string) {
	const outcomes, width = 1024, 16
	require.NoError(t, os.Mkdir(dir, 0o755))
	random := rand.New(rand.NewPCG(1, 2))
	values := func(n int) (data []byte) {
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(random.NormFloat64())))
		}
		return data
	}
	require.NoError(t, weights.WriteFile(filepath.Join(dir, "model.safetensors"), []weights.Tensor{
		{Name: "table", DType: weights.F32, Shape: []int{outcomes + 1, width},
			Data: values((outcomes + 1) * width)},
		{Name: "qkv.weight", DType: weights.F32, Shape: []int{3 * width, width},
			Data: values(3 * width * width)},
	}, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644))
	data, err := os.ReadFile("../demo/text/tokenizer.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644))
}
