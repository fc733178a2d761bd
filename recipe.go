package unmask

import (
	"fmt"

	"unmask/generate"
	"unmask/model"
)

// Defaults returns the recipe that the model was published with or, if it has none, the default of
// its kind. It has no guidance if the model takes no condition.
func (m *Model) Defaults() (generate.Recipe, error) {
	if m.Recipe != "" {
		return m.published(m.Recipe)
	}
	spec := m.Spec()
	if m.kind == model.KindText {
		spec.Shape = []int{spec.Length()}
	}
	r := generate.Defaults(spec)
	if _, ok := m.Denoiser.(model.Refiner); !ok {
		r.Cache = 0
	}
	return r, nil
}

// published reads a recipe that comes with the model.
func (m *Model) published(text string) (generate.Recipe, error) {
	r, err := generate.ParseRecipe(text)
	if err != nil {
		return r, fmt.Errorf("%s: published recipe: %w", m.Name, err)
	}
	if spec := m.Spec(); spec.Classes == 0 && !spec.Prompt {
		r.Guidance = generate.Guidance{}
	}
	return r.For(m.Spec()), nil
}
