package cli

import (
	"context"

	"github.com/spf13/cobra"

	"unmask/cli/terminal"
	"unmask/research/experiments"
	"unmask/research/judges"
)

// evalImageFlags are the flags of unmask eval image.
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
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
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
	if err := checkFile("--save-stats", f.saveStats); err != nil {
		return usage("%v", err)
	}
	o := judges.FolderOptions{Reference: f.by.Reference != "" || f.saveStats == "",
		PerClass: f.perClass, Stats: f.saveStats}
	if o.Reference && f.by.Reference == "" && (f.by.Inception != "" || !isDemo(f.model)) {
		return usage("--reference is missing, want a DIR of images or an .npz, or --save-stats")
	}
	network, err := f.network(ctx)
	if err != nil {
		return err
	}
	reference := terminal.Later{Label: "reference"}
	defer reference.Close()
	f.by.Progress = reference.Set
	var p *terminal.Progress
	o.Begin = func(n int) { reference.Close(); p = terminal.NewProgress("images", int64(n)) }
	o.Each = func() { p.Add(1) }
	e, err := judges.EvalFolder(ctx, dir, network, f.by, o)
	p.Close()
	if err != nil {
		return err
	}
	if f.saveStats != "" {
		terminal.Say("statistics of %s", terminal.Count(e.Samples, "image"))
		if !o.Reference {
			return wrote(nil, f.saveStats)
		}
		terminal.Line(f.saveStats)
	}
	if few := 10 * network.Width(); e.Samples < few {
		terminal.Say("%s of %d features each: the Frechet distance of so few is biased upwards, compare "+
			"it with that of as many alone, or measure %d", terminal.Count(e.Samples, "image"),
			network.Width(), few)
	}
	return show(e, f.json)
}

// network returns Inception-v3 or, without --inception, the codec of --model.
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
