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
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						version += " " + s.Value
					}
				}
			}
			if err := cpu.Check(""); err != nil {
				return err
			}
			fmt.Printf("unmask %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Printf("device: %s\n", cpu.New(cpu.Options{}).Name())
			showGPUs()
			fmt.Printf("instruction sets:")
			for _, l := range simd.Available() {
				fmt.Printf(" %s", l)
			}
			fmt.Println()
			return nil
		},
	}
}

// showGPUs names the GPUs that --device can take, or says why there are none.
func showGPUs() {
	gpus, err := cuda.Devices()
	if err != nil {
		fmt.Printf("no GPU: %v\n", err)
	}
	for _, g := range gpus {
		fmt.Printf("device: cuda:%d %s, %d multiprocessors, %.1f GB\n", g.Index, g.Model, g.Multiprocessors, float64(g.Memory)/1e9)
	}
}
