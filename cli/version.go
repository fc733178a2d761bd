package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/internal/buildinfo"
	"unmask/internal/processor"
	"unmask/internal/simd"
)

// newVersion returns the command unmask version.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version and the kernels that this machine uses",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cpu.CheckISA(""); err != nil {
				return err
			}
			fmt.Fprintln(stdout, buildinfo.Version())
			fmt.Fprintf(stdout, "processor: %s\n", processor.Name())
			fmt.Fprintf(stdout, "device: %s\n", cpu.New(cpu.Options{}).Name())
			showGPUs()
			fmt.Fprintf(stdout, "instruction sets:")
			for _, l := range simd.Available() {
				fmt.Fprintf(stdout, " %s", l)
			}
			fmt.Fprintln(stdout)
			return nil
		},
	}
}

// showGPUs names the GPUs that --device can take, or says why there are none.
func showGPUs() {
	gpus, err := cuda.Devices()
	if err != nil {
		fmt.Fprintf(stdout, "no GPU: %v\n", err)
	}
	for _, g := range gpus {
		fmt.Fprintf(stdout, "device: cuda:%d %s, %d multiprocessors, %.1f GB\n", g.Index, g.Model,
			g.Multiprocessors, float64(g.Memory)/1e9)
	}
}
