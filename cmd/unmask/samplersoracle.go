package main

import (
	"context"
	"strings"

	"unmask"
	"unmask/model"
	"unmask/oracle"
)

// oraclePrefix begins the names of models whose marginals are exact.
const oraclePrefix = "oracle:"

// loadSequences is loadText, or an exact model by a name such as oracle:markov:length=16.
func (d *deviceFlags) loadSequences(ctx context.Context) (*unmask.Model, error) {
	text, ok := strings.CutPrefix(d.model, oraclePrefix)
	if !ok {
		return d.loadText(ctx)
	}
	if _, err := d.options(); err != nil {
		return nil, err
	}
	m, err := oracle.Parse(text)
	if err != nil {
		return nil, usage("--model: %v", err)
	}
	return &unmask.Model{
		Denoiser:  oracle.NewDenoiser(m),
		Info:      model.Info{Architecture: "oracle"},
		Tokenizer: oracle.Symbols(m, unmask.Hole),
	}, nil
}
