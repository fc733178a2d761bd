package cli

import (
	"context"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/backend"
	"unmask/demo"
)

// deviceFlags choose a model and how it runs.
type deviceFlags struct {
	model     string
	device    string
	threads   int
	precision string

	ran string // the name of the device that load opened
}

func (d *deviceFlags) register(f *pflag.FlagSet, model string) {
	f.StringVar(&d.model, "model", model, "`MODEL`: demo (embedded), a directory, or org/name[@revision] on the hub")
	d.registerCompute(f)
}

func (d *deviceFlags) registerCompute(f *pflag.FlagSet) {
	f.StringVar(&d.device, "device", "auto", "`DEVICE` to compute on: cpu, cuda or cuda:N, or auto for a GPU where there is one")
	threadsFlag(f, &d.threads, "processor cores to use; the output does not depend on it")
	f.StringVar(&d.precision, "precision", "f32", "arithmetic of the weight products: f32, bf16 or int8")
}

const maxThreads = 1024

// options checks the flags.
func (d *deviceFlags) options() (unmask.Options, error) {
	p, ok := backend.ParsePrecision(d.precision)
	switch {
	case !ok:
		return unmask.Options{}, usage("--precision is %q, allowed are f32, bf16 and int8", d.precision)
	case unmask.CheckDevice(d.device) != nil:
		return unmask.Options{}, usage("--device is %q, allowed are auto, cpu, cuda and cuda:N", d.device)
	}
	return unmask.Options{Device: d.device, Threads: d.threads, Precision: p, Progress: downloadProgress()}, nil
}

// load loads the model; the name demo stands for an embedded one.
func (d *deviceFlags) load(ctx context.Context, embedded fs.FS) (*unmask.Model, error) {
	o, err := d.options()
	if err != nil {
		return nil, err
	}
	m, err := d.find(ctx, embedded, o)
	if err != nil {
		return nil, err
	}
	d.ran = m.Backend.Name()
	for _, note := range m.Info.Notes {
		say("note: %s", note)
	}
	return m, nil
}

func (d *deviceFlags) find(ctx context.Context, embedded fs.FS, o unmask.Options) (*unmask.Model, error) {
	switch {
	case d.model == "demo":
		return unmask.LoadFS(embedded, "demo", o)
	case isExact(d.model):
		m, err := loadExact(d.model)
		if err != nil {
			return nil, usage("--model: %v", err)
		}
		return m, nil
	}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	return unmask.Load(ctx, d.model, o)
}

// gpu is what the results of a GPU are told apart by, "" for a processor's: sums are in another order, so a
// number may differ in its last bits, and so a token in a long run.
func gpu(b backend.Backend) string {
	if b == nil {
		return ""
	}
	name, _, found := strings.Cut(b.Name(), ":")
	if !found {
		return ""
	}
	return name
}

// loadText is load for a model of text.
func (d *deviceFlags) loadText(ctx context.Context) (*unmask.Model, error) {
	m, err := d.load(ctx, demo.Text())
	if err == nil && m.Text == nil {
		return nil, usage("--model %s is a %s, which makes no text; allowed are SDTT and MDLM", d.model, m.Info.Architecture)
	}
	return m, err
}
