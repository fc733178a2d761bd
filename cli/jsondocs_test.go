package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"unmask/bench"
	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/research/theory"
	"unmask/runs/outputs"
	"unmask/samplers"
	"unmask/weights/hub"
)

// evaluation has the names that the JSON of an experiments.Evaluation has: it writes itself.
type evaluation struct {
	Samples int                        `json:"samples"`
	LeftOut int                        `json:"left_out"`
	Metrics map[string]evaluatedMetric `json:"metrics"`
	Classes []struct {
		Class   string          `json:"class"`
		Samples int             `json:"samples"`
		Frechet evaluatedMetric `json:"frechet"`
	} `json:"classes"`
}

type evaluatedMetric struct {
	Value     float64 `json:"value"`
	Error     float64 `json:"error"`
	Deviation float64 `json:"deviation"`
}

// jsonOutputs are the types that commands write with --json, and where docs/json.md has their
// fields: between two texts, or in the row of a table that begins with the text.
var jsonOutputs = map[string]struct {
	begin string
	end   string
	types []any
}{
	"unmask text": {"`unmask text --json` writes", "\n`unmask image", []any{outputs.TextRecord{}}},
	"unmask image": {"`unmask text --json` writes", "\n`--prompts FILE`",
		[]any{outputs.PictureRecord{}}},
	"unmask eval text":  {"| `unmask eval text --json`", "\n", []any{evaluation{}}},
	"unmask eval image": {"| `unmask eval text --json`, `eval image --json`", "\n", []any{evaluation{}}},
	"unmask speech":     {"| `unmask speech --json`", "\n", []any{speechLine{}}},
	"unmask score": {"| `unmask score --inputs --json`", "\n| `unmask embed",
		[]any{scoredQuestion{}, scoredSequence{}, scoredMutation{}, failedSequence{}}},
	"unmask eval exactness": {"| `unmask eval exactness --json`", "\n", []any{experiments.Result{}}},
	"unmask eval tasks":     {"| `unmask eval tasks --json`", "\n", []any{experiments.Accuracy{}}},
	"unmask samplers":       {"| `unmask samplers --json`", "\n", []any{samplers.Info{}}},
	"unmask list":           {"| `unmask list --json`", "\n", []any{embedded{}, hub.Snapshot{}}},
	"unmask inspect":        {"| `unmask inspect --json`", "\n", []any{judges.Report{}}},
	"unmask bench":          {"| `unmask bench --json`", "\n", []any{bench.Result{}}},
	"unmask decide":         {"| `unmask decide --json`", "\n", []any{answeredState{}}},
	"unmask theory":         {"| `unmask theory --json`", "\n", []any{theory.Result{}}},
	"unmask tune":           {"| `unmask tune --json`", "\n", []any{tuneReport{}}},
	"unmask schema":         {"| `unmask schema --json`", "\n", []any{schemaReport{}}},
	"unmask doctor":         {"| `unmask doctor --json`", "\n", []any{finding{}}},
}

// docs/json.md has every field of every command with --json.
func TestJSONFieldsAreInDocs(t *testing.T) {
	document, err := os.ReadFile("../docs/json.md")
	require.NoError(t, err)
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, inner := range cmd.Commands() {
			visit(inner)
		}
		if cmd.Flags().Lookup("json") == nil {
			return
		}
		commands++
		output, known := jsonOutputs[cmd.CommandPath()]
		require.True(t, known, "%s --json is not in jsonOutputs", cmd.CommandPath())
		_, section, found := strings.Cut(string(document), output.begin)
		require.True(t, found, "docs/json.md has no %q", output.begin)
		section, _, _ = strings.Cut(section, output.end)
		for _, v := range output.types {
			for _, name := range jsonNames(reflect.TypeOf(v)) {
				if !strings.Contains(section, "`"+name+"`") {
					t.Errorf("docs/json.md has no field `%s` of %s --json", name, cmd.CommandPath())
				}
			}
		}
	}
	visit(newRoot())
	require.Equal(t, len(jsonOutputs), commands)
}

// jsonNames returns the names that encoding/json gives to the fields of a type and of the types in
// it.
func jsonNames(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return jsonNames(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		if !field.Anonymous {
			names = append(names, name)
		}
		names = append(names, jsonNames(field.Type)...)
	}
	return names
}
