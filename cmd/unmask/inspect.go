package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
	"unmask/model"
)

func newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's architecture, sizes, parameters, dtypes, tokenizer and unused tensors",
		Args:  exactly(1, "a MODEL: demo, a directory, or org/name[@revision]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspect(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// report is what inspect shows.
type report struct {
	Model string `json:"model"`
	model.Info
	DTypes map[string]int `json:"dtypes"` // tensors of each
	Bytes  int            `json:"bytes"`
}

func inspect(ctx context.Context, name string, asJSON bool) error {
	src, err := openSource(ctx, name)
	if err != nil {
		return err
	}
	defer src.Set.Close()
	// Loading checks every weight; nothing is computed, so the plain device will do.
	l, err := model.Load(src, model.Options{Backend: plain.New()})
	if err != nil {
		return err
	}
	r := report{Model: name, Info: l.Info, DTypes: map[string]int{}}
	for _, n := range src.Set.Names() {
		t, _ := src.Set.Get(n)
		r.DTypes[string(t.DType)]++
		r.Bytes += len(t.Data)
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("model         %s\narchitecture  %s\nparameters    %d\nbytes         %d\n", r.Model, r.Architecture, r.Parameters, r.Bytes)
	for _, size := range slices.Sorted(maps.Keys(r.Sizes)) {
		fmt.Printf("%-13s %d\n", size, r.Sizes[size])
	}
	for _, dtype := range slices.Sorted(maps.Keys(r.DTypes)) {
		fmt.Printf("%-13s %d tensors\n", dtype, r.DTypes[dtype])
	}
	if r.Tokenizer != "" {
		fmt.Printf("tokenizer     %s\n", r.Tokenizer)
	}
	fmt.Printf("unused        %s\n", orNone(r.Unused))
	for _, note := range r.Notes {
		fmt.Printf("note          %s\n", note)
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

func openSource(ctx context.Context, name string) (*model.Source, error) {
	if name == "demo" {
		return model.OpenFS(demo.Text(), "demo")
	}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	dir, err := unmask.Locate(ctx, name, downloadProgress())
	if err != nil {
		return nil, err
	}
	return model.Open(dir)
}
