// Package share has the flags and calls for sharing a run among machines: in shards that do not
// know of each other, or with workers that join a hub.
package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/fleet"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/runs"
	"unmask/runs/outputs"
)

// BuildOutputs returns what makes a job's outputs, pictures or texts as kind says, on this machine.
// s are the job's settings: those of a worker must equal the hub's.
func BuildOutputs(kind string, s runs.Settings, j *outputs.Job) fleet.Setup {
	setup := fleet.Setup{
		Settings: s,
		Device:   j.Model.Backend.Name(),
		DigestOf: runs.DigestOfLine,
		Maker:    j.MakeTexts,
	}
	if kind == KindImage {
		setup.DigestOf = runs.DigestOf
		setup.Maker = j.MakePictures
	}
	return setup
}

// MakeOutputs makes n outputs with all workers that join: pictures in the folder out, or texts in
// the file out, as e.Kind says. e has what they are made of.
func (h *Hub) MakeOutputs(ctx context.Context, e Spec, out string, n int, b fleet.Setup) error {
	var store interface {
		fleet.Store
		io.Closer
	}
	var err error
	what := "samples"
	if e.Kind == KindImage {
		what = "images"
		store, err = runs.OpenFolder(filepath.Clean(out), b.Settings, runs.Shard{}, 0)
	} else {
		store, err = runs.OpenLines(out, b.Settings, runs.Shard{}, 0)
	}
	if err != nil {
		return flags.Wrap("--out", err)
	}
	err = h.runHub(ctx, identityFile(out), what, e, fleet.Run{Setup: b, N: n, Store: store})
	return outputs.RunError(err, store.Close())
}

// MeasurePoints measures points into the journal at name with all workers that join. The task was
// made of a model and by.
func (h *Hub) MeasurePoints(ctx context.Context, name string, j *experiments.Journal,
	task experiments.Task, s experiments.Settings, model, kind string, measure judges.Measure,
	list []experiments.Point) error {
	if err := experiments.CheckPoints(task, list); err != nil {
		return err
	}
	measure.Progress = nil
	if task.Kind != "text" {
		measure.Judge = ""
	}
	e := Spec{
		Kind:      KindPoints,
		Model:     model,
		As:        kind,
		Precision: s["precision"],
		Task:      task.Kind,
		Measure:   measure,
		Points:    list,
	}
	c := experiments.NewPointStore(j, task.Kind, list)
	err := h.runHub(ctx, identityFile(name), "points", e, fleet.Run{
		Setup: BuildPoints(task, s, list),
		N:     len(list),
		Store: c,
	})
	return outputs.RunError(err, c.Sort())
}

// BuildPoints returns the maker that measures points of a task.
func BuildPoints(task experiments.Task, s experiments.Settings,
	list []experiments.Point) fleet.Setup {
	shared := map[string]string{"kind": task.Kind, "precision": s["precision"]}
	// hashes without names: workers have other paths
	for _, name := range []string{"model", "judge", "tasks"} {
		shared[name] = s[name][strings.LastIndexByte(s[name], ' ')+1:]
	}
	return fleet.Setup{
		Settings: shared,
		Device:   s["device"],
		DigestOf: experiments.ResultDigest,
		Maker: func(ctx context.Context, first, count int, put outputs.PutFunc) error {
			return experiments.MeasurePoints(ctx, task, list, first, count, put)
		},
	}
}

// identityFile returns the file beside the output in which a hub keeps its identity.
func identityFile(out string) string { return filepath.Clean(out) + ".hub" }

// Shard chooses the part of a run that this machine makes.
type Shard struct {
	runs.Shard
	text string
}

// Register adds --shard.
func (s *Shard) Register(f *pflag.FlagSet) {
	f.StringVar(&s.text, "shard", "",
		"make only part `I/N` of the outputs, I from 0 to N-1, for unmask gather; auto takes both from "+
			"a Slurm array or a Kubernetes Indexed Job")
}

// Check reads the flag. out reports whether the shard has an output, which want describes in
// errors.
func (s *Shard) Check(out bool, want string) (err error) {
	s.Shard, err = runs.ParseShard(s.text, nil)
	if refused, ok := errors.AsType[*param.Error](err); ok {
		if refused.Name == "shard" {
			return flags.Usagef("--%v", refused)
		}
		return flags.Usagef("--shard is auto: %v", refused)
	}
	if err == nil && !s.Whole() && !out {
		return flags.Usagef("--shard is %s, want %s with it", s.text, want)
	}
	return err
}

// GatherCommand returns the command that joins shards.
func GatherCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gather OUT SHARD...",
		Short: "Join the shards of a run to the folder or file of a single run",
		Long: `Join the shards of a run, made on any machines by --shard 0/N to N-1/N.

OUT becomes the folder, or the file of lines, that a single run makes, byte for byte. The
shards must belong to one run and have each of its outputs once, and every output must be what its
shard's manifest lists. Otherwise the command reports the difference and the exit status is 1. Files
of a folder are hard links to those of the shards, if possible. After an interruption the same command
continues.`,
		Example: `  unmask image -n 50000 --out shards/7 --shard 7/64
  unmask gather samples shards/*`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return flags.Usagef("%s, want OUT and the shards", terminal.FormatCount(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := runs.Gather(args[0], args[1:])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d outputs of %d shards\n", args[0], n, len(args)-1)
			return err
		},
	}
}
