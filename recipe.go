package unmask

import (
	"fmt"
	"maps"
	"slices"

	"unmask/generate"
	"unmask/param"
)

// Defaults returns the recipe that the model was published with or, if it has none, the default of
// its kind. It has no guidance if the model takes no condition.
func (m *Model) Defaults() (generate.Recipe, error) {
	if m.Recipe == "" {
		return generate.Defaults(m.Spec()), nil
	}
	r, err := generate.ParseRecipe(m.Recipe)
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
	if m.Recipe == "" {
		return r, nil
	}
	base, err := m.Defaults()
	if err != nil {
		return r, err
	}
	if r.Condition == nil && r.Conditions == nil { // nothing to be guided by
		base.Guidance = generate.Guidance{}
	}
	full := r.Recipe().Or(base)
	if r.Steps == 0 {
		full.Steps = min(full.Steps, max(1, m.masked(r)))
	}
	return r.With(full), nil
}

// masked returns the number of masked positions at the start of a run.
func (m *Model) masked(r Run) int {
	if r.Tokens == nil {
		if r.Length != 0 {
			return r.Length
		}
		return m.Spec().Length()
	}
	n := 0
	for _, t := range r.Tokens {
		if t == m.Spec().Mask {
			n++
		}
	}
	return n
}

// Choose makes a named preset the model's published recipe. "" changes nothing, unless the run
// inpaints and the model has a preset for that.
func (m *Model) Choose(preset string, inpaints bool) error {
	if preset == "" {
		if recipe, ok := m.Presets["inpaint"]; ok && inpaints {
			m.Recipe = recipe
		}
		return nil
	}
	recipe, ok := m.Presets[preset]
	if !ok {
		want := param.Either(slices.Sorted(maps.Keys(m.Presets)))
		if want == "" {
			want = "none: the model has no presets"
		}
		return &param.Error{Name: "preset", Found: param.Quote(preset), Want: want}
	}
	m.Recipe = recipe
	return nil
}
