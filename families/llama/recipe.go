package llama

import (
	"cmp"
	"fmt"
	"strings"

	"unmask/model"
)

// defaultRecipe returns the run that a model was published with, in the shortest text for
// generate.ParseRecipe.
func (c *Config) defaultRecipe() string {
	if presets := c.allPresets(); presets != nil {
		return cmp.Or(presets[""], presets["ar"])
	}
	recipe := c.kind.recipe
	if strings.Contains(recipe, "%d") {
		recipe = fmt.Sprintf(recipe, c.Block)
		recipe = strings.Replace(recipe, "fast-dllm-v2(block=32)", "fast-dllm-v2", 1) // the default
	}
	return recipe
}

// isLeftToRight reports whether the model has only left-to-right decoding.
func (c *Config) isLeftToRight() bool { return c.Causal == model.NextToken && c.Block == 1 }

// nemotronMode is the mode of Nemotron-Labs-Diffusion that runs by default: on a CPU the fastest,
// at the rates that its authors report (tools/peers/replies; docs/models.md has the figures).
const nemotronMode = "self-speculation"

// allPresets returns the runs of models with several, by name; "" is the default.
func (c *Config) allPresets() map[string]string {
	const leftToRight = "low-confidence reuse=causal block-size=1"
	switch {
	case c.isLeftToRight():
		return map[string]string{"ar": leftToRight}
	case c.Causal == model.NextToken:
		// chat.py of the repository. Its drafts are blocks of 32; on a CPU a pass over 8 rows costs
		// little more than one over a single row, and one over 32 much more.
		modes := map[string]string{"ar": leftToRight,
			"self-speculation": "self-speculation reuse=causal",
			"diffusion":        "greedy(threshold) reuse=causal"}
		modes[""] = modes[nemotronMode]
		return modes
	case c.Causal == model.MasksLast:
		// The decoder of Tencent's engine, and generate of the program on the hub.
		return map[string]string{"": "wedlm(temperature=0.2) reuse=causal",
			"engine": "wedlm(temperature=0.2) reuse=causal",
			"hub":    "greedy(confidence) reuse=causal block-size=16"}
	case c.Growth != nil:
		// generation_utils.py of the repository, and its evaluation of infilling.
		return map[string]string{"": "dreamon temperature=0.2 top-p=0.9",
			"hub":        "dreamon temperature=0.2 top-p=0.9",
			"evaluation": "dreamon(budget=64, spill=1) temperature=0.2 top-p=0.9"}
	}
	return nil
}

// namedPresets returns the presets that have a name.
func (c *Config) namedPresets() map[string]string {
	presets := c.allPresets()
	delete(presets, "")
	return presets
}
