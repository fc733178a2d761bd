package judges

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unmask/media/images"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/metrics"
)

// PictureClasses returns the class of each picture below dir: the name of its folder in dir or, for
// a picture in dir itself, the class in its text chunks, which unmask image writes.
func PictureClasses(dir string, files []string) ([]string, error) {
	classes := make([]string, len(files))
	for i, name := range files {
		path, err := filepath.Rel(dir, name)
		if err != nil {
			return nil, err
		}
		if folder, _, ok := strings.Cut(filepath.ToSlash(path), "/"); ok {
			classes[i] = folder
			continue
		}
		texts, err := images.ReadLabels(name)
		if err != nil {
			return nil, err
		}
		classes[i] = texts["class"]
		if classes[i] == "" {
			return nil, fmt.Errorf("%s: there is no class, want one in its texts or as its folder", name)
		}
	}
	return classes, nil
}

// ClassReferences compares pictures with the references of their classes, and with a reference of
// all.
type ClassReferences struct {
	All *experiments.Reference // of all classes together

	// scorers and counts are those of the expected classes, counts of their pictures.
	scorers map[string]*experiments.ImageScorer
	counts  map[string]int
}

// maxMoments is the most numbers, of 8 bytes, in the statistics of all classes: each has a
// covariance of width times width.
const maxMoments = 1 << 28

// LoadClassReferences returns the references of measure: of a directory's files by PictureClasses
// or, if measure.Reference is "", of drawn landscapes by their hour. want has the class of each
// picture that will be added; each class must be in the reference and have 2 pictures at least.
func LoadClassReferences(ctx context.Context, measure Measure, x experiments.Network,
	want []string) (*ClassReferences, error) {
	if measure.Reference != "" {
		info, err := os.Stat(measure.Reference)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s: one file has no classes, want a directory", measure.Reference)
		}
	}
	classes, visitAll, err := measure.referenceFeatures(ctx, x, true)
	if err != nil {
		return nil, err
	}
	width := x.Width()
	names := slices.Compact(slices.Sorted(slices.Values(classes)))
	if limit := maxMoments / (width * width); len(names) > limit {
		return nil, fmt.Errorf("the reference has %d classes, want 1 to %d with %d features", len(names),
			limit, width)
	}
	c := &ClassReferences{scorers: map[string]*experiments.ImageScorer{}, counts: map[string]int{}}
	for _, name := range want {
		if !slices.Contains(names, name) {
			return nil, param.Unknown("class", name, names)
		}
		c.counts[name]++
	}
	if err := checkClasses(want); err != nil {
		return nil, err
	}

	// One pass over the pictures fills the statistics of all and of each class.
	moments := map[string]*metrics.Moments{}
	for _, name := range names {
		moments[name] = metrics.NewMoments(width)
	}
	c.All, err = experiments.NewReference(width, func(add func([]float32) error) error {
		return visitAll(func(i int, f []float32) error {
			if err := moments[classes[i]].Add(f); err != nil {
				return err
			}
			return add(f)
		})
	})
	if err != nil {
		return nil, err
	}
	for name, m := range moments {
		g, err := m.Gaussian()
		if err != nil {
			return nil, fmt.Errorf("class %s of the reference: %w", param.Quote(name), err)
		}
		if c.counts[name] > 0 {
			c.scorers[name] = experiments.NewImageScorer(x, &experiments.Reference{Gaussian: g}, 0)
		}
	}
	return c, nil
}

// AddFeatures adds a picture of one of the classes that LoadClassReferences was given.
func (c *ClassReferences) AddFeatures(class string, features []float32) error {
	return c.scorers[class].AddFeatures(features, nil)
}

// Metrics returns the metrics of all expected classes, by name.
func (c *ClassReferences) Metrics(ctx context.Context) (list []experiments.ClassMetrics,
	err error) {
	for _, name := range slices.Sorted(maps.Keys(c.scorers)) {
		m, err := c.scorers[name].Metrics(ctx)
		if err != nil {
			return nil, fmt.Errorf("class %s: %w", param.Quote(name), err)
		}
		list = append(list, experiments.ClassMetrics{
			Class:   name,
			Samples: c.counts[name],
			Metrics: m,
		})
	}
	return list, nil
}
