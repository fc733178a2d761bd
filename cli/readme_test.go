package cli

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/weights"
)

// gatePages are the documents of which the gate's step commands runs what the demo models do.
var gatePages = []string{"README.md", "commands.md", "decisions.md", "embeddings.md",
	"evaluation.md", "samplers.md", "structured.md"}

// elsewhere are commands that other tests run, with other arguments: what they are and where.
var elsewhere = map[string]string{
	`unmask serve`:                      "the server's tests and script/serve.txt",
	`worker|gather|verify|--hub|shard`:  "script/fleet.txt, shards.txt and verify.txt",
	`--device cuda`:                     "gpu_test.go, on a machine with a GPU",
	`theory|exactness|reproduce|tune`:   "scripts of these names: as written they take minutes",
	`--watch`:                           "terminal_linux_test.go",
	`^unmask text *$`:                   "the gate's step first",
	`^unmask doctor`:                    "script/doctor.txt, without a hub and a port",
	`convert mage-vitb`:                 "script/convert.txt",
	`convert antiberty|antibody|sapien`: "TestCommandsOfEncoders",
}

// Every command of README.md and docs runs as it is written in some test: here those for other
// models than the demo's, on small weights under the names and in the folders that they name.
func TestCommandsOfReadme(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	gate, err := os.ReadFile("../.ci/run")
	require.NoError(t, err)
	others := regexp.MustCompile(regexp.MustCompile(`local others='(.*)'`).
		FindStringSubmatch(string(gate))[1])
	shown := regexp.MustCompile(`(?m)^ {4}unmask (?:.*\\\n)*.*$`)
	s := small{t, t.TempDir()}
	hub := httptest.NewServer(s.readme())
	defer hub.Close()
	ran := 0
	for _, page := range append(pagesOfDocs(t), "../README.md") {
		document, err := os.ReadFile(page)
		require.NoError(t, err)
		name := filepath.Base(page)
		if name == "models.md" { // TestCommandsOfModels
			continue
		}
		for _, command := range shown.FindAllString(string(document), -1) {
			command, _, _ = strings.Cut(strings.TrimSpace(command), " #")
			byGate := slices.Contains(gatePages, name) && !others.MatchString(command) &&
				!strings.Contains(command, "\\\n")
			if byGate || runElsewhere(command) {
				continue
			}
			ran++
			c := exec.Command("sh", "-c", fewer.Replace(command))
			c.Dir = s.path("here")
			c.Env = append(os.Environ(), "HF_HOME="+s.path("cache"), "HF_ENDPOINT="+hub.URL)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s: %s\n%s", name, command, out)
		}
	}
	require.Greater(t, ran, 20)
}

func runElsewhere(command string) bool {
	for pattern := range elsewhere {
		if regexp.MustCompile(pattern).MatchString(command) {
			return true
		}
	}
	return false
}

// fewer leaves out what a test has no time or no machine for.
var fewer = strings.NewReplacer("-n 50000", "-n 2", "-n 100", "-n 2", "-n 60", "-n 6",
	"EVQL...CAAS", "EVQLCAAS",
	"WVRQ...", "WVRQ", "| aplay -f S16_LE -r 24000", "> sound.pcm")

// readme writes the files and folders that the commands name, and returns a hub of the rest.
func (s small) readme() fakeHub {
	require.NoError(s.t, os.CopyFS(s.path("here"), os.DirFS("../examples")))
	llada := []string{`"vocab_size": 158`, `"vocab_size": 478`, `"embedding_size": 160`,
		`"embedding_size": 480`}
	s.language("llada-tiny", "here/DIR", llada...)
	s.language("dreamon-tiny", "hub/dreamon", `"vocab_size": 160`, `"vocab_size": 480`,
		`"expand_token_id": 151`, `"expand_token_id": 465`)
	s.write("here/conversation.json", []byte(`[{"role":"user","content":"What is Rome?"}]`))
	s.write("here/book.txt", []byte("Good morning.\n"))
	s.titok("here/TITOK_DIR", "here/TITOK_DIR/codec")
	s.copied("mage-tiny", "here/MAGE_DIR")
	for _, name := range []string{"here/ANTIBODY_DIR", "here/esm2_8m"} {
		s.copied("esm-tiny", name)
		require.NoError(s.t, os.Remove(s.path(name+"/config.json")))
		s.edited("esm-tiny/config.json", name+"/config.json",
			`"max_position_embeddings": 64`, `"max_position_embeddings": 256`)
	}
	for _, name := range []string{"in", "tokens"} {
		require.NoError(s.t, weights.WriteFile(s.path("here/"+name+".safetensors"), []weights.Tensor{
			{Name: "tokens", DType: weights.I64, Shape: []int{1, 4}, Data: make([]byte, 32)}}, nil))
	}
	convert := exec.Command("unmask", "convert", "DIR", "llada.gguf", "--quantize", "q4_k_m")
	convert.Dir = s.path("here")
	out, err := convert.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	return fakeHub{"jdeschena/sdtt": pack("sdtt-tiny"), "k2-fsa/OmniVoice": pack("omnivoice-tiny"),
		"Dream-org/DreamOn-v0-7B": s.path("hub/dreamon"), "convaiinnovations/laya": pack("laya-tiny"),
		"sentence-transformers/all-MiniLM-L6-v2": pack("embed-bert-tiny")}
}
