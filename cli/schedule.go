package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"unmask/generate"
	"unmask/internal/whole"
	"unmask/judges"
	"unmask/param"
	"unmask/param/flags"
	"unmask/samplers"
	"unmask/terminal"
)

// scheduleFile is a schedule as unmask schedule stores it.
type scheduleFile struct {
	Times []float64 `json:"times"` // after each step, from below 1 to 0
}

const (
	scheduleSuffix  = ".json"
	maxScheduleFile = 1 << 20 // bytes
	maxScheduleData = 4096    // samples
)

// readScheduleFile reads a schedule from a file of unmask schedule.
func readScheduleFile(name string) (samplers.Schedule, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxScheduleFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, whole.Cause(err))
	}
	s, err := readSchedule(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func readSchedule(data []byte) (samplers.Schedule, error) {
	var f scheduleFile
	if len(data) > maxScheduleFile {
		return nil, fmt.Errorf("more than %d bytes", maxScheduleFile)
	}
	if err := json.Unmarshal(data, &f); err != nil || len(f.Times) == 0 {
		return nil, errors.New("no schedule of unmask schedule: want {\"times\":[...]}")
	}
	return samplers.Times(f.Times)
}

func newSchedule() *cobra.Command {
	var d deviceFlags
	var out string
	var steps int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "schedule FILE.jsonl",
		Short: "Find a schedule for a model from samples of text, once, for --schedule",
		Long: `Find a schedule for a model from samples of text, once, for --schedule.

Measures how much the model knows of the samples (lines of unmask text --json, of one length) at
each level of masking and puts the steps where they gain most ("jump your steps", Park et al.
2025). The times are stored as JSON and serve every run with that many steps.`,
		Example: `  unmask text -n 32 --steps 128 --json --out samples.jsonl
  unmask schedule samples.jsonl --steps 16 --out times.json
  unmask text --steps 16 --schedule times.json`,
		Args: exactly(1, "a FILE.jsonl of unmask text --json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasSuffix(out, scheduleSuffix) {
				return usage("--out is %q, want a name that ends in %s", out, scheduleSuffix)
			}
			if err := checkFile("--out", out); err != nil {
				return err
			}
			return d.findSchedule(cmd.Context(), args[0], out, steps, seed)
		},
	}
	d.register(cmd.Flags(), "demo")
	flags.Int(cmd.Flags(), &steps,
		param.Param{Name: "steps", Min: 1, Max: 1 << 16, Default: "16", Help: "denoising steps N"})
	cmd.Flags().StringVar(&out, "out", "times.json", "write the schedule to this `FILE`")
	seedFlag(cmd.Flags(), &seed, "which positions are masked; same seed, same schedule")
	return cmd
}

func (d *deviceFlags) findSchedule(ctx context.Context, name, out string, steps int,
	seed uint64) error {
	m, err := d.loadText(ctx)
	if err != nil {
		return err
	}
	if steps < 1 || steps > m.Spec().Length() {
		return usage("--steps is %d, want 1 to %d", steps, m.Spec().Length())
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	data, err := judges.ReadSamples(in, maxScheduleData)
	if err != nil {
		return fmt.Errorf("%s: %w", name, whole.Cause(err))
	}
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	profile, err := generate.Profile(ctx, m.Denoiser, data, seed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	times, err := samplers.JYS(steps, profile)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	if err := json.NewEncoder(&file).Encode(scheduleFile{times}); err != nil {
		return err
	}
	if err := writeWhole(out, file.Bytes()); err != nil {
		return fmt.Errorf("--out %s: %w", out, whole.Cause(err))
	}
	terminal.Say("%s: %d steps", out, steps)
	return nil
}
