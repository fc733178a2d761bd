package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/judges"
	"unmask/terminal"
)

func newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's architecture, sizes, parameters, dtypes, tokenizer and unused tensors",
		Args: exactly(1, "a MODEL: demo, a directory, org/name[@revision], or an exact one such as "+
			"oracle:markov:length=16,tokens=4"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspect(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func inspect(ctx context.Context, name string, asJSON bool) error {
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	r, err := judges.Inspect(ctx, name, terminal.Download())
	if errors.Is(err, unmask.ErrName) {
		return usage("%v", err)
	} else if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(r)
	}
	fmt.Fprintf(stdout, "model         %s\narchitecture  %s\n", r.Model, r.Architecture)
	switch {
	case r.Entropy != nil && r.EntropyError > 0:
		fmt.Fprintf(stdout, "entropy       %.4g ± %.2g nats a sequence\n", *r.Entropy, r.EntropyError)
	case r.Entropy != nil:
		fmt.Fprintf(stdout, "entropy       %.6g nats a sequence\n", *r.Entropy)
	default:
		fmt.Fprintf(stdout, "parameters    %d\nbytes         %d\n", r.Parameters, r.Bytes)
	}
	for _, size := range slices.Sorted(maps.Keys(r.Sizes)) {
		fmt.Fprintf(stdout, "%-13s %d\n", size, r.Sizes[size])
	}
	for _, dtype := range slices.Sorted(maps.Keys(r.DTypes)) {
		fmt.Fprintf(stdout, "%-13s %d tensors\n", dtype, r.DTypes[dtype])
	}
	if r.Tokenizer != "" {
		fmt.Fprintf(stdout, "tokenizer     %s\n", r.Tokenizer)
	}
	if r.Entropy == nil {
		fmt.Fprintf(stdout, "unused        %s\n", orNone(r.Unused))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(stdout, "note          %s\n", note)
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}
