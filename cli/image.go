package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/terminal"
	"unmask/traces"
)

// imageFlags are those of unmask image.
type imageFlags struct {
	deviceFlags
	samplingFlags
	tokenFlags
	conditionFlags
	initFlags
	out, sheet, gif string
	scale           int
	inpaintFlags
	watch, json bool
	trace       string
}

const defaultSheet = "unmask.png"

func newImage() *cobra.Command {
	var f imageFlags
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Generate images",
		Long: `Generate images, onto a contact sheet or into a folder.

With --out DIR each image is a file, 000000.png and so on, and DIR/manifest.jsonl has a line of
each: index, seed, sha256. A run that was broken off, by whatever, continues with the same
command; the folder is then the one that an uninterrupted run makes, byte for byte, also with
another --batch, --threads or -n. A folder that was begun with another model, seed or setting
is refused. unmask verify DIR checks one.

Image i depends on --seed and i alone.

--inpaint keeps an image but where --mask is white or transparent, in --box, or where the image itself
is transparent, and makes that new. It works on cells of the
model's grid: the image is encoded, every cell that a white pixel of the mask touches is masked,
the others keep their codes. Their pixels are what the decoder makes of those codes: close to the
given ones where the picture is like those that the model was trained on, and it is said where they
are not. --paste puts the given pixels back.

A model of classes takes --class, by number or by name; without it images have no class. A model of
prompts needs --prompt. Either may be given more than once, or as a file of lines: image i takes
number i, and begins again after the last. --init draws the last steps alone, from a given picture
of which the codes that these steps would open are forgotten, by the seed. Flags that are not given are those of the run that the
model was published with; --preset fid takes the settings of its authors' evaluation.`,
		Args: noArgs,
		Example: `  unmask image                                 landscapes of the embedded model, to unmask.png
  unmask image -n 4 --sheet four.png --gif four.gif
  unmask image --model MAGE_DIR -n 50000 --out samples
  unmask image --sampler maskgit --schedule mage --steps 20
  unmask image --inpaint photo.png --mask hole.png
  unmask image --inpaint photo.jpg --box 40,60,128,128 --fit cover
  unmask image --model TITOK_DIR --class "golden retriever"
  unmask image --model AMUSED_DIR --prompt "an oil painting of a lighthouse" --negative blurry`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.Flags()) },
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	f.samplingFlags.register(cmd.Flags(), model.Spec{Shape: []int{1, 1}})
	f.tokenFlags.register(cmd.Flags(), "ids of the codebook such as 3,17")
	f.conditionFlags.register(cmd.Flags())
	f.initFlags.register(cmd.Flags())
	n := cmd.Flags().Lookup("n")
	n.DefValue, f.n = "9", 9
	n.Usage = "how many images"
	cmd.Flags().StringVar(&f.out, "out", "", "write the images to this `DIR`, or continue it")
	cmd.Flags().StringVar(&f.sheet, "sheet", "",
		"contact sheet of the first 64 images, a PNG `FILE` (default "+defaultSheet+" without --out)")
	intFlag(cmd.Flags(), &f.scale, "",
		param.Param{Name: "scale", Min: 1, Max: 16, Default: "1",
			Help: "enlarge the contact sheet so many times"})
	cmd.Flags().StringVar(&f.gif, "gif", "",
		"the first 16 images as their tokens open, masked cells in grey, a GIF `FILE`")
	f.inpaintFlags.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.watch, "watch", false, "redraw the cells in the terminal as they open")
	cmd.Flags().StringVar(&f.trace, "trace", "",
		"write what opened when, with which probability, to this new `FILE` for unmask replay")
	cmd.Flags().BoolVar(&f.json, "json", false,
		"one JSON object a line and image: id, seed, ids (codes by rows), opened_at, logprobs, steps, "+
			"seconds, evaluated, file")
	return cmd
}

func (f *imageFlags) run(ctx context.Context, flags *pflag.FlagSet) error {
	o, err := f.generation(flags)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := f.initFlags.check(flags, f.inpaint); err != nil {
		return err
	}
	if f.watch && !terminal.Draws(os.Stderr) {
		return usage("--watch needs a terminal on standard error")
	}
	m, err := f.loadImages(ctx)
	if err != nil {
		return err
	}
	if err := f.choosePreset(m, f.inpaint != ""); err != nil {
		return err
	}
	if o, err = f.published(flags, m, o); err != nil {
		return err
	}
	if err := f.conditions(ctx, m, &o); err != nil {
		return err
	}
	if f.inpaint != "" {
		if o.Tokens, err = f.inpaintFlags.tokens(m); err != nil {
			return err
		}
	}
	if err := m.Constrain(&o, unmask.Constraints{Ban: f.ban, Bias: f.bias}); err != nil {
		return usage("%v", err)
	}
	free := m.Spec().Length()
	if o.Tokens != nil {
		free = holes(o.Tokens, m.Spec().Mask)
	}
	f.fitSteps(flags, &o, free)
	if o, err = m.Check(o); err != nil {
		return usage("%v", err)
	}
	if f.init != "" {
		if o, err = f.start(m, o, f.fit); err != nil {
			return err
		}
	}
	out, err := openImageOutput(f, m, o)
	if err != nil {
		return err
	}
	err = f.generate(ctx, m, o, out)
	return ended(err, out.close(err))
}

// check refuses outputs before a model is loaded.
func (f *imageFlags) check() error {
	if err := f.inpaintFlags.check(); err != nil {
		return err
	}
	switch {
	case f.paste && f.inpaint == "":
		return usage("--paste, want --inpaint with it")
	case f.out == "" && f.n > sheetImages:
		return usage("-n is %d without --out DIR, want 1 to %d on a contact sheet", f.n, sheetImages)
	}
	if f.out == "" && f.sheet == "" {
		f.sheet = defaultSheet
	}
	for _, file := range []struct{ flag, name, ext string }{{"--sheet", f.sheet, ".png"},
		{"--gif", f.gif, ".gif"}} {
		if file.name != "" {
			if !strings.EqualFold(filepath.Ext(file.name), file.ext) {
				return usage("%s is %s, want a name that ends in %s", file.flag, param.Quote(file.name),
					file.ext)
			}
			if err := checkFile(file.flag, file.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// codedImage is a finished sequence, or one that an interrupt cut off.
type codedImage struct {
	index     int
	codes     []int32
	steps     int
	seconds   float64 // since its batch's start
	evaluated generate.Evaluated
	opening   *traces.Opening
}

// generate runs the loop over what out still wants. Finished batches are decoded and written
// while the next one's steps run, where there is more than one thread.
func (f *imageFlags) generate(ctx context.Context, m *unmask.Model, o generate.Options,
	out *imageOutput) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deliver, finish := out.put, func() error { return nil }
	if f.threads > 1 {
		deliver, finish = background(out.put, cancel)
	}
	runs := out.runs(o)
	var total int64
	for _, r := range runs {
		total += int64(o.Steps) * int64((r.N+o.Batch-1)/o.Batch)
	}
	p := terminal.NewProgress("steps", total)
	defer p.Close()
	var watch *terminal.Watcher
	if f.watch {
		watch = terminal.NewWatcher(m, os.Stderr)
	}
	trace, err := openTrace(f.trace, f.model, m, o)
	if err != nil {
		return errors.Join(err, finish())
	}
	var failed error
	for _, r := range runs {
		seen := func(step *generate.Step) error {
			if watch != nil {
				watch.Draw(step)
			} else {
				p.Add(1)
			}
			return trace.write(step)
		}
		if failed = f.batches(ctx, m, r, out, deliver, p, seen); failed != nil {
			break
		}
	}
	if watch != nil {
		watch.Clear()
	}
	failed = ended(failed, trace.close(failed))
	if written := finish(); written != nil {
		return written
	}
	return failed
}

// background runs put in a goroutine, so that decoding overlaps the next batch. An error cancels
// the run and comes back from finish, which waits.
func background(put func([]codedImage) error,
	cancel context.CancelCauseFunc) (deliver func([]codedImage) error, finish func() error) {
	batches, done := make(chan []codedImage), make(chan struct{})
	var failed error
	go func() {
		defer close(done)
		for b := range batches {
			if failed == nil {
				if failed = put(b); failed != nil {
					cancel(failed)
				}
			}
		}
	}()
	deliver = func(b []codedImage) error {
		batches <- b
		return nil
	}
	return deliver, func() error {
		close(batches)
		<-done
		return failed
	}
}

// batches runs contiguous images.
func (f *imageFlags) batches(ctx context.Context, m *unmask.Model, o generate.Options,
	out *imageOutput, deliver func([]codedImage) error, p *terminal.Progress,
	seen func(*generate.Step) error) error {
	var batch []codedImage
	var openings traces.Openings
	seconds := 0.0
	for step, err := range interruptible(ctx, unmask.Generate(ctx, m, o)) {
		if err == errInterrupted {
			p.Close()
			return out.interrupted(step, batch, &openings, deliver)
		}
		if err != nil {
			return err
		}
		if step.N <= 1 {
			batch, seconds = make([]codedImage, len(step.Sequences)), 0
		}
		seconds += step.Seconds
		openings.Add(step)
		if err := seen(step); err != nil {
			return err
		}
		for i := range step.Sequences {
			s := &step.Sequences[i]
			out.film.Add(s)
			if s.Done && batch[i].codes == nil {
				batch[i] = newCodedImage(step, s, seconds, &openings)
			}
		}
		if step.Done {
			if err := deliver(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

func newCodedImage(step *generate.Step, s *generate.Sequence, seconds float64,
	openings *traces.Openings) codedImage {
	return codedImage{index: s.Index, codes: append([]int32(nil), s.Tokens...), steps: step.N,
		seconds: seconds, evaluated: s.Evaluated, opening: openings.Take(s.Index)}
}
