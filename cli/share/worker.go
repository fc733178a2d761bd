//go:build !nofleet

package share

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/fleet"
)

// workerFlags are the flags of unmask worker.
type workerFlags struct {
	join     string
	name     string
	cache    string
	models   []string
	patience time.Duration
	device   string
	threads  int
	build    BuildFunc
}

// WorkerCommands returns the commands that only builds with NATS have. build prepares a worker.
func WorkerCommands(build BuildFunc) []*cobra.Command {
	f := workerFlags{build: build}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Make outputs for the hub of a run on another machine",
		Long: `Make outputs for the hub of a run on another machine, until all outputs are there.

--join takes the line that unmask image, text, sweep or reproduce printed with --hub or,
after @, a file that begins with that line, such as the hub's OUT.hub on a shared disk. Weights come
from the hub, unless --model names a place that has them, and are kept. A worker whose first output
differs from the hub's in any byte is refused.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return flags.Usagef("argument is %q, want flags only", args[0])
			}
			return nil
		},
		Example: `  unmask worker --join "unmask://TOKEN@10.0.0.5:4333?id=...&cert=sha256:..."
  unmask worker --join @samples.hub --model MAGE_DIR`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runWorker(cmd.Context()) },
	}
	s := cmd.Flags()
	s.StringVar(&f.join, "join", "", "`LINE` that a hub printed, or @FILE that begins with it")
	s.StringVar(&f.name, "name", "", "`NAME` that the hub shows (default the machine's and a number)")
	s.StringVar(&f.cache, "cache", "",
		"`DIR` that keeps weights by their hash (default unmask/fleet in the user's cache)")
	s.StringArrayVar(&f.models, "model", nil, "`PLACE` where the weights may be already; may be repeated")
	flags.Duration(s, &f.patience, "patience", 10*time.Minute,
		"`TIME` without contact to the hub after which the worker ends")
	flags.Device(s, &f.device)
	flags.Threads(s, &f.threads, "processor cores to use")
	return []*cobra.Command{cmd}
}

// runWorker checks the flags and works for the hub until its run is done.
func (f *workerFlags) runWorker(ctx context.Context) error {
	if f.join == "" {
		return flags.Usagef("--join is missing, want the line that a hub printed")
	}
	j, err := fleet.ParseJoinLine(f.join)
	if _, file := errors.AsType[*fs.PathError](err); file {
		return flags.Wrap("--join", err)
	} else if err != nil {
		return flags.Usagef("%v", flags.Wrap("--join", err))
	}
	if f.patience <= 0 {
		return flags.Usagef("--patience is %s, want a time above 0", f.patience)
	}
	if f.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return flags.Wrap("--cache", err)
		}
		f.cache = filepath.Join(dir, "unmask", "fleet")
	}
	if err := flags.CheckDevice(f.device); err != nil {
		return err
	}
	return fleet.Work(ctx, j, fleet.WorkerOptions{
		Name:       f.name,
		Cache:      f.cache,
		LocalPaths: f.models,
		Patience:   f.patience,
		Info:       machineInfo(processorName(f.threads)),
		Say:        terminal.Log,
		Build: func(ctx context.Context, s fleet.Source) (fleet.Setup, error) {
			e, err := readSpec(s)
			if err != nil {
				return fleet.Setup{}, err
			}
			e.Device = f.device
			e.Threads = f.threads
			return f.build(ctx, e)
		},
	})
}
