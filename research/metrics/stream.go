package metrics

import (
	"context"

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

type read struct {
	list []*images.Image
	err  error
}

// EachFeature visits the features of PNG files in their order. It holds a few images at a time,
// however many there are. An error names the file.
func EachFeature(ctx context.Context, x Extractor, files []string,
	visit func(i int, features, logits []float32) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups := make(chan read)
	go func() {
		defer close(groups)
		for first := 0; first < len(files); first += readAhead {
			var g read
			for _, name := range files[first:min(first+readAhead, len(files))] {
				p, err := images.Read(name)
				if g.err = err; err != nil {
					break
				}
				g.list = append(g.list, p)
			}
			select {
			case groups <- g:
			case <-ctx.Done():
				return
			}
		}
	}()
	done := 0
	for g := range groups {
		if g.err != nil {
			return g.err
		}
		err := x.Features(ctx, g.list, func(i int, features, logits []float32) error {
			return visit(done+i, features, logits)
		})
		if err != nil {
			return err
		}
		done += len(g.list)
	}
	return ctx.Err()
}
