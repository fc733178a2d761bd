package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/experiments"
	"unmask/param"
	"unmask/runs"
)

// shardFlags choose the part of a run that this machine makes.
type shardFlags struct {
	text  string
	shard runs.Shard
}

func (s *shardFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.text, "shard", "",
		"make part `I/N` of the outputs alone, I from 0 to N-1, for unmask gather; auto takes both from "+
			"a Slurm array's variables or an Indexed Job's")
}

// check reads the flag. out is where the shard goes; want says what it may be.
func (s *shardFlags) check(out bool, want string) (err error) {
	s.shard, err = runs.ParseShard(s.text, nil)
	if refused, ok := errors.AsType[*param.Error](err); ok {
		if refused.Name == "shard" {
			return usage("--%v", refused)
		}
		return usage("--shard is auto: %v", refused)
	}
	if err == nil && !s.shard.Whole() && !out {
		return usage("--shard is %s, want %s with it", s.text, want)
	}
	return err
}

func newGather() *cobra.Command {
	return &cobra.Command{
		Use:   "gather OUT SHARD...",
		Short: "Put the shards of a run together: the folder or file of a single run",
		Long: `Put the shards of a run together, made on any machines by --shard 0/N to N-1/N.

OUT is then the folder, or the file of lines or results, that a single run makes, byte for byte. The
shards must be of one run, have its outputs each once, and every output must be what its shard's
manifest lists; otherwise the difference is said and the exit status is 1. Files of a folder are hard
links to those of the shards where that is possible. What was broken off goes on.`,
		Example: `  unmask image -n 50000 --out shards/7 --shard 7/64
  unmask gather samples shards/*`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("%d arguments, want OUT and the shards", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			gather := runs.Gather
			if experiments.IsJournal(args[1]) {
				gather = experiments.Gather
			}
			n, err := gather(args[0], args[1:])
			if err != nil {
				return err
			}
			return printLine(fmt.Sprintf("%s: %d outputs of %d shards", args[0], n, len(args)-1))
		},
	}
}
