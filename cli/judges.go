package cli

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"unmask/backend/open"
	"unmask/cli/terminal"
	"unmask/research/experiments"
	"unmask/research/judges"
)

// taskFlags choose the judge of samples.
type taskFlags struct {
	judges.Measure
}

// register adds the flags.
func (t *taskFlags) register(s *pflag.FlagSet) {
	s.StringVar(&t.Judge, "judge", "demo",
		"for text, a GPT-2 `MODEL`: demo (embedded), a directory, or org/name[@revision]")
	s.StringVar(&t.Inception, "inception", "",
		"for images, weights of Inception-v3, a `FILE` or directory; by default the features are of the model's VQGAN")
	s.StringVar(&t.Reference, "reference", "",
		"for images, a `DIR` of PNG files or an .npz; the demo has its own landscapes")
}

// loadTask loads a model of a kind, text, image, or "" for either, and the judge of its samples. It
// also returns the settings that results depend on.
func (d *deviceFlags) loadTask(ctx context.Context, kind string, t taskFlags) (
	task experiments.Task, s experiments.Settings, err error) {
	if kind == "image" {
		name := d.model
		d.replaceDemo(demoImage)
		defer func() { d.model = name }() // reports and workers get the name that the user gave
	}
	m, err := d.loadModel(ctx)
	if err != nil {
		return task, nil, err
	}
	kind = cmp.Or(kind, string(m.Kind()))
	switch {
	case string(m.Kind()) != kind || m.Text == nil && m.Pictures == nil:
		return task, nil, usagef("model %s is a %s, which makes no %s", d.model, m.Info.Architecture,
			kind)
	case kind == "image" && t.Reference == "" && !isDemo(d.model):
		return task, nil, usagef("reference is missing, want a directory of PNG files or an .npz: " +
			"only the demo has its own")
	}
	t.Judge = judgeName(t.Judge, d.model)
	t.Stories = d.model == demoText
	p := &terminal.LazyProgress{Label: "reference"}
	defer p.Close()
	t.Progress = p.Set
	o, err := d.judgeOptions(m.Backend)
	if err != nil {
		return task, nil, err
	}
	task, s, err = judges.NewTask(ctx, m, t.Measure, o)
	if err != nil {
		return task, nil, refuseModelName(err)
	}
	// The embedded models are all called demo in results, as on the command line: journals of before
	// say so.
	for _, key := range []string{"model", "judge"} {
		if v, ok := s[key]; ok {
			v = strings.Replace(v, demoImage+" ", demoText+" ", 1)
			s[key] = strings.Replace(v, demoJudge+" ", demoText+" ", 1)
		}
	}
	s["threads"] = strconv.Itoa(d.threads)
	s["precision"] = d.precision
	if open.KindOf(m.Backend) != "" {
		s["device"] = m.Backend.Name() // times depend on it
	}
	return task, s, nil
}
