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
// marginals that it reads. Other samplers stay as they are.
func WithTemperature(s Sampler, temperature float64) (Sampler, float64, error) {
	rule, marginals, err := atTemperature(s, temperature)
	if err != nil {
		return nil, 0, err
	}
	return rule.(Sampler), marginals, nil
}

func atTemperature(rule any, temperature float64) (any, float64, error) {
	if t, ok := rule.(TemperatureRule); ok {
		return t.WithTemperature(temperature)
	}
	e := byType[reflect.TypeOf(rule)]
	if e == nil || !tempered(rule) {
		return rule, cmp.Or(temperature, 1), nil // at 0 the draws are greedy, the marginals stay
	}
	v, marginals := e.open(rule), 1.0
	if e.Drawing != DrawsByRun {
		marginals, err := e.temper(v, temperature)
		return v.Interface(), marginals, err
	}
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

// temper sets the temperature of a rule's own tokens and returns that of the marginals that it then
// reads.
func (e *entry) temper(v reflect.Value, temperature float64) (marginals float64, err error) {
	if e.Drawing == TakesBest {
		if temperature != 0 {
			err = refuseTemperature(temperature,
				"0: sampler "+e.Name+" takes the most probable tokens")
		}
		return 1, err
	}
	own, set, marginals := v.FieldByName("Temperature"), temperature, 1.0
	if e.Drawing == RanksTempered && temperature != 0 {
		set, marginals = 1, temperature
	}
	if has := own.Float(); has != 0 && has != temperature && has != set {
		err = refuseTemperature(temperature, "none: sampler "+e.Name+" has its own")
	}
	own.SetFloat(set)
	return marginals, err
}

// tempered reports whether the temperature of a run is more to a rule, or to one that it wraps,
// than an exponent of the marginals.
func tempered(rule any) bool {
	if _, ok := rule.(TemperatureRule); ok {
		return true
	}
	e := byType[reflect.TypeOf(rule)]
	return e != nil && e.Drawing != DrawsByRun || slices.ContainsFunc(wrapped(rule), tempered)
}

// TakesMostProbable reports whether a sampler takes the most probable tokens whatever else is
// drawn, as at temperature 0.
func TakesMostProbable(s Sampler) bool {
	if !tempered(s) {
		return false
	}
	at0, _, err := WithTemperature(s, 0)
	if err != nil || !Equal(at0, s) {
		return false
	}
	above, _, err := WithTemperature(s, 1)
	return err != nil || !Equal(above, s)
}

// never0 is the Tempered of rules that draw tokens from logits themselves.
func never0(rule any, name string, temperature float64) (any, float64, error) {
	if temperature > 0 {
		return rule, temperature, nil
	}
	return nil, 0, refuseTemperature(0, "more than 0: sampler "+name+" draws tokens itself")
}

func refuseTemperature(found float64, want string) error {
	return &param.Error{Name: "temperature", Found: param.Format(found), Want: want}
}
