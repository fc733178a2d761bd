package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"unmask/model"
	"unmask/tokenizers"
	"unmask/weights"
)

// folder is what the files of sentence-transformers say (version 6.2 and older ones).
type folder struct {
	// ownTokensOnly is true without such files: a text's vector is the mean of its own tokens.
	ownTokensOnly bool

	// maxTokens is the most tokens of a text with those around it, 0 if the files do not say.
	maxTokens int

	// truncateLeft drops the beginning of a text that is too long, not its end.
	truncateLeft bool

	// lowercase makes texts lower-case before they are tokenized.
	lowercase bool

	// poolings are some of knownPoolings, whose vectors are concatenated.
	poolings []string

	// excludePrompt leaves the tokens of a prompt out of the pooling.
	excludePrompt bool

	layers []layer

	// dense are the matrices that were read, by their folder: a list that names one again costs no
	// more memory.
	dense map[string]layer

	// dimensions is how many numbers of a vector are kept.
	dimensions int

	prompts       map[string]string
	defaultPrompt string
}

// layer is applied to a pooled vector: a matrix or, without one, a division by the vector's length.
type layer struct {
	weight   []float32 // [rows, in], nil for a division
	rows     int       // of weight
	bias     []float32 // [rows] or nil
	activate func(float64) float64
}

// knownPoolings are the names of the ways to pool states that are read.
var knownPoolings = []string{
	"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken",
}

// unlimited is more than a vector has numbers and a text has tokens.
const unlimited = 1 << 30

// maxModules is more modules than a published folder has. Each costs time for every text.
const maxModules = 32

// readFiles reads the files beside a model, none where there is no modules.json.
func (f *folder) readFiles(files fs.FS, width int) error {
	var modules []struct {
		Type string
		Path string
	}
	if exists, err := readJSON(files, "modules.json", &modules); !exists || err != nil {
		return err
	}
	if len(modules) > maxModules {
		return fmt.Errorf("modules.json has %d modules, want at most %d", len(modules), maxModules)
	}
	f.ownTokensOnly = false
	f.poolings = nil
	for i, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		var err error
		switch {
		case i == 0 && kind == "Transformer": // files has those of its folder first
			err = f.readTransformer(files)
		case i == 1 && kind == "Pooling":
			err = f.readPooling(files, m.Path)
			width *= len(f.poolings)
		case i > 1 && kind == "Normalize":
			f.layers = append(f.layers, layer{})
		case i > 1 && kind == "Dense":
			width, err = f.readDense(files, m.Path, width)
		default:
			err = fmt.Errorf("modules.json: module %d is %.200q in %q, want Transformer, Pooling, and then "+
				"Dense or Normalize", i, m.Type, m.Path)
		}
		if err != nil {
			return err
		}
	}
	if f.poolings == nil {
		return fmt.Errorf("modules.json has %d modules, want Transformer and Pooling", len(modules))
	}
	v := readValues(files, "config_sentence_transformers.json")
	v.Read("prompts", &f.prompts, "texts by name")
	f.defaultPrompt = v.Text("default_prompt_name")
	f.dimensions = v.BoundedInt("truncate_dim", unlimited, 1, unlimited)
	if _, ok := f.prompts[f.defaultPrompt]; f.defaultPrompt != "" && !ok {
		v.Fail("default_prompt_name is %.60q, want one of prompts", f.defaultPrompt)
	}
	return v.Err
}

// readValues reads the keys of a file, which are none if there is no file.
func readValues(files fs.FS, name string) *model.Values {
	v := &model.Values{Path: name}
	_, v.Err = readJSON(files, name, &v.Keys)
	return v
}

// readJSON reads a file of JSON, and reports false if there is none.
func readJSON(files fs.FS, name string, value any) (exists bool, err error) {
	data, err := model.ReadFile(files, name, tokenizers.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// readTransformer reads how texts are cut and made lower-case, by the first file of settings that
// has any (Transformer.load_config) and by the tokenizer's. Settings that do more are refused.
func (f *folder) readTransformer(files fs.FS) error {
	t := readValues(files, "tokenizer_config.json")
	v := &model.Values{}
	direction := readValues(files, "tokenizer.json").Object("truncation").Text("direction")
	side := cmp.Or(t.Text("truncation_side"), strings.ToLower(direction), "right")
	f.truncateLeft = side == "left"
	if !f.truncateLeft && side != "right" {
		t.Fail("truncation_side is %.40q, want left or right", side)
	}
	for i := 0; i < len(weights.SentenceTransformerFiles) && len(v.Keys) == 0 && v.Err == nil; i++ {
		v = readValues(files, weights.SentenceTransformerFiles[i])
	}
	longest := min(t.PositiveNumber("model_max_length", unlimited), unlimited) // 1e30 for none
	f.maxTokens = v.BoundedInt("max_seq_length", int(longest), 0, unlimited)
	f.lowercase = v.Bool("do_lower_case", false)
	empty := map[string]any{}
	v.RequireValues(map[string]any{
		"transformer_task":  "feature-extraction",
		"processing_kwargs": empty,
		"modality_config": map[string]any{
			"text": map[string]any{
				"method":             "forward",
				"method_output_name": "last_hidden_state",
			},
		},
		"module_output_name":     "token_embeddings",
		"model_args":             empty,
		"tokenizer_args":         empty,
		"config_args":            empty,
		"model_kwargs":           empty,
		"processor_kwargs":       empty,
		"config_kwargs":          empty,
		"tokenizer_name_or_path": nil,
	})
	// how the network computes padding, and lengths for a task that embed does not name
	knownKeys := append(v.Seen, "unpad_inputs", "query_length", "document_length", "query_expansion")
	for _, key := range slices.Sorted(maps.Keys(v.Keys)) {
		if !slices.Contains(knownKeys, key) {
			v.Fail("%.60s is not known, want settings of sentence-transformers 6.2", key)
		}
	}
	return cmp.Or(t.Err, v.Err)
}

// readPooling reads the ways to pool: a name, a list of names or, in older files, a flag of each.
func (f *folder) readPooling(files fs.FS, dir string) error {
	v := readValues(files, path.Join(dir, "config.json"))
	var single string
	switch raw := v.Keys["pooling_mode"]; {
	case raw == nil:
		for _, mode := range knownPoolings {
			old := "pooling_mode_" + mode + map[string]string{
				"cls":          "_token",
				"max":          "_tokens",
				"mean":         "_tokens",
				"weightedmean": "_tokens",
			}[mode]
			if v.Bool(old, false) {
				f.poolings = append(f.poolings, mode)
			}
		}
	case json.Unmarshal(raw, &single) == nil:
		f.poolings = []string{single}
	default:
		v.Read("pooling_mode", &f.poolings, "a name or a list of names")
	}
	if len(f.poolings) > len(knownPoolings) {
		v.Fail("pooling_mode has %d names, want at most %d", len(f.poolings), len(knownPoolings))
		return v.Err
	}
	for _, mode := range f.poolings {
		if !slices.Contains(knownPoolings, mode) {
			v.Fail("pooling_mode is %.40q, want %s", mode, strings.Join(knownPoolings, ", "))
		}
	}
	if f.poolings == nil {
		v.Fail("pooling_mode is missing, want %s", strings.Join(knownPoolings, ", "))
	}
	f.excludePrompt = !v.Bool("include_prompt", true)
	return v.Err
}

// readDense reads a matrix for vectors of a width, and returns the width after it.
func (f *folder) readDense(files fs.FS, dir string, width int) (int, error) {
	if loaded, ok := f.dense[path.Clean(dir)]; ok {
		if len(loaded.weight) != loaded.rows*width {
			return 0, noMatrix(dir, width)
		}
		f.layers = append(f.layers, loaded)
		return loaded.rows, nil
	}
	v := readValues(files, path.Join(dir, "config.json"))
	v.RequireValues(map[string]any{
		"module_input_name":  "sentence_embedding",
		"module_output_name": "sentence_embedding",
		"use_residual":       false,
	})
	kind := cmp.Or(v.Text("activation_function"), "torch.nn.Tanh")
	activate, ok := activations[kind[strings.LastIndexByte(kind, '.')+1:]]
	if !ok || !strings.HasPrefix(kind, "torch.") {
		v.Fail("activation_function is %.60q, want Identity, Tanh, ReLU, GELU or Sigmoid of torch", kind)
	}
	sub, err := fs.Sub(files, dir)
	err = cmp.Or(v.Err, err)
	if err != nil {
		return 0, err
	}
	set, err := weights.OpenFS(sub, ".")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	defer set.Close()
	dense := layer{activate: activate}
	t, ok := set.Get("linear.weight")
	if !ok || len(t.Shape) != 2 || t.Shape[1] != width || t.Shape[0] == 0 {
		return 0, noMatrix(dir, width)
	}
	dense.rows = t.Shape[0]
	dense.weight, err = t.Floats()
	if err != nil {
		return 0, err
	}
	if b, ok := set.Get("linear.bias"); ok {
		dense.bias, err = b.Floats()
		if err == nil && len(dense.bias) != t.Shape[0] {
			err = fmt.Errorf("%s: linear.bias has %d numbers, want %d", dir, len(dense.bias), t.Shape[0])
		}
	}
	f.layers = append(f.layers, dense)
	if f.dense == nil {
		f.dense = map[string]layer{}
	}
	f.dense[path.Clean(dir)] = dense
	return dense.rows, err
}

// noMatrix is the error of a folder without a matrix for vectors of a width.
func noMatrix(dir string, width int) error {
	return fmt.Errorf("%s: linear.weight does not fit, want a matrix for %d numbers", dir, width)
}

// surroundingTokens returns the tokens that stand before and after every text.
func surroundingTokens(t tokenizers.Tokenizer, spec model.Spec) (prefix, suffix []int32) {
	if spec.SpecialCount() > 0 {
		return spec.BeforeText, spec.AfterText
	}
	return tokenizers.SurroundingTokens(t)
}
