package titok

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The run of a config.json is the generator's; without it, that of the nearest published size is.
func TestRecipe(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"B-64's", `{"num_steps": 8, "randomize_temperature": 11, "guidance_scale": 3,
			"guidance_decay": "linear"}`, recipeB64},
		{"S-128's", `{"num_steps": 64, "randomize_temperature": 2.8, "guidance_scale": 6.9,
			"guidance_decay": "power-cosine"}`, recipeS128},
		{"constant", `{"num_steps": 8, "randomize_temperature": 1.0, "guidance_scale": 4.5,
			"guidance_decay": "constant"}`, "titok(noise=1) schedule=titok steps=8 guidance=4.5"},
		{"no noise, no guidance", `{"num_steps": 12, "randomize_temperature": 0.0,
			"guidance_scale": 0}`, "titok(tokens=likeliest) schedule=titok steps=12"},
		{"none", `{}`, recipeL32},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r publishedRun
			require.NoError(t, json.Unmarshal([]byte(c.config), &r))
			text, err := Config{Kind: "ViT", Tokens: 32}.publishedRecipe(r)
			require.NoError(t, err)
			require.Equal(t, c.want, text)
		})
	}
}
