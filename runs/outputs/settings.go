package outputs

import (
	"unmask"
	"unmask/runs"
)

// Settings returns what the bytes of a long run depend on, see runs.NewSettings. The model's
// identity is its fingerprint or, for an exact one, its name; precision is that of its weight
// products.
func Settings(m *unmask.Model, precision string, r unmask.Run) (runs.Settings, error) {
	identity := m.Name
	if m.Source != nil {
		var err error
		if identity, err = m.Source.Fingerprint(); err != nil {
			return nil, err
		}
	}
	s := runs.NewSettings(identity, precision, r)
	if gpu := unmask.GPU(m.Backend); gpu != "" {
		s["device"] = gpu
	}
	return s, nil
}
