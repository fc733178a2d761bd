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
	"unmask/samplers"
)

// runSettings are what a long run's bytes depend on: all but the batch size, the threads and how
// many samples there are.
func (d *deviceFlags) runSettings(m *unmask.Model, s *samplingFlags, o generate.Options) (durable.Settings, error) {
	network := d.model // an exact one is its name
	if m.Source != nil {
		sum, err := fingerprint("", m.Source.Files)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", d.model, err)
		}
		network = strings.TrimSpace(sum) // the same under another path
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	known := sha256.New()
	for _, t := range o.Tokens {
		fmt.Fprintln(known, t)
	}
	r := durable.Settings{
		"model": network, "precision": d.precision, "seed": strconv.FormatUint(o.Seed, 10),
		"sampler": s.sampler, "schedule": scheduleSetting(s.schedule, o), "steps": strconv.Itoa(o.Steps), "cache": strconv.Itoa(o.Cache),
		"alpha": number(s.alpha), "gamma": number(s.gamma), "reuse": s.reuse, "refresh": strconv.Itoa(o.Refresh),
		"temperature": number(s.temperature), "top-p": number(s.topP), "top-k": strconv.Itoa(s.topK),
		"length": strconv.Itoa(o.Length), "known": hex.EncodeToString(known.Sum(nil)[:8]),
	}
	if g := gpu(m.Backend); g != "" {
		r["device"] = g
	}
	return r, nil
}

// scheduleSetting is a schedule's name, and for one of a file what it opens: its contents may change.
func scheduleSetting(name string, o generate.Options) string {
	if !strings.HasSuffix(name, ".json") {
		return name
	}
	stages := o.Cache + 1
	opens := sha256.New()
	for n := 1; n <= o.Steps*stages; n++ {
		fmt.Fprintln(opens, samplers.Open(o.Schedule, float64(n)/float64(stages), o.Steps, o.Length))
	}
	return "of a file, " + hex.EncodeToString(opens.Sum(nil)[:8])
}

// textSettings are those that only text has.
func (f *textFlags) textSettings(m *unmask.Model, o generate.Options) (durable.Settings, error) {
	s, err := f.runSettings(m, &f.samplingFlags, o)
	if err != nil {
		return nil, err
	}
	c := f.constraintFlags
	c.tokenFlags.settings(s)
	s["end"], s["min-length"], s["cut"] = c.end, strconv.Itoa(c.minLength), strconv.FormatBool(c.cut)
	return s, nil
}
