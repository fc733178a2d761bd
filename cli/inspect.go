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
	"unmask/model"
	"unmask/theory/oracle"
	"unmask/weights"
)

func newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's architecture, sizes, parameters, dtypes, tokenizer and unused tensors",
		Args:  exactly(1, "a MODEL: demo, a directory, org/name[@revision], or an exact one such as oracle:markov:length=16,tokens=4"),
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

	// Of an exact model, the entropy of a sequence and its standard error, nats.
	Entropy      *float64 `json:"entropy,omitempty"`
	EntropyError float64  `json:"entropy_error,omitempty"`
}

func inspect(ctx context.Context, name string, asJSON bool) error {
	r, err := inspectModel(ctx, name)
	if err != nil {
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

func inspectModel(ctx context.Context, name string) (report, error) {
	if unmask.IsExact(name) {
		return inspectExact(ctx, name)
	}
	// Loading checks every weight; nothing is computed.
	o := unmask.Options{Backend: newReading(), Progress: downloadProgress()}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	info, set, err := inspectFiles(ctx, name, o)
	if err != nil {
		return report{}, inspectError(err)
	}
	defer set.Close()
	r := report{Model: name, Info: info, DTypes: map[string]int{}}
	for _, n := range set.Names() {
		t, _ := set.Get(n)
		r.DTypes[string(t.DType)]++
		r.Bytes += len(t.Data)
	}
	return r, nil
}

// inspectFiles loads a model, or a judge of text.
func inspectFiles(ctx context.Context, name string, o unmask.Options) (model.Info, *weights.Set, error) {
	m, err := unmask.Load(ctx, name, o)
	if err == nil {
		return m.Info, m.Source.Set, nil
	}
	judge, none := judges.LoadText(ctx, name, judges.Options{Backend: o.Backend})
	if none != nil {
		return model.Info{}, nil, err
	}
	return judge.Info(), judge.Source().Set, nil
}

// inspectExact shows what is known of an exact model.
func inspectExact(ctx context.Context, name string) (report, error) {
	m, err := unmask.Load(ctx, name, unmask.Options{})
	if err != nil {
		return report{}, inspectError(err)
	}
	r := report{Model: name, Info: m.Info, DTypes: map[string]int{}}
	nats, deviation := m.Denoiser.(*oracle.Denoiser).Model.Entropy()
	r.Entropy, r.EntropyError = &nats, deviation
	return r, nil
}

// inspectError is a mistake on the command line where a name can be no model's.
func inspectError(err error) error {
	if errors.Is(err, unmask.ErrName) {
		return usage("%v", err)
	}
	return err
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}
