package cli

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/embed"
	"unmask/internal/atomicfile"
	"unmask/internal/fasta"
	"unmask/param"
	"unmask/weights"
)

// embedFlags are those of unmask embed.
type embedFlags struct {
	deviceFlags
	embed.Options
	out string
}

func newEmbed() *cobra.Command {
	var f embedFlags
	cmd := &cobra.Command{
		Use:   "embed FILE",
		Short: "Make vectors of texts, sequences or residues",
		Long: `Make a vector of each text. A line of FILE (- is standard input) is a text as it is, also an empty
one, which other models than those of sentence-transformers refuse. Files with names of FASTA (.fasta,
.fa, .faa ...), and standard input that begins with >, are its records. A folder that
sentence-transformers saved is used as it says: pooling, prompts, Dense, Normalize, and texts that are
too long are cut. Other models give the mean of the last hidden states at a text's own tokens,
without those around it; --each gives the states one by one, such as those of a protein's residues.

Without --out, one JSON object a text: "name" and "embedding", or "embeddings" with --each. --out FILE
is .jsonl of these, .csv of a name and its numbers a line, or .safetensors with embeddings F32 [N,W],
or with --each one tensor [tokens,W] a text, named by its number from 0.`,
		Args: exactArgs(1, "a FILE of texts"),
		Example: `  unmask embed --model sentence-transformers/all-MiniLM-L6-v2 texts.txt --out vectors.safetensors
  unmask embed --model esm2_8m heavy.fasta --each --out residues.safetensors`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
	}
	f.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.out, "out", "", "`FILE` to write: .jsonl, .csv or .safetensors")
	cmd.Flags().StringVar(&f.Prompt, "prompt-name", "", "`NAME` of the folder's prompt before each text")
	cmd.Flags().BoolVar(&f.PerToken, "each", false, "a vector for each of a text's tokens")
	flags.Int(cmd.Flags(), &f.Dimensions, param.Param{
		Name:    "dimensions",
		Min:     1,
		Max:     1 << 20,
		Default: "0",
		Zero:    "all",
		Help:    "the first numbers of each vector, 0 for all or truncate_dim",
	})
	return cmd
}

// vectorWriters write vectors of records by the end of a file's name: one of each or, with the
// number of each one's tokens, [tokens, width].
var vectorWriters = map[string]func(io.Writer, []fasta.Record, [][]float32, []int) error{
	".jsonl":       writeVectorLines,
	".csv":         writeVectorCSV,
	".safetensors": writeVectorTensors,
}

func (f *embedFlags) run(ctx context.Context, file string) error {
	extension := ".jsonl"
	if dot := strings.LastIndexByte(f.out, '.'); f.out != "" {
		extension = f.out[max(dot, 0):]
	}
	write := vectorWriters[extension]
	if write == nil || f.PerToken && extension == ".csv" {
		return usagef("--out is %s, want a name that ends in .jsonl, .csv (without --each) or .safetensors",
			param.Quote(f.out))
	}
	if f.PerToken && f.Dimensions != 0 {
		return usagef("--each with --dimensions, want it without")
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	records, err := readRecords(file, true)
	if err != nil {
		return wrapError(file, err)
	}
	m, err := f.loadModel(ctx)
	if err != nil {
		return err
	}
	e, err := embed.New(m)
	if err != nil {
		return err
	}
	list := make([]*embed.Text, len(records))
	cut := 0
	for i, r := range records {
		list[i], err = e.Tokenize(r.Sequence, f.Options)
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, r.Name, err)
		}
		cut += min(list[i].Truncated, 1)
	}
	if cut > 0 {
		terminal.Logf("note: %s cut, as sentence-transformers does", terminal.FormatCount(cut, "long text"))
	}
	vectors, err := e.Embed(ctx, list, f.Options)
	if err != nil {
		return err
	}
	var tokens []int // of each text, nil for one vector each
	for i := 0; i < len(list) && f.PerToken; i++ {
		tokens = append(tokens, list[i].ContentTokens())
	}
	if f.out == "" {
		return write(stdout, records, vectors, tokens)
	}
	return printWritten(atomicfile.WriteFile(f.out, func(w io.Writer) error {
		return write(w, records, vectors, tokens)
	}), f.out)
}

func writeVectorLines(w io.Writer, list []fasta.Record, vectors [][]float32, tokens []int) error {
	for i, r := range list {
		line := map[string]any{"name": r.Name}
		if v := vectors[i]; tokens != nil {
			line["embeddings"] = slices.Collect(slices.Chunk(v, len(v)/tokens[i]))
		} else {
			line["embedding"] = v
		}
		if err := json.NewEncoder(w).Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func writeVectorCSV(w io.Writer, list []fasta.Record, vectors [][]float32, _ []int) error {
	out := csv.NewWriter(w)
	for i, r := range list {
		line := []string{r.Name}
		for _, x := range vectors[i] {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		out.Write(line) // Flush keeps its error
	}
	out.Flush()
	return out.Error()
}

func writeVectorTensors(w io.Writer, list []fasta.Record, vectors [][]float32, tokens []int) error {
	var out []weights.Tensor
	add := func(name string, rows int, v []float32) {
		t := weights.Tensor{Name: name, DType: weights.F32, Shape: []int{rows, len(v) / rows}}
		for _, x := range v {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
		}
		out = append(out, t)
	}
	if tokens == nil {
		add("embeddings", len(list), slices.Concat(vectors...))
	}
	for i, n := range tokens {
		add(strconv.Itoa(i), n, vectors[i])
	}
	return weights.Write(w, out, nil)
}
