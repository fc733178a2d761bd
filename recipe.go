package unmask

import (
	"fmt"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
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

// complete fills unset fields of a run from the model's published recipe.
func (m *Model) complete(r Run) (Run, error) {
	base, err := m.Defaults()
	if err != nil {
		return r, err
	}
	if r.Condition == nil && r.Conditions == nil { // nothing to be guided by
		base.Guidance = generate.Guidance{}
	}
	free := m.Spec().Masked(r.Tokens)
	if r.Tokens == nil && r.Length != 0 {
		free = r.Length
	}
	full := r.Recipe().Fill(base, free)
	switch _, uncached := samplers.As[samplers.Uncached](full.Sampler); {
	case r.Cache == generate.NoCache || full.Reuse == generate.Blocks:
		full.Cache = 0
	case r.Cache == 0 && !uncached:
		full.Cache = base.Cache
	}
	return r.With(full), nil
}
