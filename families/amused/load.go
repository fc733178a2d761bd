package amused

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"unmask/backend"
	"unmask/media/codecs/clip"
	"unmask/media/codecs/vq"
	"unmask/model"
	"unmask/weights"
)

// recipe is the published run (diffusers, pipelines/amused): 12 steps, guidance u + 10(c-u).
const recipe = "amused schedule=amused steps=12 guidance=9"

// inpainting is the published run for inpainting, whose schedule is linear.
const inpainting = "amused schedule=linear steps=12 guidance=9"

// className returns the class in the configuration of the transformer or of the pipeline.
func className(src *model.Source) string { return src.ConfigValues().Text("_class_name") }

// matchesSource reports whether a folder has aMUSEd, alone or in one of diffusers' pipelines.
func matchesSource(src *model.Source) bool {
	switch className(src) {
	case "UVit2DModel", "AmusedPipeline", "AmusedImg2ImgPipeline", "AmusedInpaintPipeline":
		return true
	}
	return false
}

// openTransformer returns a copy of src with the transformer's configuration, which a pipeline has
// in a folder of its own.
func openTransformer(src *model.Source) (*model.Source, error) {
	t := *src
	if className(src) == "UVit2DModel" {
		return &t, nil
	}
	const name = "transformer/config.json"
	config, err := model.ReadFile(src.Files, name, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t.Config = config
	return &t, nil
}

// readRecipe returns the run of a pipeline whose scheduler is in its folder.
func readRecipe(src *model.Source, mask int) (string, error) {
	const name = "scheduler/scheduler_config.json"
	f := struct {
		Mask     int    `json:"mask_token_id"`
		Schedule string `json:"masking_schedule"`
	}{mask, "cosine"}
	data, err := model.ReadFile(src.Files, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return recipe, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case f.Mask != mask:
		return "", fmt.Errorf("%s: mask_token_id is %d, want %d, the last embedding", name, f.Mask, mask)
	case f.Schedule == "linear":
		return inpainting, nil
	case f.Schedule != "cosine":
		return "", fmt.Errorf("%s: masking_schedule is %.40q, want cosine or linear", name, f.Schedule)
	}
	return recipe, nil
}

// loadModel loads a folder in the layout of diffusers. Its text encoder is loaded with the first
// prompt.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	t, err := openTransformer(src)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(t)
	if err != nil {
		return nil, err
	}
	run, err := readRecipe(src, c.Vocab-1)
	if err != nil {
		return nil, err
	}
	m := New(c)
	report, err := o.Bind(m, src.Set, weights.BindOptions{}, m.packWeights)
	if err != nil {
		return nil, err
	}
	m.prompter = clip.Prompter{Source: src, Options: o, Width: c.TextWidth, Pad: -1}
	return &model.Loaded{
		Denoiser: m,
		Kind:     model.KindImage,
		Recipe:   run,
		Presets:  map[string]string{"inpaint": inpainting},
		Info: model.Info{
			Sizes: map[string]int{
				"hidden": c.Hidden,
				"heads":  c.Heads,
				"layers": c.Depth,
				"mlp":    c.Inner,
				"width":  c.Width,
				"blocks": c.Res,
				"grid":   c.Side,
				"codes":  c.Codes,
				"mask":   c.Vocab - 1,
			},
			Parameters: model.Parameters(report.Bound, src.Set),
			Notes:      t.Notes,
		},
	}, nil
}

func init() {
	model.Register(model.Format{
		Name:  "amused",
		Kinds: []string{"amused"},
		Load:  loadModel,
		Match: matchesSource,
	})
	model.RegisterCodec(model.CodecFormat{Name: "amused", Match: matchesSource,
		Load: func(src *model.Source, o model.Options) (model.Codec, error) {
			t, err := openTransformer(src)
			if err != nil {
				return nil, err
			}
			c, err := readConfig(t)
			if err != nil {
				return nil, err
			}
			// In a coarser precision the decoder overflows (force_upcast in its config.json).
			o.Precision = backend.F32
			return vq.Open(src, "vqvae", c.Side, c.Codes, o)
		}})
}
