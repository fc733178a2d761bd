package judges

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"unmask/media/images"
	"unmask/param"
	"unmask/research/experiments"
)

// sizeChecker is implemented by networks that take pictures of one size.
type sizeChecker interface {
	// CheckSize returns an error for a picture of another size.
	CheckSize(p *images.Image) error
}

// checkPictures decodes the files of dir, on all processors, before x, which is much slower,
// computes their features: a broken file among thousands is found in seconds, not after an hour. It
// returns the error of the first file that x would refuse. Fewer than 2 files have no covariance.
func checkPictures(ctx context.Context, x experiments.Network, dir string, files []string) error {
	if len(files) < 2 {
		return fmt.Errorf("%s: pictures is %d, want at least 2", dir, len(files))
	}
	for group := range slices.Chunk(files, runtime.GOMAXPROCS(0)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs := make([]error, len(group))
		var work sync.WaitGroup
		for i, name := range group {
			work.Go(func() { errs[i] = checkPicture(x, name) })
		}
		work.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPicture returns an error for a file that is no picture or, where the network wants one size,
// has another.
func checkPicture(x experiments.Network, name string) error {
	p, err := images.Read(name)
	if err != nil {
		return err
	}
	if s, ok := x.(sizeChecker); ok {
		if err := s.CheckSize(p); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkClasses returns an error for a class of fewer than 2 pictures; classes has that of each
// picture.
func checkClasses(classes []string) error {
	counts := map[string]int{}
	for _, name := range classes {
		counts[name]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] < 2 {
			return fmt.Errorf("class %s: pictures is %d, want at least 2", param.Quote(name),
				counts[name])
		}
	}
	return nil
}
