package metrics

import (
	"context"
	"slices"

	"unmask/media/images"
)

// Extractor turns images into features, such as inception.Model. Features passes on each image's
// features and logits, nil where it has none, in the images' order.
type Extractor interface {
	Features(ctx context.Context, list []*images.Image,
		visit func(i int, features, logits []float32) error) error
}

// readAhead is the number of images that are decoded while the same number are computed.
const readAhead = 8

// imageGroup is a few decoded images, or the error of one of them.
type imageGroup struct {
	images []*images.Image
	err    error
}

// EachFeature visits the features of PNG files in their order. It holds a few images at a time,
// however many there are: the next group is decoded while the features of one are computed. An
// error names the file.
func EachFeature(ctx context.Context, x Extractor, files []string,
	visit func(i int, features, logits []float32) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups := make(chan imageGroup)
	go func() {
		defer close(groups)
		for names := range slices.Chunk(files, readAhead) {
			select {
			case groups <- readGroup(names):
			case <-ctx.Done():
				return
			}
		}
	}()

	visited := 0
	for g := range groups {
		if g.err != nil {
			return g.err
		}
		err := x.Features(ctx, g.images, func(i int, features, logits []float32) error {
			return visit(visited+i, features, logits)
		})
		if err != nil {
			return err
		}
		visited += len(g.images)
	}
	return ctx.Err()
}

// readGroup reads pictures up to the first that cannot be read.
func readGroup(names []string) (g imageGroup) {
	for _, name := range names {
		p, err := images.Read(name)
		if err != nil {
			g.err = err
			break
		}
		g.images = append(g.images, p)
	}
	return g
}
