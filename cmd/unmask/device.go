package main

import (
	"context"
	"io/fs"
	"runtime"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/backend"
	"unmask/demo"
)

// deviceFlags choose a model and how it runs.
type deviceFlags struct {
	model     string
	threads   int
	precision string
}

func (d *deviceFlags) register(f *pflag.FlagSet, model string) {
	f.StringVar(&d.model, "model", model, "`MODEL`: demo (embedded), a directory, or org/name[@revision] on the hub")
	d.registerCompute(f)
}

func (d *deviceFlags) registerCompute(f *pflag.FlagSet) {
	f.IntVar(&d.threads, "threads", runtime.GOMAXPROCS(0), "processor cores to use; the output does not depend on it")
	f.StringVar(&d.precision, "precision", "f32", "arithmetic of the weight products: f32, bf16 or int8")
}

const maxThreads = 1024

// options checks the flags.
func (d *deviceFlags) options() (unmask.Options, error) {
	p, ok := backend.ParsePrecision(d.precision)
	switch {
	case !ok:
		return unmask.Options{}, usage("--precision is %q, allowed are f32, bf16 and int8", d.precision)
	case d.threads < 1 || d.threads > maxThreads:
		return unmask.Options{}, usage("--threads is %d, allowed are 1..%d", d.threads, maxThreads)
	}
	return unmask.Options{Threads: d.threads, Precision: p, Progress: downloadProgress()}, nil
}

// load loads the model; the name demo stands for an embedded one.
func (d *deviceFlags) load(ctx context.Context, embedded fs.FS) (*unmask.Model, error) {
	o, err := d.options()
	if err != nil {
		return nil, err
	}
	if d.model == "demo" {
		return unmask.LoadFS(embedded, "demo", o)
	}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	m, err := unmask.Load(ctx, d.model, o)
	if err != nil {
		return nil, err
	}
	for _, note := range m.Info.Notes {
		say("note: %s", note)
	}
	return m, nil
}

// loadText is load for a model of text.
func (d *deviceFlags) loadText(ctx context.Context) (*unmask.Model, error) {
	m, err := d.load(ctx, demo.Text())
	if err == nil && m.Tokenizer == nil {
		return nil, usage("--model %s is a %s, which makes no text; allowed are SDTT and MDLM", d.model, m.Info.Architecture)
	}
	return m, err
}
