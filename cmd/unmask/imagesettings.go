package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"unmask"
	"unmask/generate"
	"unmask/internal/durable"
)

// runSettings are what a long run's bytes depend on: all but the batch size, the threads and how
// many samples there are.
func (d *deviceFlags) runSettings(m *unmask.Model, s *samplingFlags, o generate.Options) (durable.Settings, error) {
	print, err := fingerprint("", m.Source.Files)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", d.model, err)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	known := sha256.New()
	for _, t := range o.Tokens {
		fmt.Fprintln(known, t)
	}
	return durable.Settings{
		"model": print[1:], "precision": d.precision, "seed": strconv.FormatUint(o.Seed, 10),
		"sampler": s.sampler, "schedule": s.schedule, "steps": strconv.Itoa(o.Steps), "cache": strconv.Itoa(o.Cache),
		"alpha": number(s.alpha), "gamma": number(s.gamma), "reuse": s.reuse, "refresh": strconv.Itoa(o.Refresh),
		"temperature": number(s.temperature), "top-p": number(s.topP), "top-k": strconv.Itoa(s.topK),
		"length": strconv.Itoa(o.Length), "known": hex.EncodeToString(known.Sum(nil)[:8]),
	}, nil
}
