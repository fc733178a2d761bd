package share

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/param"
	"unmask/runs"
)

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
			return flags.Usage("--%v", refused)
		}
		return flags.Usage("--shard is auto: %v", refused)
	}
	if err == nil && !s.Whole() && !out {
		return flags.Usage("--shard is %s, want %s with it", s.text, want)
	}
	return err
}

// Gather returns the command that joins shards.
func Gather() *cobra.Command {
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
				return flags.Usage("%s, want OUT and the shards", terminal.Count(len(args), "argument"))
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
