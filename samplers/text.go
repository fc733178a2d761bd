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
		rule = c.Order
		gamma = c.Gamma
	}
	e := byType[reflect.TypeOf(rule)]
	if e == nil {
		return fmt.Sprintf("%T", rule)
	}

	v := e.settableCopy(rule)
	parts := e.insideTexts(v)
	for _, f := range e.params {
		if value, ok := textUnlessDefault(f.Param, f.pointer(v)); ok {
			parts = append(parts, f.Name+"="+value)
		}
	}
	if value, ok := textUnlessDefault(GammaParam, &gamma); ok {
		parts = append(parts, "gamma="+value)
	}
	if len(parts) == 0 {
		return e.Name
	}
	return e.Name + "(" + strings.Join(parts, ",") + ")"
}

// insideTexts returns the texts of the rules inside, none if all are the defaults.
func (e *entry) insideTexts(v reflect.Value) []string {
	var texts []string
	differs := false
	for _, in := range e.inside {
		text := Text(in.ruleOf(v))
		texts = append(texts, text)
		differs = differs || text != in.text
	}
	if !differs {
		return nil
	}
	return texts
}

// textUnlessDefault returns the value of a parameter as text, and false if it is the default. value
// is a *float64, *int or *string.
func textUnlessDefault(p param.Param, value any) (string, bool) {
	text := fmt.Sprint(reflect.ValueOf(value).Elem())
	if x, ok := value.(*float64); ok {
		text = param.Format(*x)
	}
	return text, text != "" && text != "0" && text != p.Default
}

// setFromText sets a parameter's field from text. A default is stored as 0 or "", so that texts of
// one meaning give equal rules.
func setFromText(p param.Param, value any, text string) error {
	err := parseInto(p, value, text)
	if _, ok := textUnlessDefault(p, value); !ok {
		reflect.ValueOf(value).Elem().SetZero()
	}
	return err
}

// parseInto reads a parameter's value from text. value is a *float64, *int or *string.
func parseInto(p param.Param, value any, text string) (err error) {
	switch value := value.(type) {
	case *float64:
		*value, err = p.Float(text)
	case *int:
		*value, err = p.Int(text)
	case *string:
		*value, err = p.Word(text)
	}
	return err
}

// checkFields returns an error for the first field of a registered rule that is out of range.
func checkFields(rule any) (err error) {
	e := byType[reflect.TypeOf(rule)]
	if e == nil {
		return nil
	}
	v := e.settableCopy(rule)
	for _, f := range e.params {
		switch value := f.pointer(v).(type) {
		case *float64:
			err = f.Check(*value)
		case *int:
			err = f.CheckInt(*value)
		case *string:
			err = f.CheckWord(*value)
		}
		if err != nil {
			return fmt.Errorf("samplers: %s: %w", e.Name, err)
		}
	}
	return nil
}
