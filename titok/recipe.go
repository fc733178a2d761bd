package titok

// Published settings (1d-tokenizer, README_TiTok.md and configs/infer/TiTok). In the authors'
// evaluation of 50,000 images they give Frechet distances of 2.77, 2.48 and 1.97.
const (
	recipeL32  = "titok(noise=9.5) schedule=titok steps=8 guidance=4.5 guidance-schedule=linear"
	recipeB64  = "titok(noise=11) schedule=titok steps=8 guidance=3 guidance-schedule=linear"
	recipeS128 = "titok(noise=2.8) schedule=titok steps=64 guidance=6.9 guidance-schedule=power-cosine"
)

// recipe returns the published settings of the generator of the nearest size.
func (c Config) recipe() string {
	switch {
	case c.Kind == "UViT":
		return recipeS128
	case c.Tokens > 32:
		return recipeB64
	}
	return recipeL32
}
