package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/backend"
	"unmask/backend/open"
	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/demo"
	"unmask/model"
	"unmask/research/export"
	"unmask/research/judges"
)

// deviceFlags choose a model and the device it runs on.
type deviceFlags struct {
	model     string
	device    string
	threads   int
	precision string
	as        string

	// deviceName is the name of the device that loadModel opened.
	deviceName string

	// precisionGiven reports whether the user chose --precision: otherwise the model may be loaded in
	// one that fits into memory. It is nil where a run has its precision from elsewhere.
	precisionGiven func() bool
}

// register adds the flags, with a default model.
func (d *deviceFlags) register(f *pflag.FlagSet, model string) {
	f.StringVarP(&d.model, "model", "m", model,
		"`MODEL`: demo or demo-image (built in), a directory, org/name[@revision] on the hub, or an "+
			"exact one such as oracle:markov:length=16,tokens=4")
	d.registerAs(f)
	d.registerCompute(f)
}

// registerAs adds --as.
func (d *deviceFlags) registerAs(f *pflag.FlagSet) {
	f.StringVar(&d.as, "as", "", "read the files as this `KIND` of model (docs/models.md lists them), "+
		"whatever config.json says")
}

// registerCompute adds the flags of the device and its arithmetic.
func (d *deviceFlags) registerCompute(f *pflag.FlagSet) {
	flags.Device(f, &d.device)
	flags.Threads(f, &d.threads, "processor cores to use; the output does not depend on it")
	f.StringVar(&d.precision, "precision", "f32",
		"precision of matrix products: f32, bf16 or int8; by default the first that fits into memory")
	d.precisionGiven = func() bool { return f.Changed("precision") }
}

// loadOptions checks the flags and returns the options that they set.
func (d *deviceFlags) loadOptions() (unmask.Options, error) {
	p, ok := backend.ParsePrecision(d.precision)
	if !ok {
		return unmask.Options{}, usagef("--precision is %q, want f32, bf16 or int8", d.precision)
	}
	if err := flags.CheckDevice(d.device); err != nil {
		return unmask.Options{}, err
	}
	return unmask.Options{
		Device:    d.device,
		Threads:   d.threads,
		Precision: p,
		As:        d.as,
		Fit:       d.precisionGiven != nil && !d.precisionGiven(),
		Progress:  terminal.DownloadProgress(),
	}, nil
}

// The embedded models, by the names that every command takes. For commands about images demo means
// demo-image, for conversations demo-chat, and for those that judge text demo-judge: a user who
// names no model gets one that suits the command.
const (
	demoText  = "demo"
	demoChat  = "demo-chat"
	demoImage = "demo-image"
	demoJudge = "demo-judge"
)

// embedDemos registers the embedded models, once for a process: tests call Main many times.
var embedDemos = sync.OnceFunc(func() {
	catalog.Embed(demoText, demo.Text())
	catalog.Embed(demoChat, demo.Chat())
	catalog.Embed(demoImage, demo.Image())
	catalog.Embed(demoJudge, demo.Judge())
})

// isDemo reports whether name is that of an embedded model.
func isDemo(name string) bool {
	return name == demoText || name == demoChat || name == demoImage
}

// loadModel loads the model.
func (d *deviceFlags) loadModel(ctx context.Context) (*unmask.Model, error) {
	o, err := d.loadOptions()
	if err != nil {
		return nil, err
	}
	m, err := unmask.Load(ctx, d.model, o)
	if err != nil {
		return nil, refuseModelName(err)
	}

	// A default may have been replaced by what fits, and a name may have told the kind. What is noted
	// of a run, and what workers are told, is what was loaded.
	d.deviceName = m.Backend.Name()
	if m.Source != nil {
		d.precision = m.Precision.String()
		d.as = m.Source.KindOverride
	}
	logNotes(m.Info.Notes...)
	return m, nil
}

// refuseModelName returns an error as a mistake on the command line if it is about a name that no
// model can have.
func refuseModelName(err error) error {
	if errors.Is(err, catalog.ErrName) {
		return usagef("%v", err)
	}
	return err
}

// loadText is load for a model of text.
func (d *deviceFlags) loadText(ctx context.Context) (*unmask.Model, error) {
	m, err := d.loadModel(ctx)
	if err == nil && m.Text == nil {
		return nil, usagef("--model %s is a %s, which makes no text", d.model, m.Info.Architecture)
	}
	return m, err
}

// replaceDemo makes --model demo mean another embedded model.
func (d *deviceFlags) replaceDemo(name string) {
	if d.model == demoText {
		d.model = name
	}
}

// loadImages is load for a model of images, and loads its codec.
func (d *deviceFlags) loadImages(ctx context.Context) (*unmask.Model, error) {
	d.replaceDemo(demoImage)
	m, err := d.loadModel(ctx)
	if err != nil {
		return nil, err
	}
	if m.Pictures == nil {
		return nil, usagef("--model %s is a %s, which makes no pictures", d.model, m.Info.Architecture)
	}
	_, err = m.Pictures.Codec() // so that an error in its files comes before the first step
	return m, err
}

// loadCodec loads only a model's codec.
func (d *deviceFlags) loadCodec(ctx context.Context) (model.Codec, error) {
	d.replaceDemo(demoImage)
	o, err := d.loadOptions()
	if err != nil {
		return nil, err
	}
	p, err := export.LoadPictures(ctx, d.model, o)
	if err != nil {
		return nil, refuseModelName(err)
	}
	return p.Codec()
}

// judgeOptions returns the options to load a judge with, on b or, if b is nil, on the device of the
// flags.
func (d *deviceFlags) judgeOptions(b backend.Backend) (judges.Options, error) {
	o, err := d.loadOptions()
	if err == nil && b == nil {
		b, err = open.Device(o.Device, o.Threads)
	}
	return judges.Options{Backend: b, Precision: o.Precision, Progress: o.Progress}, err
}

// judgeName returns the name of the judge: --judge demo means the embedded judge or, for the text
// of an exact model, that model.
func judgeName(name, modelName string) string {
	switch {
	case name != demoText:
		return name
	case catalog.IsExact(modelName):
		return modelName
	}
	return demoJudge
}
