package encoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"unmask/internal/atomicfile"
	"unmask/model"
	"unmask/tokenizers"
	"unmask/weights"
)

// genmol is the kind of GenMol (Lee et al. 2025, "GenMol: A Drug Discovery Generalist with Discrete
// Diffusion"): a BERT over SAFE, in which a molecule is a row of fragments.
const genmol = "genmol"

// genmolCompanions are the repositories with the tokenizer, which is SAFE's and in no file of
// GenMol's own.
var genmolCompanions = map[string]map[string]string{
	"nvidia/NV-GenMol-89M-v1": {model.TokenizerFolder: "datamol-io/safe-gpt"},
	"nvidia/NV-GenMol-89M-v2": {model.TokenizerFolder: "datamol-io/safe-gpt"},
}

// genmolHidden are [UNK] and [PAD], which may be drawn and are not shown.
var genmolHidden = []int32{0, 3}

// fillers are the tokens that may be drawn and are no content.
func (c *Config) fillers() []int32 {
	if c.family.name == genmol {
		return genmolHidden
	}
	return nil
}

// The numbers of masks of a molecule from nothing, of each version, and behind a fragment. The
// authors draw them: they take a length from those of 249,455 molecules, without the fragment's
// tokens, but at least these (and 18 behind a fragment). The lengths have a mean of 49, and 95 % of
// them are at most 65.
const (
	genmolFirstLength  = 40
	genmolSecondLength = 60
	genmolFill         = 30
)

// textLength returns the number of positions of a text whose length nobody says; 0 for the usual
// rule.
func (c *Config) textLength() int {
	switch {
	case c.family.name != genmol:
		return 0
	case c.BracketSafe:
		return genmolSecondLength
	}
	return genmolFirstLength
}

// genmolTask is a published run of GenMol's.
type genmolTask struct {
	noise       float64 // of the choice, which falls from step to step
	temperature float64 // of tokens

	// context is the share of the known tokens that guidance leaves out; 0 for no guidance.
	context float64
}

// genmolPresets are the published settings of GenMol's tasks (scripts/exps of the authors). One
// position opens in each step. Guidance is of weight 2 in logits u + 2(c-u).
func (c *Config) genmolPresets() map[string]string {
	tasks := map[string]genmolTask{
		"de-novo":             {noise: 0.5, temperature: 0.5},
		"linker":              {noise: 3, temperature: 1.2},
		"motif-extension":     {noise: 1.2, temperature: 1.2, context: 0.3},
		"scaffold-decoration": {noise: 2, temperature: 1.2, context: 0.3},
		"superstructure":      {noise: 2, temperature: 1.2, context: 0.4},
	}
	if c.BracketSafe {
		tasks["de-novo"] = genmolTask{noise: 0.3, temperature: 1}
		tasks["motif-extension"] = genmolTask{noise: 1, temperature: 1.2, context: 0.3}
		tasks["scaffold-decoration"] = genmolTask{noise: 2, temperature: 1.5, context: 0.3}
		tasks["superstructure"] = genmolTask{noise: 2, temperature: 1.5, context: 0.4}
	}
	presets := map[string]string{}
	for name, task := range tasks {
		presets[name] = fmt.Sprintf("amused(noise=%g) steps=256 temperature=%g", task.noise,
			task.temperature)
		if task.context > 0 {
			presets[name] += fmt.Sprintf(" guidance=1 guidance-share=%g", task.context)
		}
	}
	return presets
}

// readGenMol reads the settings that convert finds in a checkpoint of GenMol's.
func (c *Config) readGenMol(f *model.Values, set *weights.Set) {
	c.readBERT(f, set)
	c.BracketSafe = f.Bool("bracket_safe", false)
	if weightSet := f.Text("unmask_weights"); weightSet != "ema" {
		c.Notes = append(c.Notes, "these are not the averaged weights (EMA), which the authors sample")
	}
}

// genmolTokenizer returns SAFE's tokenizer, from beside the weights or from its own repository. The
// second version's has < and > behind the tokens of the file.
func genmolTokenizer(src *model.Source, c *Config) (tokenizers.Tokenizer, string, error) {
	const name = "tokenizer.json"
	data, err := tokenizers.ReadFile(src.Files, name, tokenizers.MaxFile)
	if errors.Is(err, fs.ErrNotExist) && src.LocateFolder != nil {
		dir, locateErr := src.LocateFolder(model.TokenizerFolder)
		if locateErr != nil {
			return nil, "", locateErr
		}
		if dir != "" {
			data, err = tokenizers.ReadFile(atomicfile.DirFS(dir), name, tokenizers.MaxFile)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if data, err = addBrackets(data, c); err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	t, err := tokenizers.Parse(data)
	if err != nil {
		return nil, "", err
	}
	for id, want := range genmolSpecial { // another tokenizer would make other molecules, in silence
		if text, _ := t.Token(int32(id)); text != want {
			return nil, "", fmt.Errorf("%s: token %d is %.20q, want SAFE's %q", name, id, text, want)
		}
	}
	return t, name, nil
}

// genmolSpecial are the special tokens of the network by their ids.
var genmolSpecial = []string{"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"}

// addBrackets returns a tokenizer.json with < and > as the last two tokens of the head, if the
// model has them and the file does not.
func addBrackets(data []byte, c *Config) ([]byte, error) {
	if !c.BracketSafe {
		return data, nil
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var added []map[string]any
	if err := json.Unmarshal(file["added_tokens"], &added); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	for _, token := range added {
		if token["content"] == "<" || token["content"] == ">" {
			return data, nil
		}
	}
	added = append(added, map[string]any{"id": c.VocabRows - 2, "content": "<"},
		map[string]any{"id": c.VocabRows - 1, "content": ">"})
	list, err := json.Marshal(added)
	if err != nil {
		return nil, err
	}
	file["added_tokens"] = list
	return json.Marshal(file)
}
