package samplers

import (
	"cmp"
	"reflect"
	"slices"

	"unmask/param"
)

// Tempered is a rule for which the temperature of a run is more than an exponent of the model's
// marginals, because it draws tokens itself: a temperature means to it what it means in its
// authors' program. See also Rule.MostProbable.
type Tempered interface {
	// Tempered returns the rule at a temperature, 0 for the most probable tokens, and the temperature
	// of the marginals that it then reads, 1 for the model's own. An error is a *param.Error.
	Tempered(temperature float64) (rule any, marginals float64, err error)
}

// AtTemperature returns a sampler as a run with a temperature has it, and the temperature of the
// marginals that it reads. Other samplers stay as they are.
func AtTemperature(s Sampler, temperature float64) (Sampler, float64, error) {
	rule, marginals, err := atTemperature(s, temperature)
	if err != nil {
		return nil, 0, err
	}
	return rule.(Sampler), marginals, nil
}

func atTemperature(rule any, temperature float64) (any, float64, error) {
	if t, ok := rule.(Tempered); ok {
		return t.Tempered(temperature)
	}
	e := byType[reflect.TypeOf(rule)]
	switch {
	case e == nil || !tempered(rule):
		return rule, cmp.Or(temperature, 1), nil // at 0 the draws are greedy, the marginals stay
	case e.MostProbable && temperature == 0:
		return rule, 1, nil
	case e.MostProbable:
		return nil, 0, refuseTemperature(temperature,
			"0: sampler "+e.Name+" takes the most probable tokens")
	}
	v, marginals := e.open(rule), 1.0
	for _, in := range e.inside {
		inner := in.of(v)
		changed, m, err := atTemperature(inner, temperature)
		if err != nil {
			return nil, 0, err
		}
		if marginals = m; !reflect.DeepEqual(changed, inner) {
			v.Field(in.index).Set(reflect.ValueOf(changed))
		}
	}
	return v.Interface(), marginals, nil
}

// tempered reports whether the temperature of a run is more to a rule, or to one that it wraps, than
// an exponent of the marginals.
func tempered(rule any) bool {
	if _, ok := rule.(Tempered); ok {
		return true
	}
	e := byType[reflect.TypeOf(rule)]
	return e != nil && e.MostProbable || slices.ContainsFunc(wrapped(rule), tempered)
}

// MostProbable reports whether a sampler takes the most probable tokens whatever else is drawn, as
// at temperature 0.
func MostProbable(s Sampler) bool {
	if !tempered(s) {
		return false
	}
	at0, _, err := AtTemperature(s, 0)
	if err != nil || !Equal(at0, s) {
		return false
	}
	above, _, err := AtTemperature(s, 1)
	return err != nil || !Equal(above, s)
}

// never0 is the Tempered of rules that draw tokens from logits themselves.
func never0(rule any, name string, temperature float64) (any, float64, error) {
	if temperature > 0 {
		return rule, temperature, nil
	}
	return nil, 0, refuseTemperature(0, "more than 0: sampler "+name+" draws tokens itself")
}

// own returns an error if a rule already has another temperature of its tokens.
func own(has, asked float64, name string) error {
	if has == 0 || has == asked {
		return nil
	}
	return refuseTemperature(asked, "none: sampler "+name+" has its own")
}

// drawTempered sets the temperature of a rule that draws tokens from tempered marginals. has is 0
// for the most probable tokens or, after an earlier call, 1.
func drawTempered(has *float64, temperature float64, name string) (marginals float64, err error) {
	if temperature == 0 {
		return 1, own(*has, 0, name)
	}
	if *has != 1 {
		err = own(*has, temperature, name)
	}
	*has = 1
	return temperature, err
}

func refuseTemperature(found float64, want string) error {
	return &param.Error{Name: "temperature", Found: param.Format(found), Want: want}
}
