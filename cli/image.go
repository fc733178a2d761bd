package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/runs"
	"unmask/runs/outputs"
)

// imageFlags are the flags of unmask image.
type imageFlags struct {
	deviceFlags
	samplingFlags
	flags.Images
	share.Shard
	share.Hub
	followFlags
	out    string
	sheet  string
	gif    string
	scale  int
	json   bool
	single bool // the file has one picture as it is, no sheet
}

const defaultSheet = "unmask.png"

// command returns the command with these flags.
func (f *imageFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Generate images",
		Long: `Generate images, onto a contact sheet or into a folder.

With --out FILE.png the file has one picture or, with -n of more, a contact sheet of them.

With --out DIR each image is a file, 000000.png and so on, and DIR/manifest.jsonl has one line per
image: index, seed, sha256. After any interruption the same command continues; the folder becomes,
byte for byte, that of an uninterrupted run, also with another --batch, --threads or -n. A folder that
was begun with another model, seed or setting is refused. unmask verify DIR checks a folder.

Image i depends only on --seed and i.

--inpaint keeps an image and makes a part of it again: where --mask is white or transparent, in
--box, where the image is transparent, or in margins of --fit contain. The image is encoded, every
cell of the model's grid that a white pixel of the mask touches is masked, and others keep their
codes. Their pixels come from the decoder, so they are close to the given ones only for pictures like
those of the model's training; a note says when they are not. --paste puts the given pixels back.

--outpaint makes the image of --inpaint larger by margins. The picture is kept and fades into the new
part over a cell of the grid. The new part is made in windows of the model's size, each beside what is
there already.

Models with classes take --class, by number or by name; without it images have no class. Models with
prompts need --prompt. Either may be repeated, or be read from a file of lines: image i uses entry i,
starting over after the last. --init runs only the last steps, from a given picture: the seed chooses
which of its codes are masked, as many as these steps open.

Flags that are not given have the values of the model's published run; --preset fid takes those of its
authors' evaluation.`,
		Args: noArgs,
		Example: `  unmask image                                 landscapes of the embedded model, to unmask.png
  unmask image --class night --out night.png   one picture
  unmask image -n 4 --out four.png --gif four.gif
  unmask image --model MAGE_DIR -n 50000 --out samples
  unmask image --sampler maskgit --schedule mage --steps 20
  unmask image --inpaint photo.png --mask hole.png
  unmask image --inpaint photo.jpg --box 40,60,128,128 --fit cover
  unmask image --inpaint photo.png --outpaint left=64,right=64
  unmask image --model TITOK_DIR --class "golden retriever"
  unmask image --model AMUSED_DIR --prompt "an oil painting of a lighthouse" --negative blurry`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.Flags()) },
	}
	f.registerFlags(cmd.Flags())
	return cmd
}

// registerFlags adds the flags.
func (f *imageFlags) registerFlags(s *pflag.FlagSet) {
	f.deviceFlags.register(s, "demo")
	f.samplingFlags.register(s, model.Spec{Shape: []int{1, 1}})
	f.Images.Register(s)
	n := s.Lookup("n")
	n.DefValue = "9"
	f.n = 9
	n.Usage = "number of images"
	s.StringVar(&f.out, "out", "", "write the images to this `DIR`, or continue it; "+
		"a FILE.png has one image or, with -n, a contact sheet")
	s.StringVar(&f.sheet, "sheet", "",
		"contact sheet of the first 64 images, a PNG `FILE` (default "+defaultSheet+" without --out)")
	flags.Int(s, &f.scale, param.Param{
		Name:    "scale",
		Min:     0,
		Max:     16,
		Default: "0",
		Help:    "enlarge the contact sheet and the GIF by this factor, 0 to choose by the size of pictures",
	})
	s.StringVar(&f.gif, "gif", "",
		"write a GIF `FILE` of the first 16 images as their tokens open; masked cells are grey")
	f.Shard.Register(s)
	f.Hub.Register(s)
	f.followFlags.register(s, "the cells")
	s.BoolVar(&f.json, "json", false, "one JSON object per image and line: id, seed, ids (codes by "+
		"rows), opened_at, logprobs, steps, seconds, evaluated, file")
}

// run makes the images: with workers, if a hub is open, and then what is missing here.
func (f *imageFlags) run(ctx context.Context, set *pflag.FlagSet) error {
	if err := f.setPictureFile(set); err != nil {
		return err
	}
	overrides, err := f.readOverrides(set)
	if err != nil {
		return err
	}
	if err := f.checkFlags(set); err != nil {
		return err
	}
	m, err := f.loadImages(ctx)
	if err != nil {
		return err
	}
	j, e, err := f.prepareJob(ctx, m, overrides)
	if err != nil {
		return err
	}
	s, err := j.Settings(f.precision)
	if err != nil {
		return wrapError("model "+f.model, err)
	}
	if f.Hub.Enabled() { // workers make what they can, and what they left is made here
		setup := share.BuildOutputs(e.Kind, s, j)
		if err := f.Hub.MakeOutputs(ctx, e, f.out, f.n, setup); err != nil {
			return err
		}
	}
	if err := f.makePictures(ctx, j, s); err != nil {
		return err
	}
	noteSeed(set)
	return nil
}

// setPictureFile makes --out FILE.png mean one picture in that file or, with -n of more, a contact
// sheet in it.
func (f *imageFlags) setPictureFile(flags *pflag.FlagSet) error {
	switch ext := strings.ToLower(filepath.Ext(f.out)); ext {
	case ".png":
	case ".jpg", ".jpeg", ".gif", ".webp":
		return usagef("--out is %s, want FILE.png, or a DIR", param.Quote(f.out))
	default:
		return nil
	}
	if f.sheet != "" || f.Hub.Enabled() || !f.Shard.Whole() {
		return usagef("--out is %s with --sheet, --shard or --hub, want a DIR", param.Quote(f.out))
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	if !flags.Changed("n") {
		f.n = 1
	}

	// A contact sheet of one picture is that picture.
	f.single = f.n == 1
	f.sheet = f.out
	f.out = ""
	return nil
}

// prepareJob prepares the run of the flags, and returns what workers are told about it.
func (f *imageFlags) prepareJob(ctx context.Context, m *unmask.Model,
	overrides generate.Overrides) (j *outputs.Job, e share.Spec, err error) {
	r, inputs, err := f.Request(m, overrides)
	if err != nil {
		return nil, e, err
	}
	r.Seed = f.seed
	j, err = outputs.Prepare(ctx, m, r, inputs, f.n, f.batch)
	if err != nil {
		return nil, e, f.NameFlag(err)
	}
	logNotes(j.Requests.SamplerNotes()...)
	for i := range max(1, len(inputs)) {
		if c := j.Requests.Prepared(i).Condition; c != nil && c.Prompt != nil && c.Prompt.Truncated {
			terminal.Logf("prompt %s is longer than what the model reads: its end is left out",
				param.Quote(j.Requests.Original(i).Prompt))
		}
	}
	if f.Trace != "" && j.Requests.Differ() {
		return nil, e, usagef("--trace with --prompts of more than a prompt or class, want it without")
	}
	lost, err := j.RoundTripLoss()
	f.NoteLoss(lost)
	return j, share.Spec{
		Kind:      share.KindImage,
		Model:     f.model,
		As:        f.as,
		Precision: f.precision,
		Request:   &r,
		Inputs:    inputs,
	}, err
}

// makePictures makes the images of a run and prints where they are.
func (f *imageFlags) makePictures(ctx context.Context, j *outputs.Job, s runs.Settings) error {
	began := time.Now()
	p := outputs.PictureOptions{
		Dir:      f.out,
		Settings: s,
		Shard:    f.Shard.Shard,
		Sheet:    f.sheet,
		Bare:     f.single,
		Scale:    f.scale,
		Film:     f.gif,
		Say:      terminal.Log,
	}
	if f.json {
		p.Lines = pipeTolerant{stdout}
	}
	out, err := outputs.OpenPictures(j, p)
	if err != nil {
		return wrapError("--out", err)
	}
	if j.Enlarges() {
		err = terminal.EnlargePictures(ctx, out)
	} else {
		err = f.makeSamples(ctx, &f.deviceFlags, j, out.Missing(), out,
			outputs.Hooks{Behind: f.threads > 1, Step: out.RecordFilm})
	}
	// After an interruption the finished pictures are there, and are told like those of a whole run.
	written, closed := out.Close(err)
	err = outputs.RunError(err, closed)
	if err != nil && !errors.Is(err, errInterrupted) {
		return err
	}
	if n := out.Written(); n > 0 {
		terminal.Logf("%s in %.1f s", terminal.FormatCount(n, "image"), time.Since(began).Seconds())
	}
	for _, name := range written {
		if f.json { // standard output has the JSON lines
			terminal.Log(name)
		} else if err := printLine(name); err != nil {
			return err
		}
	}
	return err
}

// checkFlags returns an error for impossible outputs, before a model is loaded.
func (f *imageFlags) checkFlags(flags *pflag.FlagSet) error {
	if err := f.Picture.Check(flags); err != nil {
		return err
	}
	if err := f.followFlags.checkFlags(); err != nil {
		return err
	}
	if err := f.Shard.Check(f.out != "", "--out DIR"); err != nil {
		return err
	}
	if err := f.Hub.Check(flags, &f.Shard, f.out != "", "--out DIR"); err != nil {
		return err
	}
	if err := outputs.CheckFolder(f.out, f.Shard.Shard); err != nil {
		return wrapError("--out", err)
	}
	switch {
	case f.Outpaints() && (f.gif != "" || f.Watch || f.Trace != ""):
		return usagef("--outpaint with --gif, --watch or --trace, want it without them")
	case !f.Shard.Whole() && f.gif != "":
		return usagef("--gif with --shard, want it without")
	case f.scale != 0 && f.out != "" && f.sheet == "" && f.gif == "":
		return usagef("--scale is %d, want 0 without --sheet or --gif", f.scale)
	case f.out == "" && f.n > outputs.MaxSheet:
		return usagef("-n is %d without --out DIR, want 1 to %d on a contact sheet", f.n, outputs.MaxSheet)
	}
	if f.out == "" && f.sheet == "" {
		f.sheet = defaultSheet
	}
	for _, file := range []struct {
		flag string
		name string
		ext  string
	}{{"--sheet", f.sheet, ".png"},
		{"--gif", f.gif, ".gif"}} {
		if file.name != "" && !strings.EqualFold(filepath.Ext(file.name), file.ext) {
			return usagef("%s is %s, want a name that ends in %s", file.flag, param.Quote(file.name),
				file.ext)
		}
		if err := checkFile(file.flag, file.name); err != nil {
			return err
		}
	}
	return nil
}
