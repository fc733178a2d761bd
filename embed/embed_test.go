package embed_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/embed"
	"unmask/model"
	"unmask/param"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
	"unmask/weights"
)

func open(t *testing.T, name string) (*unmask.Model, *embed.Embedder) {
	m, err := unmask.Load(t.Context(), name, unmask.Options{Threads: 2})
	require.NoError(t, err)
	e, err := embed.New(m)
	require.NoError(t, err)
	return m, e
}

func vectors(t *testing.T, e *embed.Embedder, texts []string, o embed.Options) [][]float32 {
	var list []*embed.Text
	for _, text := range texts {
		one, err := e.Tokenize(t.Context(), text, o)
		require.NoError(t, err, text)
		list = append(list, one)
	}
	out, err := e.Embed(t.Context(), list, o)
	require.NoError(t, err)
	return out
}

// Vectors are those of sentence-transformers on folders that it saved, with every way to pool, and
// the same in any batch.
func TestSentenceTransformers(t *testing.T) {
	for _, name := range []string{"bert", "roberta", "modernbert"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("../testdata/packs", "embed-"+name+"-tiny")
			m, e := open(t, folder)
			require.Equal(t, name, m.Info.Architecture)
			require.Nil(t, m.Text)
			data, err := os.ReadFile(filepath.Join(folder, "cases.json"))
			require.NoError(t, err)
			var file struct {
				Texts []string
				Cases []struct {
					Prompt  string
					Vectors [][]float32
				}
			}
			require.NoError(t, json.Unmarshal(data, &file))
			require.NotEmpty(t, file.Cases)
			for _, c := range file.Cases {
				o := embed.Options{Prompt: c.Prompt}
				got := vectors(t, e, file.Texts, o)
				for i, want := range c.Vectors {
					require.Len(t, got[i], len(want))
					for j := range want {
						require.InDelta(t, want[j], got[i][j], 1e-5*max(1, math.Abs(float64(want[j]))),
							"%q after %q", file.Texts[i], c.Prompt)
					}
					require.Equal(t, vectors(t, e, file.Texts[i:i+1], o)[0], got[i])
				}
			}
		})
	}
}

// The network below a head is loaded alone, and refuses to make text by name.
func TestHeadless(t *testing.T) {
	m, _ := open(t, "../testdata/packs/embed-bert-tiny")
	require.Equal(t, model.KindVectors, m.Kind())
	_, err := m.Prepare(t.Context(), unmask.Request{Prompt: "the"})
	require.ErrorContains(t, err, "the model ")
	lock := model.LockOf(m.Denoiser)
	lock.Lock()
	defer lock.Unlock()
	marginals, err := m.Forward(t.Context(), &model.Batch{Size: 1, Length: 2, Tokens: []int32{2, 3}})
	require.NoError(t, err)
	require.EqualError(t, marginals.Visit([]int32{0}, nil),
		"the weights have no head for tokens, only the network below it")
}

// Other models' vectors are the mean of the states at a text's own tokens, and these can be had one
// by one: an encoder's after its last norm, and those of a model of text.
func TestMeanOfOwnTokens(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Threads: 2})
	require.NoError(t, err)
	protein, _ := open(t, proteins(t))
	for name, m := range map[string]*unmask.Model{"demo": text, "esm": protein} {
		t.Run(name, func(t *testing.T) {
			e, err := embed.New(m)
			require.NoError(t, err)
			texts := []string{"ACDE", "GG", "WYACDEFGHK"}
			own := vectors(t, e, texts, embed.Options{PerToken: true})
			all := vectors(t, e, texts, embed.Options{})
			for i := range texts {
				width := len(all[i])
				n := len(own[i]) / width
				if name == "esm" {
					require.Equal(t, len(texts[i]), n)
				}
				for j := range width {
					mean := 0.0
					for row := range n {
						mean += float64(own[i][row*width+j]) / float64(n)
					}
					require.InDelta(t, mean, all[i][j], 1e-5)
				}
			}
			short := vectors(t, e, texts, embed.Options{Dimensions: 3})
			require.Equal(t, all[0][:3], short[0])
		})
	}
}

// proteins returns a folder of a small ESM-2 with its vocabulary.
func proteins(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/esm-tiny")))
	return dir
}

func TestRefused(t *testing.T) {
	_, e := open(t, proteins(t))
	_, err := e.Tokenize(t.Context(), "", embed.Options{})
	refusal.RequireText(t, err, "text is empty")
	_, err = e.Tokenize(t.Context(), strings.Repeat("A", 100), embed.Options{})
	refusal.RequireText(t, err, "text is 100 tokens")
	_, err = e.Tokenize(t.Context(), "A", embed.Options{Prompt: "query"})
	refusal.RequireText(t, err, `unknown prompt "query"`)
	one, err := e.Tokenize(t.Context(), "A", embed.Options{})
	require.NoError(t, err)
	_, err = e.Embed(t.Context(), []*embed.Text{one}, embed.Options{Dimensions: 1 << 20})
	refusal.RequireText(t, err, "dimensions is 1048576")
	_, err = e.Embed(t.Context(), []*embed.Text{one}, embed.Options{Dimensions: -1})
	refusal.RequireText(t, err, "dimensions is -1")

	_, e = open(t, "../testdata/packs/embed-bert-tiny")
	long, err := e.Tokenize(t.Context(), strings.Repeat("the ", 100), embed.Options{})
	require.NoError(t, err)
	require.Equal(t, 100-22, long.Truncated) // it has 24 with those around a text
	exact, err := unmask.Load(t.Context(), "oracle:markov:length=4,tokens=3", unmask.Options{})
	require.NoError(t, err)
	_, err = embed.New(exact)
	refusal.RequireText(t, err, "model is a oracle")

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/embed-bert-tiny")))
	for want, modules := range map[string]string{
		`module 1 is "a.b.WordWeights" in ""`: `[{"type":"x.Transformer"},{"type":"a.b.WordWeights"}]`,
		"modules.json has 1 modules":          `[{"type":"x.Transformer"}]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"), []byte(modules), 0o600))
		m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
		require.NoError(t, err)
		_, err = embed.New(m)
		require.ErrorContains(t, err, want)
	}
}

// edited returns a copy of a pack in which a part of a file has another text.
func edited(t *testing.T, pack, file, old, text string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/packs/embed-"+pack+"-tiny")))
	data, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	data = []byte(strings.Replace(string(data), old, text, 1))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
	return dir
}

const (
	settings = "sentence_bert_config.json"
	dense    = "2_Dense/config.json"
)

// Settings of a folder do what sentence-transformers 6.2 does with them: the length and the first
// two numbers of encode()'s vector.
func TestSettings(t *testing.T) {
	long := strings.Repeat("the dog sat on the mat ", 6) + "a cat"
	for name, c := range map[string]struct {
		pack, file, old, text, read string

		length int
		want   [2]float32
	}{
		"lower": {"roberta", settings, "", "", "\u0130 A", 24, [2]float32{1.1565725, 0.15735263}},
		"right": {"bert", settings, "", "", long, 6, [2]float32{0.54587066, -0.5863989}},
		"left": {"bert", "tokenizer_config.json", "{", `{"truncation_side": "left",`, long, 6,
			[2]float32{0.54051197, -0.58905804}},
		"direction": {"bert", "tokenizer.json", `"truncation": null`,
			`"truncation": {"direction": "Left"}`, long, 6, [2]float32{0.54051197, -0.58905804}},
		"first": {"bert", "config_sentence_transformers.json", "{", `{"truncate_dim": 4,`, "a cat", 4,
			[2]float32{0.47045118, -0.55215359}},
		"one": {"bert", settings, "{", `{"max_seq_length": 1,`, "a cat", 6,
			[2]float32{0.47045118, -0.55215359}},
		"two": {"bert", settings, "{", `{"max_seq_length": 2,`, "a cat", 6,
			[2]float32{0.50862283, -0.54884213}},
		"tanh": {"bert", dense, `"activation_function": "torch.nn.modules.activation.Tanh",`, "",
			"a cat", 6, [2]float32{0.47045118, -0.55215359}},
	} {
		t.Run(name, func(t *testing.T) {
			_, e := open(t, edited(t, c.pack, c.file, c.old, c.text))
			got := vectors(t, e, []string{c.read}, embed.Options{})[0]
			require.Len(t, got, c.length)
			require.InDeltaSlice(t, c.want[:], got[:2], 1e-5)
			require.Len(t, vectors(t, e, []string{c.read}, embed.Options{Dimensions: 5})[0], 5)
		})
	}

	dir := edited(t, "roberta", settings, "", "") // as an older version called it
	require.NoError(t, os.Rename(filepath.Join(dir, settings),
		filepath.Join(dir, "sentence_xlm-roberta_config.json")))
	_, e := open(t, dir)
	got := vectors(t, e, []string{"THE"}, embed.Options{})[0]
	require.InDeltaSlice(t, []float32{1.8482959, 0.44819292}, got[:2], 1e-5)
}

// Settings that would give other vectors are refused by name.
func TestSettingsRefused(t *testing.T) {
	for _, c := range [][4]string{
		{dense, "{", `{"use_residual": true,`, "2_Dense/config.json: use_residual is true, want false"},
		{dense, `output_name": "sentence_embedding"`, `output_name": "other"`,
			`module_output_name is "other", want "sentence_emb`},
		{settings, "{", "{\"processing_kwargs\": {\n\"text\": {\"max_length\": 8}},",
			`processing_kwargs is { "text": {"max_length": 8}}, want {}`},
		{settings, "{", `{"tokenizer_args": {"truncation_side": "left"},`,
			"tokenizer_args is {"},
		{settings, "{", `{"config_kwargs": {"hidden_act": "relu"},`, "config_kwargs is {"},
		{settings, "{", `{"max_seq_length": -3,`, settings + ": max_seq_length is -3, want 0 to "},
		{settings, "{", `{"bend": 2,`, settings + ": bend is not known, want settings of "},
		{"tokenizer_config.json", "{", `{"truncation_side": "middle",`,
			`truncation_side is "middle", want `},
		{"config_sentence_transformers.json", "{", `{"truncate_dim": 0,`,
			"truncate_dim is 0, want 1 to "},
		{dense, "torch.nn.modules.activation.Tanh", "my.ReLU",
			`activation_function is "my.ReLU", want `},
	} {
		m, err := unmask.Load(t.Context(), edited(t, "bert", c[0], c[1], c[2]),
			unmask.Options{Threads: 1})
		require.NoError(t, err)
		_, err = embed.New(m)
		require.ErrorContains(t, err, c[3])
		require.NotContains(t, err.Error(), "\n")
	}
}

// Tokens one by one are at least one, also of what sentence-transformers makes a vector of.
func TestEachOfNone(t *testing.T) {
	_, e := open(t, "../testdata/packs/embed-bert-tiny")
	_, err := e.Tokenize(t.Context(), "\u200b", embed.Options{PerToken: true})
	refusal.RequireText(t, err, "text is empty")
	_, err = e.Tokenize(t.Context(), "\u200b", embed.Options{})
	require.NoError(t, err)
	_, e = open(t, edited(t, "bert", settings, "{", `{"max_seq_length": 2,`))
	_, err = e.Tokenize(t.Context(), "the", embed.Options{PerToken: true})
	refusal.RequireText(t, err, "text is empty")
}

// Vectors of weights that overflow are refused, whatever the pooling and the form: numbers that are
// not finite never leave.
func TestNumbersAreFinite(t *testing.T) {
	for _, pack := range []string{"embed-bert-tiny", "embed-roberta-tiny", "embed-modernbert-tiny"} {
		for _, value := range []float64{math.Inf(1), math.Inf(-1), 3e38} {
			m, err := unmask.Load(t.Context(), parity.Poison(t, pack, "embeddings.*weight", float32(value)),
				unmask.Options{Threads: 1})
			require.NoError(t, err)
			e, err := embed.New(m)
			require.NoError(t, err)
			for _, o := range []embed.Options{{}, {PerToken: true}, {Normalize: true}, {Dimensions: 2}} {
				text, err := e.Tokenize(t.Context(), "the dog", o)
				require.NoError(t, err)
				_, err = e.Embed(t.Context(), []*embed.Text{text}, o)
				require.ErrorContains(t, err, "want finite numbers", "%s with %v", pack, value)
			}
		}
	}
}

// A text is refused by its bytes before it is read into tokens, at the documented multiple of the
// model's length, and read at that length.
func TestTextsOfManyBytes(t *testing.T) {
	for _, name := range []string{"bert", "roberta", "modernbert"} {
		_, e := open(t, filepath.Join("../testdata/packs", "embed-"+name+"-tiny"))
		limit := e.MaxTextBytes()
		require.Equal(t, 256<<10, limit)
		text, err := e.Tokenize(t.Context(), strings.Repeat("the dog ", limit/8), embed.Options{})
		require.NoError(t, err)
		require.Positive(t, text.Truncated)
		for _, unit := range []string{"the dog ", " ", "\u00e9"} {
			_, err = e.Tokenize(t.Context(), strings.Repeat(unit, 24<<20/len(unit)), embed.Options{})
			refusal.RequireReason(t, err, "text", param.TooLong)
		}
	}
}

// A list of modules costs what its distinct files cost, and lists without end are refused: a matrix
// that is named again is read once, and one without rows is none.
func TestModulesAreBounded(t *testing.T) {
	const first = `"path": "2_Dense",`
	again := `"path": "2_Dense", "type": "x.Dense"}, {` + first
	write := func(rows, columns int) string {
		dir := edited(t, "bert", "modules.json", first, again)
		require.NoError(t, weights.WriteFile(filepath.Join(dir, "2_Dense", "model.safetensors"),
			[]weights.Tensor{{
				Name:  "linear.weight",
				DType: weights.F32,
				Shape: []int{rows, columns},
				Data:  make([]byte, 4*rows*columns),
			}}, nil))
		return dir
	}
	_, e := open(t, write(8, 8))
	require.Len(t, vectors(t, e, []string{"the dog"}, embed.Options{})[0], 8)

	many := strings.Repeat(`"path": "2_Dense", "type": "x.Dense"}, {`, 300) + first
	modes := `["` + strings.Repeat(`mean", "`, 1_000_000) + `mean"]`
	for want, dir := range map[string]string{
		"2_Dense: linear.weight does not fit": write(6, 8),
		"linear.weight does not":              write(0, 8),
		"modules, want at most 32":            edited(t, "bert", "modules.json", first, many),
		"pooling_mode has 1000001 names, want at most 6": edited(t, "bert", "1_Pooling/config.json",
			`"mean"`, modes),
	} {
		m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
		require.NoError(t, err)
		_, err = embed.New(m)
		require.ErrorContains(t, err, want)
	}
}

// Vectors are those of sentence-transformers 6.2 for texts that have what the vocabulary lacks, and
// for folders whose modules are elsewhere. That library saved testdata's folders and vectors.
func TestPublicReports(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, cases, 6)
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			var c struct {
				Model string
				Texts []string
				Want  [][]float64
			}
			require.NoError(t, json.Unmarshal(data, &c))
			_, e := open(t, filepath.Join("testdata", c.Model))
			got := vectors(t, e, c.Texts, embed.Options{})
			for i, want := range c.Want {
				for j := range want {
					require.InDelta(t, want[j], got[i][j], 1e-5, "%q", c.Texts[i])
				}
			}
		})
	}
}

// Unknown counts the unknown tokens of a text, as far as it is read: none beyond where it is cut.
func TestUnknownIsCounted(t *testing.T) {
	_, e := open(t, "testdata/bert") // 22 tokens of a text
	for text, want := range map[string]int{
		"the dog":                          0,
		"the 😀 dog 猫":                      2,
		strings.Repeat("the ", 21) + "猫 猫": 1,
	} {
		one, err := e.Tokenize(t.Context(), text, embed.Options{})
		require.NoError(t, err)
		require.Equal(t, want, one.Unknown, text)
	}
}
