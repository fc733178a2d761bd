package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"unmask"
	"unmask/demo"
	"unmask/experiments"
	"unmask/images"
	"unmask/metrics"
	"unmask/model"
)

// taskFlags choose what judges samples.
type taskFlags struct {
	judge     string // of text
	inception string // of images, "" for the model's own VQGAN
	reference string // images or statistics, "" for the demo's landscapes
	scenes    int    // how many of those, 0 for 1000
}

// task loads a model of a kind, text or image or "" for the model's own, and what judges its
// samples, and says what its results depend on.
func (d *deviceFlags) task(ctx context.Context, kind string, t taskFlags) (experiments.Task, experiments.Settings, error) {
	embedded := demo.Text()
	if kind == "image" {
		embedded = demo.Image()
	}
	m, err := d.load(ctx, embedded)
	if err != nil {
		return nil, nil, err
	}
	if kind == "" {
		kind = string(m.Kind())
	}
	if string(m.Kind()) != kind || m.Text == nil && m.Pictures == nil {
		return nil, nil, usage("model %s is a %s, which makes no %s", d.model, m.Info.Architecture, kind)
	}
	s := experiments.Settings{"threads": strconv.Itoa(d.threads), "precision": d.precision}
	if gpu(m.Backend) != "" {
		s["device"] = m.Backend.Name() // times depend on which it is
	}
	if s["model"], err = identity(d.model, m.Source); err != nil {
		return nil, nil, err
	}
	judged := d.textTask
	if kind == "image" {
		judged = d.imageTask
	}
	task, err := judged(ctx, m, t, s)
	return task, s, err
}

// identity is a model's fingerprint, or the name of an exact one, which has no files.
func identity(name string, src *model.Source) (string, error) {
	if src == nil {
		return name, nil
	}
	return fingerprint(name, src.Files)
}

func (d *deviceFlags) textTask(ctx context.Context, m *unmask.Model, t taskFlags, s experiments.Settings) (experiments.Task, error) {
	o, err := d.options()
	if err != nil {
		return nil, err
	}
	if isExact(d.model) && t.judge == "demo" { // which knows other tokens
		t.judge = d.model
	}
	judge, src, err := loadJudge(ctx, t.judge, m.Backend, o.Precision)
	if err != nil {
		return nil, err
	}
	if s["judge"], err = identity(t.judge, src); err != nil {
		return nil, err
	}
	return experiments.Text{Denoiser: m.Denoiser, Judge: judge}, nil
}

func (d *deviceFlags) imageTask(ctx context.Context, m *unmask.Model, t taskFlags, s experiments.Settings) (experiments.Task, error) {
	o, err := d.options()
	if err != nil {
		return nil, err
	}
	codec, err := m.Pictures.Codec()
	if err != nil {
		return nil, err
	}
	var network experiments.Network
	if t.inception != "" {
		s["features"] = t.inception
		network, err = loadInception(t.inception, m.Backend, o.Precision)
	} else {
		s["features"] = "the model's VQGAN"
		network, err = featuresOf(codec)
	}
	if err != nil {
		return nil, err
	}
	s["reference"] = t.reference
	if t.scenes == 0 {
		t.scenes = 1000
	}
	if t.reference == "" {
		s["reference"] = fmt.Sprintf("%d drawn landscapes", t.scenes)
	}
	if t.reference == "" && d.model != "demo" {
		return nil, usage("a model of images other than demo needs a reference: a directory of PNG files, or an .npz")
	}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	r, err := reference(ctx, t.reference, t.scenes, network)
	return experiments.Image{Denoiser: m.Denoiser, Pictures: codec, Network: network, Reference: r}, err
}

// reference is statistics of an .npz file, of a directory's PNG files, or for "" of drawn landscapes.
func reference(ctx context.Context, name string, scenes int, x experiments.Network) (*experiments.Reference, error) {
	if name == "" {
		return experiments.SceneReference(ctx, x, scenes)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		g, err := metrics.LoadStats(name)
		if err == nil && len(g.Mean) != x.Width() {
			return nil, usage("%s: statistics of %d features, the network has %d", name, len(g.Mean), x.Width())
		}
		return &experiments.Reference{Gaussian: g}, err
	}
	files, err := images.List(name)
	if err != nil {
		return nil, err
	}
	p := newProgress("reference", int64(len(files)))
	defer p.close()
	return experiments.NewReference(x.Width(), func(add func([]float32) error) error {
		return metrics.EachFeature(ctx, x, files, func(_ int, f, _ []float32) error {
			p.add(1)
			return add(f)
		})
	})
}
