package samplers

import (
	"fmt"
	"reflect"
	"strings"

	"unmask/param"
)

// Text returns a registered rule as the text that Parse reads, without defaults: "maskgit",
// "hybrid(random,u-moment(alpha=3),gamma=2)". Rules with the same effect have the same text. For a
// type that is not registered it returns the type's name, which Parse refuses.
func Text(rule any) string {
	gamma := 0.0
	if c, ok := rule.(ChooseThenSample); ok {
		rule, gamma = c.Order, c.Gamma
	}
	e := byType[reflect.TypeOf(rule)]
	if e == nil {
		return fmt.Sprintf("%T", rule)
	}
	v := e.open(rule)
	parts := e.insideText(v)
	for _, f := range e.params {
		if value, set := textOf(f.Param, f.at(v)); set {
			parts = append(parts, f.Name+"="+value)
		}
	}
	if value, set := textOf(GammaParam, &gamma); set {
		parts = append(parts, "gamma="+value)
	}
	if len(parts) == 0 {
		return e.Name
	}
	return e.Name + "(" + strings.Join(parts, ",") + ")"
}

// insideText returns the texts of the rules inside, none if all are the defaults.
func (e *entry) insideText(v reflect.Value) []string {
	var out []string
	own := false
	for _, in := range e.inside {
		text := Text(in.of(v))
		own = own || text != in.text
		out = append(out, text)
	}
	if !own {
		return nil
	}
	return out
}

// textOf returns a parameter's value as text, false if it is the default.
func textOf(p param.Param, at any) (string, bool) {
	text := fmt.Sprint(reflect.ValueOf(at).Elem())
	if x, ok := at.(*float64); ok {
		text = param.Format(*x)
	}
	return text, text != "" && text != "0" && text != p.Default
}

// set sets a field from text. A default value is stored as 0 or "".
func set(p param.Param, at any, text string) (err error) {
	switch at := at.(type) {
	case *float64:
		*at, err = p.Float(text)
	case *int:
		*at, err = p.Int(text)
	case *string:
		*at, err = p.Word(text)
	}
	if _, own := textOf(p, at); !own {
		reflect.ValueOf(at).Elem().SetZero()
	}
	return err
}

// checkFields returns an error for the first field of a registered rule that is out of range.
func checkFields(rule any) (err error) {
	e := byType[reflect.TypeOf(rule)]
	if e == nil {
		return nil
	}
	v := e.open(rule)
	for _, f := range e.params {
		switch at := f.at(v).(type) {
		case *float64:
			err = f.Check(*at)
		case *int:
			err = f.CheckInt(*at)
		case *string:
			err = f.CheckWord(*at)
		}
		if err != nil {
			return fmt.Errorf("samplers: %s: %w", e.Name, err)
		}
	}
	return nil
}
