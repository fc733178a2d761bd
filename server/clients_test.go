package server_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/server"
	"unmask/server/page"
	"unmask/weights"
)

// chatFamily says how a small model with a published tokenizer and chat template is made.
type chatFamily struct {
	pack, tokenizer   string
	embedding, head   string // tensors by rows of the vocabulary
	rows, vocabulary  int
	mask, end         int
	template, special string
}

var chatFamilies = map[string]chatFamily{
	"llada": {"llada-tiny", "llada.json", "model.transformer.wte.weight",
		"model.transformer.ff_out.weight", 480, 470, 464, 467,
		"{% for m in messages %}{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}" +
			"<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>" +
			"{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n", "<|startoftext|>"},
	"dream": {"dream-tiny", "dream.json", "model.embed_tokens.weight", "lm_head.weight", 480, 480,
		464, 462, "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" +
			"{% endfor %}<|im_start|>assistant\n", "<|endoftext|>"},
	"caller": {"dream-tiny", "dream.json", "model.embed_tokens.weight", "lm_head.weight", 480, 480,
		464, 462, "{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}" +
			"<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<tool_call>" +
			"{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}" +
			"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", "<|endoftext|>"},
}

// chatModel returns a model of random weights in a published format, with the vocabulary of its
// tokenizer, and its chat template.
func chatModel(t testing.TB, name string) *unmask.Model {
	return familyModel(t, name, chatFamilies[name])
}

func familyModel(t testing.TB, name string, f chatFamily) *unmask.Model {
	root := filepath.Join("..", "testdata", "packs", f.pack)
	set, err := weights.Open(root)
	require.NoError(t, err)
	defer set.Close()
	var tensors []weights.Tensor
	for _, name := range set.Names() {
		tensor, ok := set.Get(name)
		require.True(t, ok)
		data := make([]float32, tensor.Numel())
		require.NoError(t, tensor.Float32s(data))
		shape := slices.Clone(tensor.Shape)
		if name == f.embedding || name == f.head {
			shape[0] = f.rows
			data = make([]float32, shape[0]*shape[1])
			for i := range data {
				data[i] = float32(i*7919%1013)/1013 - 0.5
			}
		}
		raw, err := binary.Append(nil, binary.LittleEndian, data)
		require.NoError(t, err)
		tensors = append(tensors, weights.Tensor{Name: name, DType: weights.F32, Shape: shape, Data: raw})
	}
	var body bytes.Buffer
	require.NoError(t, weights.Write(&body, tensors, nil))

	config := map[string]any{}
	raw, err := os.ReadFile(filepath.Join(root, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &config))
	config["vocab_size"], config["embedding_size"] = f.vocabulary, f.rows
	config["mask_token_id"], config["eos_token_id"] = f.mask, f.end
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := os.ReadFile(filepath.Join("..", "tokenizers", "testdata", f.tokenizer))
	require.NoError(t, err)
	special, err := json.Marshal(map[string]any{"bos_token": f.special, "chat_template": f.template})
	require.NoError(t, err)
	files := fstest.MapFS{"config.json": {Data: raw}, "model.safetensors": {Data: body.Bytes()},
		"tokenizer.json": {Data: tokenizer}, "tokenizer_config.json": {Data: special}}
	m, err := unmask.LoadFS(files, name, unmask.Options{Threads: 2})
	require.NoError(t, err)
	return m
}

// python returns a Python that has OpenAI's package: UNMASK_OPENAI_PYTHON or python3.
func python(t *testing.T) string {
	for _, name := range []string{os.Getenv("UNMASK_OPENAI_PYTHON"), "python3"} {
		if name != "" && exec.Command(name, "-c", "import openai").Run() == nil {
			return name
		}
	}
	t.Skip("there is no Python with openai: UNMASK_OPENAI_PYTHON may name one")
	return ""
}

// OpenAI's own package speaks with the server: texts, conversations, models of pydantic, calls of
// functions, pictures, streams, errors, retries and cancelling.
func TestOpenAIPython(t *testing.T) {
	interpreter := python(t)
	const key = "a-key-of-some-length-for-tests"
	name := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(name, []byte("me:"+key+"\n"), 0o600))
	keys, err := server.LoadKeys(name)
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Queue: 1})
	require.NoError(t, err)
	for _, name := range []string{"demo", "demo-image"} {
		require.NoError(t, s.Add(server.Model{Name: name, Model: loaded()[name]}))
	}
	for _, name := range []string{"llada", "dream", "caller"} {
		require.NoError(t, s.Add(server.Model{Name: name, Model: chatModel(t, name)}))
	}
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	defer s.Close()
	defer h.Close()
	cmd := exec.Command(interpreter, filepath.Join("testdata", "clients.py"), h.URL)
	cmd.Env = append(cmd.Environ(), "UNMASK_KEY="+key)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"models", "completions", "chat", "structured", "tools", "images",
		"errors", "cancel", "retries"} {
		require.Contains(t, string(out), "ok "+name)
	}
}

// The examples of curl in README.md and docs are taken as they stand.
func TestCurlExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	s, h := serving(t, server.Options{Page: page.Handler()})
	talk, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo-chat", Model: talk}))
	voice, err := unmask.Load(t.Context(), speechPack, unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "voice", Model: voice}))
	line := regexp.MustCompile(`(?m)^    (curl (?:'[^']*'|\\\n|[^'\n])*)$`)
	found := 0
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, name := range append(pages, "../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, match := range line.FindAllStringSubmatch(string(text), -1) {
			found++
			command := strings.ReplaceAll(match[1], "http://127.0.0.1:8080", h.URL)
			command = strings.ReplaceAll(command, "127.0.0.1:8080", h.URL)
			command = strings.Replace(command, "curl ", "curl -sS --fail-with-body ", 1)
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir = t.TempDir()
			for file, data := range examplePictures(t) {
				require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, file), data, 0o600))
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", command, out)
			require.NotContains(t, string(out), `"error":{`, command)
		}
	}
	require.Greater(t, found, 12, "examples of curl")
}

// examplePictures are the files that the examples name.
func examplePictures(t *testing.T) map[string][]byte {
	mask, photo := image.NewGray(image.Rect(0, 0, 64, 64)), image.NewNRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(mask, image.Rect(16, 16, 48, 48), image.White, image.Point{}, draw.Src)
	blue := image.NewUniform(color.NRGBA{90, 120, 200, 255})
	draw.Draw(photo, photo.Rect, blue, image.Point{}, draw.Src)
	out := map[string][]byte{}
	for name, p := range map[string]image.Image{"mask.png": mask, "photo.png": photo} {
		var data bytes.Buffer
		require.NoError(t, png.Encode(&data, p))
		out[name] = data.Bytes()
	}
	return out
}
