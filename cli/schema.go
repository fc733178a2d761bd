package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/internal/atomicfile"
	"unmask/prompt"
)

// maxInstance bounds a line of --instances.
const maxInstance = 64 << 20

// schemaReport is what the schema command prints.
type schemaReport struct {
	States   int           `json:"states"`        // over bytes
	Tokens   int           `json:"token_states"`  // over tokens
	Classes  int           `json:"token_classes"` // tokens that no state tells apart
	Bytes    int           `json:"bytes"`         // of memory
	Shortest int           `json:"shortest"`      // tokens of the shortest text, without its end
	Bounds   schema.Bounds `json:"bounds"`
}

// newSchema returns the command unmask schema.
func newSchema() *cobra.Command {
	var d deviceFlags
	var instances string
	var compact, asJSON bool
	var depth int
	cmd := &cobra.Command{
		Use:   "schema FILE",
		Short: "Compile a JSON Schema as text --schema does, and try instances",
		Long: `Compile a JSON Schema as "unmask text --schema" does, for a model's vocabulary.

The numbers are the states of the automaton over bytes and over tokens, the classes of tokens that no
state tells apart, and the tokens of the shortest text. The bounds say how far the automaton goes
where a schema has no end; docs/structured.md explains them.

With --instances, each line of a file is written as the engine would write it, with keys in the
schema's order, and a line {"accepted": true} says whether the automaton accepts it.`,
		Args:    exactArgs(1, "the FILE of a JSON Schema"),
		Example: `  unmask schema order.json --instances orders.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := atomicfile.ReadSmall(args[0], flags.MaxSchema)
			if err != nil {
				return err
			}
			s, err := schema.Compile(data, schema.Options{Compact: compact, Recursion: depth})
			if err != nil { // before a model is loaded, which takes longer
				return fmt.Errorf("%s: %w", args[0], err)
			}
			m, err := d.loadModel(cmd.Context())
			if err != nil {
				return err
			}
			r, err := reportSchema(s, m)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := printValue(&r, asJSON); err != nil || instances == "" {
				return err
			}
			return tryInstances(cmd.Context(), s, instances)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&instances, "instances", "", "JSON values to try, one a line of this `FILE`")
	flags.Int(cmd.Flags(), &depth, prompt.Recursion)
	cmd.Flags().BoolVar(&compact, "compact", false, "JSON without spaces after commas and colons")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// reportSchema compiles a schema for a model's vocabulary and returns its sizes.
func reportSchema(s *schema.Schema, m *unmask.Model) (r schemaReport, err error) {
	if m.Text == nil {
		return r, usagef("--model %s, want one that makes text", m.Name)
	}
	t, err := s.Tokens(prompt.NewVocabulary(m.Text, m.Spec()), grammar.TokenOptions{})
	if err != nil {
		return r, err
	}
	return schemaReport{
		States:   s.States(),
		Tokens:   t.States(),
		Classes:  t.ClassCount,
		Bytes:    t.Bytes(),
		Shortest: int(t.MinTokens[t.Start]),
		Bounds:   s.Bounds,
	}, nil
}

// String describes the report in lines.
func (r *schemaReport) String() string {
	return fmt.Sprintf(`states: %d over bytes, %d over tokens
classes of tokens: %d
memory: %.1f MiB
shortest text: %d tokens
free values nest %d deep, lists in them %d; definitions %d in themselves
a text with a maxLength has at most %d characters, %d of them counted one by one
a list with a maxItems has at most %d items
`, r.States, r.Tokens, r.Classes, float64(r.Bytes)/(1<<20), r.Shortest, r.Bounds.Free,
		r.Bounds.Arrays, r.Bounds.Recursion, r.Bounds.Text, r.Bounds.Exact,
		r.Bounds.Items)
}

// tryInstances prints for each line of a file whether the schema's automaton accepts it.
func tryInstances(ctx context.Context, s *schema.Schema, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxInstance)
	n := 1
	for ; ctx.Err() == nil && lines.Scan(); n++ {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			text, err := s.Write(line)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", file, n, err)
			}
			if err := writeStdout(fmt.Sprintf("{\"accepted\": %v}\n", s.Match(text))); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w, want lines of at most %d bytes", file, n, err, maxInstance)
	}
	return ctx.Err()
}
