package llama

import (
	"fmt"
	"path/filepath"
	"strings"
)

// published returns the run that a model was published with, in the shortest text for
// generate.ParseRecipe.
func (c *Config) published(name, kind string) string {
	switch {
	case kind == "Dream" && c.Block == 0:
		// README of Dream-org/Dream-v0-Instruct-7B, but with one step per token, as in its chat
		// demo, instead of 512.
		return "entropy schedule=dream steps=128 temperature=0.2 top-p=0.95"
	case kind == "Fast_dLLM_Qwen":
		// generate of the model's repository: small blocks of 8, threshold 0.9.
		if c.Block != 32 {
			return fmt.Sprintf("fast-dllm-v2(block=%d) reuse=blocks", c.Block)
		}
		return "fast-dllm-v2 reuse=blocks"
	case kind == "llada2_moe" && strings.Contains(filepath.Base(name), "2.1"):
		return "edit reuse=blocks" // thresholds 0.9: the quality mode
	case kind == "llada2_moe":
		return fmt.Sprintf("dynamic(theta=0.95) schedule=llada steps=%d reuse=blocks", c.Block)
	case kind == "sdar":
		return fmt.Sprintf("dynamic(theta=0.85) schedule=llada steps=%d reuse=blocks", c.Block)
	case c.Block > 0:
		return fmt.Sprintf("dynamic schedule=llada steps=%d reuse=blocks", c.Block)
	}
	return "semi-ar(low-confidence) schedule=llada steps=128" // generate.py of LLaDA: blocks of 32
}
