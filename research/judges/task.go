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
	// Of text: a judge that LoadTextJudge takes, and whether to count contradictions too, for a
	// model that writes what package stories knows.
	Judge   string
	Stories bool

	// Of images: weights of Inception-v3, "" for features of the model's own codec; a directory of
	// PNG files or an .npz, "" for drawn landscapes; and how many of these, 0 for 1000.
	Inception string
	Reference string
	Scenes    int

	// Tasks are questions of text. If there are any, the model answers them instead of making samples
	// to judge.
	Tasks []tasks.Item

	// Base has the fields of a request that the tasks leave out.
	Base unmask.Request

	// Progress is called for the reference's pictures; may be nil.
	Progress func(done, total int) `json:"-"`
}

// NewTask returns the task of measuring m's samples, and the settings of its results, except the
// device and the threads.
func NewTask(ctx context.Context, m *unmask.Model, measure Measure, o Options) (
	t experiments.Task, s experiments.Settings, err error) {
	s = experiments.Settings{}
	if s["model"], err = nameWithFingerprint(m.Name, m.Source); err != nil {
		return t, nil, err
	}
	recipe, err := m.Defaults()
	if err != nil {
		return t, nil, err
	}
	switch {
	case measure.Tasks != nil:
		s["tasks"] = tasks.Digest(measure.Tasks, measure.Base)
		t, err = tasks.New(m, measure.Tasks, measure.Base)
	case m.Text != nil:
		t, err = textTask(ctx, m, measure, o, s)
	case m.Pictures != nil:
		t, err = pictureTask(ctx, m, measure, o, s)
	default:
		err = fmt.Errorf("model %s makes neither text nor pictures", m.Name)
	}
	t.ModelRecipe = recipe
	return t, s, err
}

// textTask returns the task of judging texts, and adds its judge to the settings.
func textTask(ctx context.Context, m *unmask.Model, measure Measure, o Options,
	s experiments.Settings) (t experiments.Task, err error) {
	judge, err := LoadTextJudge(ctx, measure.Judge, o)
	if err != nil {
		return t, err
	}
	if err := judge.checkVocabulary(m.Spec().Outcomes, m.Text.Decode); err != nil {
		return t, err
	}
	var decode func(ids []int32) string
	if measure.Stories {
		decode = m.Text.Decode
	}
	s["judge"], err = nameWithFingerprint(measure.Judge, judge.src)
	return experiments.TextTask(m.Denoiser, judge.Judge, decode), err
}

// pictureTask returns the task of comparing pictures with a reference, and adds both the network of
// features and the reference to the settings.
func pictureTask(ctx context.Context, m *unmask.Model, measure Measure, o Options,
	s experiments.Settings) (t experiments.Task, err error) {
	codec, err := m.Pictures.Codec()
	if err != nil {
		return t, err
	}
	var network experiments.Network
	if measure.Inception != "" {
		s["features"] = measure.Inception
		network, err = LoadInception(measure.Inception, o)
	} else {
		s["features"] = "the model's VQGAN"
		network, err = FeatureNetwork(codec)
	}
	if err != nil {
		return t, err
	}
	measure.Scenes = cmp.Or(measure.Scenes, defaultScenes)
	s["reference"] = measure.Reference
	if measure.Reference == "" {
		s["reference"] = fmt.Sprintf("%d drawn landscapes", measure.Scenes)
	}
	reference, err := LoadReference(ctx, measure, network)
	return experiments.ImageTask(m.Denoiser, codec, network, reference), err
}

// defaultScenes is the default number of landscapes in a reference.
const defaultScenes = 1000

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
func LoadReference(ctx context.Context, measure Measure, x experiments.Network) (
	*experiments.Reference, error) {
	if name := measure.Reference; name != "" {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			g, err := metrics.LoadStats(name)
			if err == nil && len(g.Mean) != x.Width() {
				return nil, fmt.Errorf("%s: statistics of %d features, want %d as the network has", name,
					len(g.Mean), x.Width())
			}
			return &experiments.Reference{Gaussian: g}, err
		}
	}
	_, visitAll, err := measure.referenceFeatures(ctx, x, false)
	if err != nil {
		return nil, err
	}
	return experiments.NewReference(x.Width(), func(add func([]float32) error) error {
		return visitAll(func(_ int, f []float32) error { return add(f) })
	})
}

// visitFunc receives the features of picture i.
type visitFunc = func(i int, features []float32) error

// referenceFeatures returns what computes the features of the reference's pictures, which are a
// directory's files or drawn landscapes, and, with wantClasses, the class of each.
func (m Measure) referenceFeatures(ctx context.Context, x experiments.Network, wantClasses bool) (
	classes []string, visitAll func(visit visitFunc) error, err error) {
	if m.Reference == "" {
		pictures, hours := scenes.Draw(cmp.Or(m.Scenes, defaultScenes), 1)
		visitAll = func(visit visitFunc) error {
			return x.Features(ctx, pictures, func(i int, f, _ []float32) error { return visit(i, f) })
		}
		return hours, visitAll, nil
	}

	files, err := images.List(m.Reference)
	if err != nil {
		return nil, nil, err
	}
	if wantClasses {
		if classes, err = PictureClasses(m.Reference, files); err != nil {
			return nil, nil, err
		}
		if err := checkClasses(classes); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m.Reference, err)
		}
	}
	if err := checkPictures(ctx, x, m.Reference, files); err != nil {
		return nil, nil, err
	}
	visitAll = func(visit visitFunc) error {
		return metrics.EachFeature(ctx, x, files, func(i int, f, _ []float32) error {
			if m.Progress != nil {
				m.Progress(i+1, len(files))
			}
			return visit(i, f)
		})
	}
	return classes, visitAll, nil
}
