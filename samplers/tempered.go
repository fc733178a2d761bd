package samplers

import (
	"cmp"
	"reflect"
	"slices"

	"unmask/param"
)

// Drawing says what the temperature of a run is to a rule: what it is in its authors' program.
type Drawing uint8

// The kinds of drawing.
const (
	// DrawsByRun means that tokens are drawn from the marginals at the temperature.
	DrawsByRun Drawing = iota
	// TakesBest is for a rule that takes the most probable tokens at any temperature.
	TakesBest
	// RanksByModel is for a rule with a field Temperature, at which it draws tokens. It ranks them by
	// the model's own p (generate.py of LLaDA: Gumbel noise on the logits, confidence without it).
	RanksByModel
	// RanksTempered is for one that draws from the tempered marginals and ranks by them too, as where
	// the logits are divided by the temperature before anything else.
	RanksTempered
)

// TemperatureRule is a rule to which a temperature is something else than a Drawing says.
type TemperatureRule interface {
	// WithTemperature returns the rule at a temperature, 0 for the most probable tokens, and the
	// temperature of the marginals that it then reads, 1 for the model's own. An error is a
	// *param.Error.
	WithTemperature(temperature float64) (rule any, marginals float64, err error)
}

// WithTemperature returns a sampler as a run with a temperature has it, and the temperature of the
// marginals that it reads. Samplers to which the temperature is no more than that stay as they are.
// A sampler with a temperature of its own, or one for which there is none, may refuse it: the error
// is a *param.Error.
func WithTemperature(s Sampler, temperature float64) (Sampler, float64, error) {
	rule, marginals, err := ruleWithTemperature(s, temperature)
	if err != nil {
		return nil, 0, err
	}
	return rule.(Sampler), marginals, nil
}

// ruleWithTemperature is WithTemperature for samplers and orders.
func ruleWithTemperature(rule any, temperature float64) (any, float64, error) {
	if t, ok := rule.(TemperatureRule); ok {
		return t.WithTemperature(temperature)
	}
	e := byType[reflect.TypeOf(rule)]
	if e == nil || !dependsOnTemperature(rule) {
		return rule, cmp.Or(temperature, 1), nil // at 0 the draws are greedy, the marginals stay
	}

	v := e.settableCopy(rule)
	if e.Drawing != DrawsByRun {
		marginals, err := e.setTemperature(v, temperature)
		return v.Interface(), marginals, err
	}
	marginals := 1.0
	for _, in := range e.inside {
		inner := in.ruleOf(v)
		changed, m, err := ruleWithTemperature(inner, temperature)
		if err != nil {
			return nil, 0, err
		}
		marginals = m
		if !reflect.DeepEqual(changed, inner) {
			v.Field(in.index).Set(reflect.ValueOf(changed))
		}
	}
	return v.Interface(), marginals, nil
}

// setTemperature sets the temperature of a rule's own tokens and returns that of the marginals that
// it then reads.
func (e *entry) setTemperature(v reflect.Value, temperature float64) (marginals float64,
	err error) {
	if e.Drawing == TakesBest {
		if temperature != 0 {
			err = refuseTemperature(temperature,
				"0: sampler "+e.Name+" takes the most probable tokens")
		}
		return 1, err
	}

	value := temperature
	marginals = 1.0
	if e.Drawing == RanksTempered && temperature != 0 {
		value = 1
		marginals = temperature
	}
	field := v.FieldByName("Temperature")
	if x := field.Float(); x != 0 && x != temperature && x != value {
		err = refuseTemperature(temperature, "none: sampler "+e.Name+" has its own")
	}
	field.SetFloat(value)
	return marginals, err
}

// dependsOnTemperature reports whether the temperature of a run is more to a rule, or to one that
// it wraps, than an exponent of the marginals.
func dependsOnTemperature(rule any) bool {
	if _, ok := rule.(TemperatureRule); ok {
		return true
	}
	e := byType[reflect.TypeOf(rule)]
	return e != nil && e.Drawing != DrawsByRun ||
		slices.ContainsFunc(innerRules(rule), dependsOnTemperature)
}

// TakesMostProbable reports whether a sampler takes the most probable tokens whatever else is
// drawn, as at temperature 0.
func TakesMostProbable(s Sampler) bool {
	if !dependsOnTemperature(s) {
		return false
	}
	at0, _, err := WithTemperature(s, 0)
	if err != nil || !Equal(at0, s) {
		return false
	}
	at1, _, err := WithTemperature(s, 1)
	return err != nil || !Equal(at1, s)
}

// refuseTemperature0 is the WithTemperature of rules that draw tokens from logits themselves: they
// have no most probable tokens to take.
func refuseTemperature0(rule any, name string, temperature float64) (any, float64, error) {
	if temperature > 0 {
		return rule, temperature, nil
	}
	return nil, 0, refuseTemperature(0, "more than 0: sampler "+name+" draws tokens itself")
}

// refuseTemperature returns the error of a temperature that a sampler does not take.
func refuseTemperature(temperature float64, want string) error {
	return &param.Error{Name: "temperature", Found: param.Format(temperature), Want: want}
}
