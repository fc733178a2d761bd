package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Facts are the keys of config.json that name a network.
type Facts struct {
	// Type is model_type.
	Type string

	// Classes are architectures, and the names in auto_map.
	Classes []string
}

// Facts reads the keys that name the network. Keys of another form than transformers writes say
// nothing.
func (s *Source) Facts() (f Facts) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(s.Config, &keys)
	_ = json.Unmarshal(keys["model_type"], &f.Type)
	_ = json.Unmarshal(keys["architectures"], &f.Classes)
	var auto map[string]any
	_ = json.Unmarshal(keys["auto_map"], &auto)
	for _, name := range auto {
		f.Classes = append(f.Classes, fmt.Sprint(name))
	}
	return f
}

// Mentions reports whether a class, or a file of the authors' program, has part in its name.
func (f Facts) Mentions(part string) bool {
	return slices.ContainsFunc(f.Classes, func(c string) bool { return strings.Contains(c, part) })
}

// AutoregressiveReason is why a model of text is not read.
const AutoregressiveReason = "an autoregressive model, or one whose config.json does not say how it runs"

// unread are published networks that no format computes, though some have the model_type or the
// tensors of one that is read: by model_type, by a part of a class's name or by the end of a
// tensor's name.
var unread = []struct{ model, kinds, class, tensor, why string }{
	{
		model: "DPLM-2",
		kinds: "dplm2",
		class: "DPLM2",
		why: "residues and structure in one sequence, " +
			"with positions that begin again for each",
	},
	{
		model:  "ESM3",
		kinds:  "esm3",
		class:  "ESM3",
		tensor: "encoder.sequence_embed.weight",
		why:    "tracks of sequence, structure and function",
	},
	{
		model: "ESM++",
		kinds: "ESMplusplus",
		class: "ESMplusplus",
		why:   "a copy of ESM-C under other names",
	},
	{
		model: "BD3-LM",
		kinds: "bd3lm",
		class: "BD3LM",
		why:   "a network that reads a clean copy of the text beside the masked one",
	},
	{
		model: "DUO",
		kinds: "DUO duo",
		class: "DUO",
		why: "uniform state: texts begin as random tokens, " +
			"not as masks",
	},
	{
		model: "UDLM",
		kinds: "udlm",
		class: "UDLM",
		why: "uniform state: texts begin as random tokens, " +
			"not as masks",
	},
	{
		model: "DiffusionGemma",
		kinds: "diffusion_gemma diffusion_gemma_text",
		class: "DiffusionGemma",
		why:   "not masked: a canvas begins as random tokens",
	},
	{model: "ReFusion", kinds: "refusion", class: "ReFusion", why: "slots are filled left to right"},
	{model: "DiffuLLaMA", class: "DiffuLLaMA", why: "its mask is in none of its files"},
	{model: "DiffuGPT", class: "DiffuGPT", why: "its mask is in none of its files"},
	{
		model: "Nemotron-Diffusion-Research",
		class: "DiffEncoderModel",
		why:   "the names of its tensors are not known",
	},
	{
		model: "Nemotron-Labs-Diffusion with pictures",
		kinds: "nemotron_labs_diffusion_vlm",
		why:   "pictures are not read",
	},
	{
		model: "LFM2.5-Prompt-Router",
		class: "Lfm2BidirForSequenceRouting",
		why:   "a network that chooses where a prompt goes, and fills no masks",
	},
	{
		model: "LFM2.5-Policy-Linter",
		class: "Lfm2BidirForRuleMatching",
		why:   "a network that marks parts of a text, and fills no masks",
	},
	{model: "LFM2", class: "Lfm2ForCausalLM", why: AutoregressiveReason},
	{
		model: "this model",
		kinds: "qwen3 qwen3_moe qwen2_moe mistral mixtral gemma gemma2 gemma3 phi " +
			"phi3 gpt2 gpt_neox olmo olmo2 olmoe deepseek_v2 deepseek_v3",
		why: AutoregressiveReason,
	},
}

// checkUnread returns an error for a network that is known and not read.
func checkUnread(src *Source, facts Facts) error {
	for _, u := range unread {
		byType := facts.Type != "" && slices.Contains(strings.Fields(u.kinds), facts.Type)
		byClass := u.class != "" && facts.Mentions(u.class)
		byTensor := u.tensor != "" && src.HasTensor(u.tensor)
		if byType || byClass || byTensor {
			class := append(facts.Classes, "no architectures")[0]
			return fmt.Errorf("%s is not read (model_type %q, %s): it is %s", u.model, facts.Type, class,
				u.why)
		}
	}
	return nil
}

// formatOf returns the format that reads a source: the one that has its kind or, where config.json
// names none, the one whose tensors it has. The kind comes first because networks that compute
// different things may have tensors of the same names.
func formatOf(src *Source) (*Format, error) {
	kind := src.KindOverride
	if kind == "" {
		facts := src.Facts()
		if err := checkUnread(src, facts); err != nil {
			return nil, err
		}
		kind = facts.Type
	}
	var kinds, names []string
	for i := range formats {
		f := &formats[i]
		if kind != "" && slices.Contains(f.Kinds, kind) {
			return f, nil
		}
		byTensors := src.KindOverride == "" && (kind == "" || f.Kinds == nil)
		if byTensors && f.Match(src) {
			return f, nil
		}
		kinds = append(kinds, f.Kinds...)
		names = append(names, f.Name)
	}
	slices.Sort(kinds)
	slices.Sort(names)
	list := strings.Join(slices.Compact(kinds), ", ")
	switch {
	case src.KindOverride != "":
		return nil, fmt.Errorf("as is %.60q, want %s", src.KindOverride, list)
	case kind != "":
		return nil, fmt.Errorf("config.json: model_type is %.60q, want %s; a model that is like one of "+
			"these can be read as that (--as)", kind, list)
	}
	return nil, fmt.Errorf("neither config.json nor the tensors' names are of a known architecture, "+
		"want %s", strings.Join(names, ", "))
}
