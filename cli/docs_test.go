package cli

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
	"unmask/weights"
	"unmask/weights/pytorch"
)

// Every command of docs/models.md runs as it is written, but for 100 pictures, one after another in
// one folder, on small weights in the published formats under the published names.
func TestCommandsOfModels(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	document, err := os.ReadFile("../docs/models.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^ {4}unmask .*$`).FindAllString(string(document), -1)
	require.Greater(t, len(commands), 10)
	s := small{t, t.TempDir()}
	s.files()
	hub := httptest.NewServer(s.hub())
	defer hub.Close()
	for _, command := range commands {
		c := exec.Command("sh", "-c", strings.Replace(command, "-n 100 ", "-n 8 ", 1))
		c.Dir = s.path("here")
		c.Env = append(os.Environ(), "HF_HOME="+s.path("cache"), "HF_ENDPOINT="+hub.URL)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
	}
}

// Every command of docs/encoders.md after the conversion runs as it is written on the files of
// examples/, with small proteins' models in place of the antibodies'.
func TestCommandsOfEncoders(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	document, err := os.ReadFile("../docs/encoders.md")
	require.NoError(t, err)
	s := small{t, t.TempDir()}
	require.NoError(t, os.CopyFS(s.path("here"), os.DirFS("../examples")))
	for _, name := range []string{"antibody", "sapiens"} {
		s.copied("esm-tiny", "here/"+name)
		require.NoError(t, os.Remove(s.path("here/"+name+"/config.json")))
		s.edited("esm-tiny/config.json", "here/"+name+"/config.json",
			`"max_position_embeddings": 64`, `"max_position_embeddings": 256`)
	}
	n := 0
	lines := regexp.MustCompile(`(?m)^ {4}unmask .*$`).FindAllString(string(document), -1)
	for _, line := range lines {
		if strings.Contains(line, "unmask convert") {
			continue
		}
		c := exec.Command("sh", "-c", strings.TrimSpace(line))
		c.Dir = s.path("here")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
		n++
	}
	require.Greater(t, n, 8)
	ranks, err := os.ReadFile(s.path("here/ranked.csv"))
	require.NoError(t, err)
	require.Contains(t, string(ranks), "trastuzumab")
	require.NotRegexp(t, "N[^P][ST][A-Z]*WGQG", string(ranks)[strings.Index(string(ranks), "\n"):])
}

var (
	shownCommand = regexp.MustCompile("(?m)`unmask [^`]+`|^ {4}(.*[|&] )?(go run ./cmd/)?unmask .*$")
	quotedWord   = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	betweenRuns  = regexp.MustCompile(`&&|[|;]`)
	shownFlag    = regexp.MustCompile(`\s--([a-z-]+)|\s-([a-z])\b`)
)

// pagesOfDocs returns the pages of docs and of its folders.
func pagesOfDocs(t *testing.T) (pages []string) {
	require.NoError(t, filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	}))
	require.Greater(t, len(pages), 20)
	return pages
}

// Commands and flags that documents show exist.
func TestFlagsOfDocuments(t *testing.T) {
	seen := 0
	for _, name := range append(pagesOfDocs(t), "../README.md", "../bench/README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, line := range shownCommand.FindAllString(string(text), -1) {
			words, _, _ := strings.Cut(quotedWord.ReplaceAllString(strings.Trim(line, "`"), "x"), " #")
			for _, run := range betweenRuns.Split(words, -1) {
				_, args, ok := strings.Cut(run, "unmask ")
				if !ok {
					continue
				}
				cmd, _, err := newRoot().Find(strings.Fields(args))
				require.NoError(t, err, "%s: %s", name, line)
				cmd.InitDefaultHelpFlag()
				for _, match := range shownFlag.FindAllStringSubmatch(args, -1) {
					seen++
					f := cmd.Flags().ShorthandLookup(match[2])
					if match[1] != "" {
						f = cmd.Flags().Lookup(match[1])
					}
					require.NotNil(t, f, "%s:%s of %s", name, match[0], line)
				}
			}
		}
	}
	require.Greater(t, seen, 200)
}

// The README says how many samplers there are.
func TestReadmeCountsSamplers(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	n := len(samplers.List())
	require.Contains(t, string(page), fmt.Sprintf("**%d samplers behind", n))
	page, err = os.ReadFile("../docs/commands.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("Another %d samplers", n-9))
}

// small writes small models below a folder: parity packs, with tensors resized until the parts of a
// pipeline fit each other.
type small struct {
	t   *testing.T
	dir string
}

// path returns a path below the folder, whose parent it makes.
func (s small) path(name string) string {
	full := filepath.Join(s.dir, filepath.FromSlash(name))
	require.NoError(s.t, os.MkdirAll(filepath.Dir(full), 0o777))
	return full
}

func (s small) write(name string, data []byte) {
	require.NoError(s.t, os.WriteFile(s.path(name), data, 0o666))
}

// pack returns the path of a parity pack, or of a file in it.
func pack(name string) string { return filepath.Join("..", "testdata", "packs", name) }

// copied copies a pack's folder.
func (s small) copied(from, to string) {
	require.NoError(s.t, os.CopyFS(s.path(to), os.DirFS(pack(from))))
}

// edited copies a file of a pack with words replaced; each must be there.
func (s small) edited(from, to string, oldnew ...string) {
	data, err := os.ReadFile(pack(from))
	require.NoError(s.t, err)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(s.t, string(data), oldnew[i])
	}
	s.write(to, []byte(strings.NewReplacer(oldnew...).Replace(string(data))))
}

// sizes maps a tensor's name and shape to another shape.
type sizes func(name string, shape []int) []int

// only resizes the tensors that it names.
func only(shapes map[string][]int) sizes {
	return func(name string, shape []int) []int {
		if other, ok := shapes[name]; ok {
			return other
		}
		return shape
	}
}

// each replaces every dimension of one size by another.
func each(replaced map[int]int) sizes {
	return func(_ string, shape []int) []int {
		shape = slices.Clone(shape)
		for i, n := range shape {
			if other, ok := replaced[n]; ok {
				shape[i] = other
			}
		}
		return shape
	}
}

// tensors returns those of a safetensors file, resized: elements are repeated or left out.
func (s small) tensors(file string, resize sizes) (list []weights.Tensor) {
	set, err := weights.Open(file)
	require.NoError(s.t, err)
	defer set.Close()
	for _, name := range set.Names() {
		v, _ := set.Get(name)
		made := weights.Tensor{Name: name, DType: v.DType, Shape: resize(name, v.Shape)}
		size := len(v.Data) / v.Numel() * made.Numel()
		made.Data = bytes.Repeat(v.Data, size/len(v.Data)+1)[:size]
		list = append(list, made)
	}
	return list
}

// resized writes the safetensors files of a pack's folder as one.
func (s small) resized(from, to string, resize sizes) {
	files, err := filepath.Glob(filepath.Join(pack(from), "model*.safetensors"))
	require.NoError(s.t, err)
	var list []weights.Tensor
	for _, file := range files {
		list = append(list, s.tensors(file, resize)...)
	}
	require.NoError(s.t, weights.WriteFile(s.path(to), list, nil))
}

// hub returns a server of the models that the commands load by their names.
func (s small) hub() fakeHub {
	s.titok("hub/titok", "hub/titok-codec")
	s.maskgen("hub/maskgen", "hub/tatitok", "hub/clip")
	s.language("llada-tiny", "hub/llada", `"vocab_size": 158`, `"vocab_size": 478`,
		`"embedding_size": 160`, `"embedding_size": 480`)
	s.language("sdar-tiny", "hub/sdar", `"vocab_size": 160`, `"vocab_size": 480`,
		`"max_position_embeddings": 256`, `"max_position_embeddings": 1024`)
	s.language("sdar-tiny", "hub/qwen", `"vocab_size": 160`, `"vocab_size": 480`,
		`"model_type": "sdar"`, `"model_type": "a2d-qwen3"`)
	s.edited("genmol-tiny/model_v2.ckpt", "hub/genmol/model_v2.ckpt")
	s.edited("genmol-tiny/tokenizer.json", "hub/safe/tokenizer.json")
	served := fakeHub{}
	for repo, dir := range map[string]string{
		"nvidia/NV-GenMol-89M-v2":                 "genmol",
		"datamol-io/safe-gpt":                     "safe",
		"yucornetto/generator_titok_l32_imagenet": "titok",
		"yucornetto/tokenizer_titok_l32_imagenet": "titok-codec",
		"turkeyju/generator_maskgen_vq_l":         "maskgen",
		"turkeyju/tokenizer_tatitok_bl128_vq":     "tatitok",
		"openai/clip-vit-large-patch14-336":       "clip",
		"GSAI-ML/LLaDA-8B-Instruct":               "llada",
		"JetLM/SDAR-1.7B-Chat":                    "sdar",
		"dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1": "qwen",
	} {
		served[repo] = s.path("hub/" + dir)
	}
	return served
}

// titok writes a generator of 1000 classes and an image tokenizer of as many tokens.
func (s small) titok(to, codec string) {
	s.edited("titok-bert-tiny/config.json", to+"/config.json",
		`"num_latent_tokens": 24`, `"num_latent_tokens": 12`,
		`"condition_num_classes": 10`, `"condition_num_classes": 1000`)
	s.resized("titok-bert-tiny", to+"/model.safetensors", only(map[string][]int{
		"model.embeddings.position_embeddings.weight": {13, 48},
		"model.embeddings.word_embeddings.weight":     {1062, 48}}))
	s.copied("titok-tokenizer-tiny", codec)
}

// maskgen writes a generator, and an image tokenizer and a text encoder that read as many tokens of
// a prompt as it does.
func (s small) maskgen(to, codec, text string) {
	s.copied("maskgen-tiny", to)
	s.copied("tatitok-tiny", codec)
	s.copied("amused-256-tiny/tokenizer", text)
	s.edited("amused-256-tiny/text_encoder/config.json", text+"/config.json",
		`"max_position_embeddings": 77`, `"max_position_embeddings": 11`)
	encoder := s.tensors(pack("amused-256-tiny/text_encoder/model.fp16.safetensors"), only(
		map[string][]int{"text_model.embeddings.position_embedding.weight": {11, 32}}))
	require.NoError(s.t, weights.WriteFile(s.path(text+"/model.safetensors"), encoder, nil))
}

// language writes a language model with the tokenizer of DreamOn's pack and a chat template.
func (s small) language(from, to string, oldnew ...string) {
	s.edited(from+"/config.json", to+"/config.json", append(oldnew,
		`"eos_token_id": 140`, `"eos_token_id": 462`, `"pad_token_id": 140`, `"pad_token_id": 460`,
		`"mask_token_id": 150`, `"mask_token_id": 464`)...)
	s.resized(from, to+"/model.safetensors", each(map[int]int{160: 480}))
	s.edited("tokenizer-dreamon-tiny/tokenizer.json", to+"/tokenizer.json")
	s.write(to+"/chat_template.jinja", []byte("{% for m in messages %}<|im_start|>{{ m.role }}\n"+
		"{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"))
}

// files writes the files and folders that the commands name.
func (s small) files() {
	s.copied("sdar-tiny", "here/pack")
	require.NoError(s.t, weights.WriteFile(s.path("here/prompt.safetensors"), []weights.Tensor{
		{Name: "tokens", DType: weights.I64, Shape: []int{1, 4}, Data: make([]byte, 32)}}, nil))
	s.titok("here/titok", "here/titok/codec")
	s.maskgen("here/maskgen", "here/maskgen/codec", "here/maskgen/text_encoder")
	s.copied("amused-256-tiny", "here/amused-256")
	s.copied("amused-256-tiny", "here/amused-512")
	require.NoError(s.t, os.RemoveAll(s.path("here/amused-512/transformer")))
	s.copied("amused-512-tiny/transformer", "here/amused-512/transformer")
	s.halton("here/ImageNet_256_base.pth")
	s.edited("pgm-text-tiny/pgm_tiny.ckpt", "here/pgm_8_8.ckpt")
	s.edited("llamagen-tiny/vq_ds16_c2i.pt", "here/vq_ds16_c2i.pt")
	s.write("here/lines.txt", []byte("a lighthouse\na harbour\n"))

	photo, hole := square(16, color.White), square(16, color.Black)
	draw.Draw(hole, image.Rect(2, 2, 8, 8), image.White, image.Point{}, draw.Src)
	s.png("here/photo.png", photo)
	s.png("here/hole.png", hole)
	var b bytes.Buffer
	require.NoError(s.t, jpeg.Encode(&b, photo, nil))
	s.write("here/photo.jpg", b.Bytes())
	s.checkpoint("here/pt_inception-2015-12-05-6726825d.pth",
		s.tensors(pack("inception-thin/model.safetensors"), only(nil)))
	for i, class := range []string{"207", "88"} {
		for j := range 3 {
			s.png("here/imagenet-val/"+class+"/"+strconv.Itoa(j)+".png",
				square(64, color.Gray{uint8(90*i + 30*j)}))
		}
	}
}

func (s small) png(name string, p image.Image) {
	var b bytes.Buffer
	require.NoError(s.t, png.Encode(&b, p))
	s.write(name, b.Bytes())
}

func square(side int, c color.Color) *image.RGBA {
	p := image.NewRGBA(image.Rect(0, 0, side, side))
	draw.Draw(p, p.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	return p
}

// halton writes a checkpoint of Halton-MaskGIT with the width of a published one, by which the
// number of its heads is known, and 1000 classes.
func (s small) halton(to string) {
	narrow := s.path("narrow")
	require.NoError(s.t, pytorch.Convert(s.t.Context(), pack("halton-tiny/ImageNet_256_tiny.pth"),
		narrow, pytorch.Options{Heads: 5}))
	wide := each(map[int]int{48: 384, 45: 48, 288: 6 * 384, 96: 2 * 384, 11: 1001})
	list := s.tensors(filepath.Join(narrow, "model.safetensors"), wide)
	s.checkpoint(to, slices.DeleteFunc(list, func(t weights.Tensor) bool {
		return strings.Contains(t.Name, "layers.1.") // one layer is enough
	}))
}

// checkpoint writes float32 tensors as torch.save does.
func (s small) checkpoint(to string, list []weights.Tensor) {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	put := func(name string, data []byte) {
		w, err := z.CreateRaw(&zip.FileHeader{Name: "a/" + name, CRC32: crc32.ChecksumIEEE(data),
			CompressedSize64: uint64(len(data)), UncompressedSize64: uint64(len(data))})
		require.NoError(s.t, err)
		_, err = w.Write(data)
		require.NoError(s.t, err)
	}
	state := "\x80\x02}"
	for i, tensor := range list {
		state += pickled(tensor, strconv.Itoa(i))
		put("data/"+strconv.Itoa(i), tensor.Data)
	}
	put("data.pkl", []byte(state+"."))
	require.NoError(s.t, z.Close())
	s.write(to, file.Bytes())
}

// pickled returns a pickle's operations, protocol 2, that add a float32 tensor to a dictionary.
func pickled(t weights.Tensor, record string) string {
	text := func(s string) string {
		return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
	}
	number := func(n int) string {
		return "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	shape, stride, n := "", "", 1
	for _, d := range slices.Backward(t.Shape) {
		shape, stride, n = number(d)+shape, number(n)+stride, n*d
	}
	return text(t.Name) + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
		"ctorch\nFloatStorage\n" + text(record) + text("cpu") + number(n) + "tQ" + number(0) +
		"(" + shape + "t(" + stride + "t\x89}tRs"
}
