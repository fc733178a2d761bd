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
	p := e.pointer(rule)
	parts := e.insideText(p)
	for _, f := range e.params {
		if value, set := f.text(f.at(p)); set {
			parts = append(parts, f.Name+"="+value)
		}
	}
	if value, set := gammaField.text(&gamma); set {
		parts = append(parts, "gamma="+value)
	}
	if len(parts) == 0 {
		return e.name
	}
	return e.name + "(" + strings.Join(parts, ",") + ")"
}

// insideText returns the texts of the rules inside, none if all are the defaults.
func (e *entry) insideText(p any) []string {
	var out []string
	own := false
	for _, in := range e.inside {
		def, text := Text(in.def), ""
		switch at := in.at(p).(type) {
		case *Order:
			text = textOr(*at, def)
		case *Sampler:
			text = textOr(*at, def)
		}
		own = own || text != def
		out = append(out, text)
	}
	if !own {
		return nil
	}
	return out
}

// textOr returns the text of a rule, or def if it is nil.
func textOr(rule any, def string) string {
	if rule == nil {
		return def
	}
	return Text(rule)
}

// text returns a field's value as text, false if it is the default.
func (f field) text(at any) (string, bool) {
	var text string
	switch at := at.(type) {
	case *float64:
		if *at == 0 {
			return "", false
		}
		text = param.Format(*at)
	case *int:
		if *at == 0 {
			return "", false
		}
		text = fmt.Sprint(*at)
	case *string:
		text = *at
	}
	return text, text != "" && text != f.Default
}

// set sets a field from text. A default value is stored as 0 or "".
func (f field) set(at any, text string) (err error) {
	switch at := at.(type) {
	case *float64:
		*at, err = f.Float(text)
		if err == nil && param.Format(*at) == f.Default {
			*at = 0
		}
	case *int:
		*at, err = f.Int(text)
		if err == nil && fmt.Sprint(*at) == f.Default {
			*at = 0
		}
	case *string:
		*at, err = f.Word(text)
		if *at == f.Default {
			*at = ""
		}
	}
	return err
}

// check returns an error for a field out of range.
func (f field) check(at any) error {
	switch at := at.(type) {
	case *float64:
		return f.Check(*at)
	case *int:
		return f.CheckInt(*at)
	case *string:
		return f.CheckWord(*at)
	}
	return nil
}

// checkFields returns an error for the first field of a registered rule that is out of range.
func checkFields(rule any) error {
	e := byType[reflect.TypeOf(rule)]
	if e == nil {
		return nil
	}
	p := e.pointer(rule)
	for _, f := range e.params {
		if err := f.check(f.at(p)); err != nil {
			return fmt.Errorf("samplers: %s: %w", e.name, err)
		}
	}
	return nil
}
