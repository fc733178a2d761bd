package cli

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// checkPicture checks the size of a picture: picture FILE WIDTHxHEIGHT [frames N], or that
// it equals another but for a square at its top left: picture FILE WIDTHxHEIGHT kept SIDE OTHER.
func checkPicture(ts *testscript.TestScript, neg bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	ts.Check(err)
	if got := strconv.Itoa(config.Width) + "x" + strconv.Itoa(config.Height); got != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
	if len(args) > 2 && args[2] == "kept" {
		other, err := os.ReadFile(ts.MkAbs(args[4]))
		ts.Check(err)
		a, _, err := image.Decode(bytes.NewReader(data))
		ts.Check(err)
		b, _, err := image.Decode(bytes.NewReader(other))
		ts.Check(err)
		side := int(number(ts, args[3]))
		for i := range config.Width * config.Height {
			x, y := i%config.Width, i/config.Width
			if (x >= side || y >= side) && color.NRGBAModel.Convert(a.At(x, y)) !=
				color.NRGBAModel.Convert(b.At(x, y)) {
				ts.Fatalf("pixel %d, %d is %v, want %v", x, y, a.At(x, y), b.At(x, y))
			}
		}
	} else if len(args) > 2 {
		g, err := gif.DecodeAll(bytes.NewReader(data))
		ts.Check(err)
		if got := strconv.Itoa(len(g.Image)); got != args[3] {
			ts.Fatalf("%s has %s frames, want %s", args[0], got, args[3])
		}
	}
}

// sameDirectory checks that two folders have the same names and bytes: samedir A B.
func sameDirectory(ts *testscript.TestScript, neg bool, args []string) {
	a, b := files(ts, args[0]), files(ts, args[1])
	if len(a) != len(b) {
		ts.Fatalf("%d files in %s, %d in %s", len(a), args[0], len(b), args[1])
	}
	for name, data := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(data, other) {
			ts.Fatalf("%s differs", name)
		}
	}
}

func files(ts *testscript.TestScript, dir string) map[string][]byte {
	entries, err := os.ReadDir(ts.MkAbs(dir))
	ts.Check(err)
	all := map[string][]byte{}
	for _, e := range entries {
		all[e.Name()], err = os.ReadFile(filepath.Join(ts.MkAbs(dir), e.Name()))
		ts.Check(err)
	}
	return all
}

// killed runs a command and kills it once its run has N outputs: killed N RUN COMMAND...
func killed(ts *testscript.TestScript, neg bool, args []string) {
	manifest := filepath.Join(ts.MkAbs(args[1]), "manifest.jsonl")
	if strings.HasSuffix(args[1], ".jsonl") {
		manifest = ts.MkAbs(args[1]) + ".manifest"
	}
	c := exec.Command("sh", append([]string{"-c", `cd "$0" && exec "$@"`, ts.MkAbs(".")},
		args[2:]...)...)
	c.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"))
	ts.Check(c.Start())
	defer c.Wait()
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		data, _ := os.ReadFile(manifest)
		if bytes.Count(data, []byte("\n")) > int(number(ts, args[0])) {
			ts.Check(c.Process.Kill())
			return
		}
	}
	c.Process.Kill()
	ts.Fatalf("%s has no %s outputs after %v", args[1], args[0], maxWait)
}

// writeCheckpoint writes a zip with a pickle: checkpoint FILE PICKLE, escaped as in Go.
func writeCheckpoint(ts *testscript.TestScript, neg bool, args []string) {
	pickle, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "a/data.pkl",
		CRC32:            crc32.ChecksumIEEE([]byte(pickle)),
		CompressedSize64: uint64(len(pickle)), UncompressedSize64: uint64(len(pickle))})
	ts.Check(err)
	_, err = w.Write([]byte(pickle))
	ts.Check(err)
	ts.Check(z.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}
