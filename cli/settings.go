package cli

import (
	"fmt"
	"strconv"

	"unmask"
	"unmask/generate"
	"unmask/runs"
)

// runSettings returns what a long run's bytes depend on.
func (d *deviceFlags) runSettings(m *unmask.Model, o generate.Options) (runs.Settings, error) {
	identity := d.model // an exact one is its name
	if m.Source != nil {
		var err error
		if identity, err = m.Source.Fingerprint(); err != nil {
			return nil, fmt.Errorf("model %s: %w", d.model, err)
		}
	}
	s := runs.NewSettings(identity, d.precision, o)
	if g := gpu(m.Backend); g != "" {
		s["device"] = g
	}
	return s, nil
}

// textSettings are those that only text has.
func (f *textFlags) textSettings(m *unmask.Model, o generate.Options) (runs.Settings, error) {
	s, err := f.runSettings(m, o)
	if err != nil {
		return nil, err
	}
	if f.chat.asked() {
		s["text"] = "answer"
	}
	if c := f.constraintFlags; c.minLength > 0 || c.cut {
		s["end"], s["min-length"], s["cut"] = c.end, strconv.Itoa(c.minLength), strconv.FormatBool(c.cut)
	}
	return s, nil
}
