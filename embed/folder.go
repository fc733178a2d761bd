package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"unmask/model"
	"unmask/tokenizers"
	"unmask/weights"
)

// folder is what the files of sentence-transformers say (version 6.2 and older ones).
type folder struct {
	longest     int  // tokens of a text with those around it, 0 for the model's
	lower       bool // texts are made lower-case first
	modes       []string
	promptApart bool // a prompt's tokens are not pooled
	layers      []layer
	prompts     map[string]string
	usual       string // name of the prompt where none is asked for
}

// layer is what a pooled vector goes through: a matrix or, without one, a division by its length.
type layer struct {
	weight, bias []float32 // [out, in], [out] or nil
	activate     func(float64) float64
}

// modes are the names of the ways to pool states that are read.
var modes = []string{"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"}

// readFolder reads the files beside a model, nil where there is no modules.json.
func readFolder(files fs.FS, width int) (*folder, error) {
	var modules []struct{ Type, Path string }
	if found, err := readJSON(files, "modules.json", &modules); !found {
		return nil, err
	}
	f := &folder{}
	for i, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		var err error
		switch {
		case i == 0 && kind == "Transformer" && m.Path == "":
			err = f.readTransformer(files)
		case i == 1 && kind == "Pooling":
			err = f.readPooling(files, m.Path)
			width *= len(f.modes)
		case i > 1 && kind == "Normalize":
			f.layers = append(f.layers, layer{})
		case i > 1 && kind == "Dense":
			width, err = f.readDense(files, m.Path, width)
		default:
			err = fmt.Errorf("modules.json: module %d is %.60q in %q, want Transformer beside it, Pooling, "+
				"and then Dense or Normalize", i, m.Type, m.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	if f.modes == nil {
		return nil, fmt.Errorf("modules.json has %d modules, want Transformer and Pooling", len(modules))
	}
	var config struct {
		Prompts map[string]string `json:"prompts"`
		Usual   *string           `json:"default_prompt_name"`
	}
	_, err := readJSON(files, "config_sentence_transformers.json", &config)
	if f.prompts = config.Prompts; config.Usual != nil {
		f.usual = *config.Usual
	}
	if _, ok := f.prompts[f.usual]; f.usual != "" && !ok {
		err = errors.Join(err, fmt.Errorf("default_prompt_name is %.60q, want one of prompts", f.usual))
	}
	return f, err
}

// readJSON reads a file of JSON, and reports false if there is none.
func readJSON(files fs.FS, name string, to any) (found bool, err error) {
	data, err := model.ReadFile(files, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// readTransformer reads how long texts may be: as tokenizer_config.json says since version 6.
func (f *folder) readTransformer(files fs.FS) error {
	var own struct {
		Longest *int `json:"max_seq_length"`
		Lower   bool `json:"do_lower_case"`
	}
	if _, err := readJSON(files, "sentence_bert_config.json", &own); err != nil {
		return err
	}
	if f.lower = own.Lower; own.Longest != nil {
		f.longest = *own.Longest
		return nil
	}
	var config struct {
		Longest float64 `json:"model_max_length"` // 1e30 for none
	}
	_, err := readJSON(files, "tokenizer_config.json", &config)
	f.longest = int(min(config.Longest, 1<<30))
	return err
}

// readPooling reads the ways to pool: a name, a list of names or, in older files, a flag of each.
func (f *folder) readPooling(files fs.FS, dir string) error {
	name := path.Join(dir, "config.json")
	config := map[string]json.RawMessage{}
	if found, err := readJSON(files, name, &config); !found || err != nil {
		return errors.Join(err, fmt.Errorf("%s: want the ways to pool", name))
	}
	var one string
	switch raw := config["pooling_mode"]; {
	case raw == nil:
		for _, mode := range modes {
			on := false
			old := "pooling_mode_" + mode + map[string]string{"cls": "_token", "max": "_tokens",
				"mean": "_tokens", "weightedmean": "_tokens"}[mode]
			if json.Unmarshal(config[old], &on) == nil && on {
				f.modes = append(f.modes, mode)
			}
		}
	case json.Unmarshal(raw, &one) == nil:
		f.modes = []string{one}
	case json.Unmarshal(raw, &f.modes) != nil:
	}
	for _, mode := range f.modes {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("%s: pooling_mode is %.40q, want %s", name, mode, strings.Join(modes, ", "))
		}
	}
	if f.modes == nil {
		return fmt.Errorf("%s: pooling_mode is missing, want %s", name, strings.Join(modes, ", "))
	}
	include := true
	if raw := config["include_prompt"]; raw != nil && json.Unmarshal(raw, &include) != nil {
		return fmt.Errorf("%s: include_prompt is %.40s, want true or false", name, raw)
	}
	f.promptApart = !include
	return nil
}

// readDense reads a matrix for vectors of a width, and returns the width after it.
func (f *folder) readDense(files fs.FS, dir string, width int) (int, error) {
	var config struct {
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
	}
	_, err := readJSON(files, path.Join(dir, "config.json"), &config)
	sub, failed := fs.Sub(files, dir)
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	name := config.Activation[strings.LastIndexByte(config.Activation, '.')+1:]
	activate, ok := activations[name]
	if !ok || config.Input != "" && config.Input != "sentence_embedding" {
		return 0, fmt.Errorf("%s: activation_function is %.60q of %q, want Identity, Tanh, ReLU, GELU or "+
			"Sigmoid of sentence_embedding", dir, config.Activation, config.Input)
	}
	set, err := weights.OpenFS(sub, ".")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	defer set.Close()
	one := layer{activate: activate}
	t, ok := set.Get("linear.weight")
	if !ok || len(t.Shape) != 2 || t.Shape[1] != width {
		return 0, fmt.Errorf("%s: linear.weight does not fit, want a matrix for %d numbers", dir, width)
	}
	if one.weight, err = t.Floats(); err != nil {
		return 0, err
	}
	if b, ok := set.Get("linear.bias"); ok {
		if one.bias, err = b.Floats(); err == nil && len(one.bias) != t.Shape[0] {
			err = fmt.Errorf("%s: linear.bias has %d numbers, want %d", dir, len(one.bias), t.Shape[0])
		}
	}
	f.layers = append(f.layers, one)
	return t.Shape[0], err
}

// around returns the tokens that stand before and after every text.
func around(t tokenizers.Tokenizer, spec model.Spec) (before, after []int32) {
	if spec.Around() > 0 {
		return spec.Before, spec.After
	}
	return tokenizers.Around(t)
}
