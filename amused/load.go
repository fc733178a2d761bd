package amused

import (
	"encoding/json"

	"unmask/model"
	"unmask/weights"
)

func load(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	m := New(c)
	var report weights.Report
	if err := weights.Bind(m, src.Set, weights.BindOptions{Report: &report}); err != nil {
		return nil, err
	}
	if err := m.load(o); err != nil {
		return nil, err
	}
	return &model.Loaded{Denoiser: m, Kind: model.KindImage, Info: model.Info{
		Architecture: "amused",
		Sizes: map[string]int{"hidden": c.Hidden, "heads": c.Heads, "layers": c.Depth, "mlp": c.Inner, "width": c.Width,
			"blocks": c.Res, "grid": c.Side, "codes": c.Codes, "mask": c.Vocab - 1},
		Parameters: model.Parameters(report.Bound, src.Set),
	}}, nil
}

func init() {
	model.Register(model.Format{Name: "amused", Load: load, Match: func(src *model.Source) bool {
		var f struct {
			Class string `json:"_class_name"`
		}
		return json.Unmarshal(src.Config, &f) == nil && f.Class == "UVit2DModel"
	}})
}
