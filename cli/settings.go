package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/durable"
)

// runSettings returns what a long run's bytes depend on: all but the batch size, the threads and
// how many samples there are. Of the recipe it is the meaning, however it was spelled.
func (d *deviceFlags) runSettings(m *unmask.Model, o generate.Options) (durable.Settings, error) {
	network := d.model // an exact one is its name
	if m.Source != nil {
		sum, err := m.Source.Fingerprint()
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", d.model, err)
		}
		network = strings.TrimSpace(sum) // the same under another path
	}
	known := sha256.New()
	for _, t := range o.Tokens {
		fmt.Fprintln(known, t)
	}
	r := durable.Settings{
		"model": network, "precision": d.precision, "seed": strconv.FormatUint(o.Seed, 10),
		"length": strconv.Itoa(o.Length), "known": hex.EncodeToString(known.Sum(nil)[:8]),
	}
	recipe := o.Recipe()
	for _, p := range generate.Params() {
		if text := recipe.Get(p.Name); text != "" {
			r[p.Name] = text
		}
	}
	if g := gpu(m.Backend); g != "" {
		r["device"] = g
	}
	return r, nil
}

// textSettings are those that only text has.
func (f *textFlags) textSettings(m *unmask.Model, o generate.Options) (durable.Settings, error) {
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
