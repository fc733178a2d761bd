package judges

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"unmask"
	"unmask/demo/scenes"
	"unmask/media/images"
	"unmask/model"
	"unmask/research/experiments"
	"unmask/research/metrics"
	"unmask/research/tasks"
)

// Measure names what a Task measures with.
type Measure struct {
	Judge     string // of text; LoadText takes it
	Stories   bool   // of text: count contradictions, as the model writes what package stories knows
	Inception string // of images: weights of Inception-v3; "" for features of the model's own codec
	Reference string // of images: a directory of PNG files or an .npz; "" for drawn landscapes
	Scenes    int    // how many landscapes, 0 for 1000

	Tasks []tasks.Item   // of text: questions to answer instead of samples to judge
	Base  unmask.Request // what the tasks leave out

	Progress func(done, total int) `json:"-"` // called for the reference's pictures; may be nil
}

// NewTask returns the task of measuring m's samples, and the settings of its results, except the
// device and the threads.
func NewTask(ctx context.Context, m *unmask.Model, by Measure, o Options) (t experiments.Task,
	s experiments.Settings, err error) {
	s = experiments.Settings{}
	if s["model"], err = identity(m.Name, m.Source); err != nil {
		return t, nil, err
	}
	own, err := m.Defaults()
	if err != nil {
		return t, nil, err
	}
	switch {
	case by.Tasks != nil:
		s["tasks"] = tasks.Digest(by.Tasks, by.Base)
		t, err = tasks.New(m, by.Tasks, by.Base)
	case m.Text != nil:
		t, err = textTask(ctx, m, by, o, s)
	case m.Pictures != nil:
		t, err = pictureTask(ctx, m, by, o, s)
	default:
		err = fmt.Errorf("model %s makes neither text nor pictures", m.Name)
	}
	t.ModelRecipe = own
	return t, s, err
}

func textTask(ctx context.Context, m *unmask.Model, by Measure, o Options,
	s experiments.Settings) (t experiments.Task, err error) {
	judge, err := LoadTextJudge(ctx, by.Judge, o)
	if err != nil {
		return t, err
	}
	if err := judge.shares(m.Spec().Outcomes, m.Text.Decode); err != nil {
		return t, err
	}
	var decode func(ids []int32) string
	if by.Stories {
		decode = m.Text.Decode
	}
	s["judge"], err = identity(by.Judge, judge.src)
	return experiments.TextTask(m.Denoiser, judge.Judge, decode), err
}

func pictureTask(ctx context.Context, m *unmask.Model, by Measure, o Options,
	s experiments.Settings) (t experiments.Task, err error) {
	codec, err := m.Pictures.Codec()
	if err != nil {
		return t, err
	}
	var network experiments.Network
	if by.Inception != "" {
		s["features"] = by.Inception
		network, err = LoadInception(by.Inception, o)
	} else {
		s["features"] = "the model's VQGAN"
		network, err = FeatureNetwork(codec)
	}
	if err != nil {
		return t, err
	}
	by.Scenes = cmp.Or(by.Scenes, landscapes)
	if s["reference"] = by.Reference; by.Reference == "" {
		s["reference"] = fmt.Sprintf("%d drawn landscapes", by.Scenes)
	}
	r, err := LoadReference(ctx, by, network)
	return experiments.ImageTask(m.Denoiser, codec, network, r), err
}

// landscapes is the default number of landscapes in a reference.
const landscapes = 1000

// FeatureNetwork returns a model's codec as a network of features.
func FeatureNetwork(c model.Codec) (experiments.Network, error) {
	n, ok := c.(experiments.Network)
	if !ok {
		return nil, fmt.Errorf("the model's codec has no features of pictures, want an Inception-v3")
	}
	return n, nil
}

// LoadReference returns the statistics of x's features over an .npz file, a directory's PNG files,
// or drawn landscapes.
func LoadReference(ctx context.Context, by Measure, x experiments.Network) (*experiments.Reference,
	error) {
	name := by.Reference
	if info, err := os.Stat(name); name != "" && err != nil {
		return nil, err
	} else if name != "" && !info.IsDir() {
		g, err := metrics.LoadStats(name)
		if err == nil && len(g.Mean) != x.Width() {
			return nil, fmt.Errorf("%s: statistics of %d features, want %d as the network has", name,
				len(g.Mean), x.Width())
		}
		return &experiments.Reference{Gaussian: g}, err
	}
	_, each, err := by.pictures(ctx, x, false)
	if err != nil {
		return nil, err
	}
	return experiments.NewReference(x.Width(), func(add func([]float32) error) error {
		return each(func(_ int, f []float32) error { return add(f) })
	})
}

// visit receives the features of picture i.
type visit = func(i int, features []float32) error

// pictures returns the pictures of the reference, which are a directory's files or drawn
// landscapes: their classes if they are classed, and what computes their features.
func (by Measure) pictures(ctx context.Context, x experiments.Network, classed bool) (
	classes []string, each func(visit visit) error, err error) {
	if by.Reference == "" {
		list, hours := scenes.Draw(cmp.Or(by.Scenes, landscapes), 1)
		return hours, func(visit visit) error {
			return x.Features(ctx, list, func(i int, f, _ []float32) error { return visit(i, f) })
		}, nil
	}
	files, err := images.List(by.Reference)
	if err == nil && classed {
		if classes, err = PictureClasses(by.Reference, files); err == nil {
			if err = checkClasses(classes); err != nil {
				err = fmt.Errorf("%s: %w", by.Reference, err)
			}
		}
	}
	if err == nil {
		err = checkPictures(ctx, x, by.Reference, files)
	}
	return classes, func(visit visit) error {
		return metrics.EachFeature(ctx, x, files, func(i int, f, _ []float32) error {
			if by.Progress != nil {
				by.Progress(i+1, len(files))
			}
			return visit(i, f)
		})
	}, err
}
