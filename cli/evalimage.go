package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"unmask/experiments"
	"unmask/images"
	"unmask/judges"
	"unmask/metrics"
	"unmask/terminal"
)

// evalImageFlags are those of unmask eval image.
type evalImageFlags struct {
	deviceFlags
	by        judges.Measure
	saveStats string
	perClass  bool
	json      bool
}

func newEvalImage() *cobra.Command {
	var f evalImageFlags
	cmd := &cobra.Command{
		Use:   "image DIR",
		Short: "Measure the PNG and JPEG files of a directory against a reference",
		Args:  exactly(1, "a DIR of PNG or JPEG files"),
		Example: `  unmask eval image samples --reference imagenet-val --inception pt_inception-2015-12-05-6726825d.pth
  unmask eval image imagenet-val --inception FILE --save-stats imagenet.npz
  unmask eval image samples --reference imagenet.npz --inception FILE
  unmask eval image nights-and-days --per-class`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0]) },
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.by.Reference, "reference", "",
		"compare with this `DIR` of PNG or JPEG files, or the mu and sigma of this .npz; with --model "+
			"demo its landscapes where none is given")
	cmd.Flags().StringVar(&f.by.Inception, "inception", "",
		"weights of Inception-v3, a `FILE` or directory, for FID and Inception Score; without, the "+
			"features of --model's VQGAN")
	cmd.Flags().StringVar(&f.saveStats, "save-stats", "",
		"write mu and sigma of DIR's features to this `FILE`.npz")
	cmd.Flags().BoolVar(&f.perClass, "per-class", false,
		"also compare each class with its own pictures of the reference; a picture's class is its "+
			"folder's name or, outside folders, the class in its texts")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object: samples, metrics, classes")
	return cmd
}

func (f *evalImageFlags) run(ctx context.Context, dir string) error {
	if f.saveStats != "" {
		if err := checkFile("--save-stats", f.saveStats); err != nil {
			return usage("%v", err)
		}
	}
	files, err := images.List(dir)
	if err != nil {
		return err
	}
	network, err := f.network(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	var r *experiments.Reference
	var by *judges.ByClass
	var classes []string
	if f.perClass {
		if classes, err = judges.Classes(dir, files); err != nil {
			return err
		}
	}
	if f.by.Reference != "" || f.saveStats == "" {
		if f.by.Reference == "" && (f.by.Inception != "" || !isDemo(f.model)) {
			return usage("--reference is missing, want a DIR of images or an .npz, or --save-stats")
		}
		bar := &terminal.Later{Label: "reference"}
		f.by.Progress = bar.Set
		if !f.perClass {
			r, err = judges.LoadReference(ctx, f.by, network)
		} else if by, err = judges.LoadByClass(ctx, f.by, network); err == nil {
			r, err = by.All(), by.Expect(classes)
		}
		bar.Close()
		if err != nil {
			return err
		}
	}
	p := terminal.NewProgress("images", int64(len(files)))
	each := func(i int, features []float32) error {
		p.Add(1)
		if by == nil {
			return nil
		}
		return by.AddFeatures(classes[i], features)
	}
	e, stats, err := judges.EvalPictures(ctx, network, r, files, each)
	p.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if f.saveStats != "" {
		if err := metrics.SaveStats(f.saveStats, stats); err != nil {
			return err
		}
		terminal.Say("wrote the statistics of %d images to %s", len(files), f.saveStats)
	}
	if r == nil {
		return nil
	}
	if few := 10 * network.Width(); len(files) < few {
		terminal.Say("%s of %d features each: the Frechet distance of so few is biased upwards, compare "+
			"it with that of as many alone, or measure %d", terminal.Count(len(files), "image"),
			network.Width(), few)
	}
	if by != nil {
		if e.Classes, err = by.Metrics(ctx); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return printEvaluation(e, f.json)
}

// network returns Inception-v3, or the codec of --model where it is not given.
func (f *evalImageFlags) network(ctx context.Context) (experiments.Network, error) {
	if f.by.Inception != "" {
		o, err := f.judge(nil)
		if err != nil {
			return nil, err
		}
		return judges.LoadInception(f.by.Inception, o)
	}
	codec, err := f.loadCodec(ctx)
	if err != nil {
		return nil, err
	}
	return judges.Features(codec)
}
