package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/internal/simd"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, and which kernels this machine gets",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cpu.Check(""); err != nil {
				return err
			}
			fmt.Fprintln(stdout, version())
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

// version is one line: the program's version, Go's, and the platform.
func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return fmt.Sprintf("unmask %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
