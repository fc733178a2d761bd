package titok

import (
	"fmt"
	"slices"
	"strings"
)

// Published settings (1d-tokenizer, README_TiTok.md and configs/infer/TiTok). In the authors'
// evaluation of 50,000 images they give Frechet distances of 2.77, 2.48 and 1.97.
const (
	recipeL32  = "titok(noise=9.5) schedule=titok steps=8 guidance=4.5 guidance-schedule=linear"
	recipeB64  = "titok(noise=11) schedule=titok steps=8 guidance=3 guidance-schedule=linear"
	recipeS128 = "titok(noise=2.8) schedule=titok steps=64 guidance=6.9 guidance-schedule=power-cosine"
)

// guidanceDecays are guidance_decay's values.
var guidanceDecays = []string{"", "constant", "linear", "power-cosine"}

// publishedRecipe returns the run of a config.json or, where it has none, the published settings of
// the generator of the nearest size.
func (c Config) publishedRecipe(r publishedRun) (string, error) {
	switch {
	case !slices.Contains(guidanceDecays, r.Decay):
		return "", fmt.Errorf("config.json: guidance_decay is %.40q, want %s", r.Decay,
			strings.Join(guidanceDecays[1:], ", "))
	case r.Steps != nil && r.Noise != nil && r.Scale != nil:
		noise := "tokens=likeliest" // the same as without noise
		if *r.Noise != 0 {
			noise = fmt.Sprintf("noise=%v", *r.Noise)
		}
		text := fmt.Sprintf("titok(%s) schedule=titok steps=%d", noise, *r.Steps)
		if *r.Scale != 0 {
			text += fmt.Sprintf(" guidance=%v", *r.Scale)
		}
		if *r.Scale != 0 && slices.Index(guidanceDecays, r.Decay) > 1 {
			text += " guidance-schedule=" + r.Decay
		}
		return text, nil
	case c.Kind == "UViT":
		return recipeS128, nil
	case c.Tokens > 32:
		return recipeB64, nil
	}
	return recipeL32, nil
}
