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
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/weights"
)

// embedFlags are those of unmask embed.
type embedFlags struct {
	deviceFlags
	embed.Options
	out string
}

// newEmbed returns the command unmask embed.
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

Without --out, one JSON object a text: "name" and "embedding", or "embeddings" with --each; "unknown"
counts what the vocabulary lacks, and "error" stands for the vector of a text that is not UTF-8. --out FILE
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

// vectorRecord is a record with its vector.
type vectorRecord struct {
	fasta.Record
	text *embed.Text

	// vector is one or, for each token, [tokens, width].
	vector []float32

	// err says why there is no vector, if it is not nil.
	err error
}

// vectorWriter writes vectors of records, one of each or one of each token.
type vectorWriter func(w io.Writer, list []vectorRecord, perToken bool) error

// vectorWriters are the formats of vectors, by the end of a file's name.
var vectorWriters = map[string]vectorWriter{
	".jsonl":       writeVectorLines,
	".csv":         writeVectorCSV,
	".safetensors": writeVectorTensors,
}

// run writes the vectors of a file's texts. All texts are tokenized before the first pass, so that
// one that is too long costs no time.
func (f *embedFlags) run(ctx context.Context, file string) error {
	write, err := f.chooseWriter()
	if err != nil {
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

	list := make([]vectorRecord, len(records))
	var texts []*embed.Text
	for i, r := range records {
		list[i].Record = r
		list[i].err = jsonline.CheckUTF8(r.Sequence)
		if list[i].err != nil {
			continue
		}
		list[i].text, err = e.Tokenize(ctx, r.Sequence, f.Options)
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, r.Name, err)
		}
		texts = append(texts, list[i].text)
	}
	// A tensor has a row for each text and no place for an error: refused before the first pass, not
	// after an hour of them.
	failed := len(list) - len(texts)
	if failed > 0 && strings.HasSuffix(f.out, ".safetensors") && !f.PerToken {
		i := slices.IndexFunc(list, func(r vectorRecord) bool { return r.err != nil })
		return fmt.Errorf("text %d (%.40s): %w: --out has a row for each text", i+1, list[i].Name,
			list[i].err)
	}
	logTextNotes(texts)

	vectors, err := e.Embed(ctx, texts, f.Options)
	if err != nil {
		return err
	}
	for i := range list { // vectors are of the texts without an error, in the same order
		if list[i].err == nil {
			list[i].vector = vectors[0]
			vectors = vectors[1:]
		}
	}
	if f.out == "" {
		err = write(stdout, list, f.PerToken)
	} else {
		err = atomicfile.WriteFile(f.out, func(w io.Writer) error {
			return write(w, list, f.PerToken)
		})
		err = printWritten(err, f.out)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%s without a vector, want UTF-8", terminal.FormatCount(failed, "text"))
	}
	return err
}

// logTextNotes says how many texts are not read as they are.
func logTextNotes(texts []*embed.Text) {
	truncated := 0
	unknownIn := 0
	unknown := 0
	for _, t := range texts {
		if t.Truncated > 0 {
			truncated++
		}
		if t.Unknown > 0 {
			unknownIn++
		}
		unknown += t.Unknown
	}
	if truncated > 0 {
		terminal.Logf("note: %s truncated, as sentence-transformers does",
			terminal.FormatCount(truncated, "long text"))
	}
	if unknown > 0 {
		terminal.Logf("note: %s in %s, for what the vocabulary lacks",
			terminal.FormatCount(unknown, "unknown token"), terminal.FormatCount(unknownIn, "text"))
	}
}

// chooseWriter returns what writes vectors in the format of --out, or what is wrong with the flags.
func (f *embedFlags) chooseWriter() (vectorWriter, error) {
	extension := ".jsonl"
	if f.out != "" {
		dot := strings.LastIndexByte(f.out, '.')
		extension = f.out[max(dot, 0):]
	}
	write := vectorWriters[extension]
	if write == nil || f.PerToken && extension == ".csv" {
		return nil, usagef("--out is %s, want a name that ends in .jsonl, .csv (without --each) or "+
			".safetensors", param.Quote(f.out))
	}
	if f.PerToken && f.Dimensions != 0 {
		return nil, usagef("--each with --dimensions, want it without")
	}
	return write, checkFile("--out", f.out)
}

// writeVectorLines writes an object of JSON a line for each record.
func writeVectorLines(w io.Writer, list []vectorRecord, perToken bool) error {
	encoder := json.NewEncoder(w)
	for _, r := range list {
		line := map[string]any{"name": r.Name}
		switch {
		case r.err != nil:
			line["error"] = r.err.Error()
		case perToken:
			width := len(r.vector) / r.text.ContentTokens()
			line["embeddings"] = slices.Collect(slices.Chunk(r.vector, width))
		default:
			line["embedding"] = r.vector
		}
		if r.err == nil && r.text.Unknown > 0 {
			line["unknown"] = r.text.Unknown
		}
		if r.err == nil && r.text.Truncated > 0 {
			line["truncated"] = r.text.Truncated
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// writeVectorCSV writes a name and its numbers a line. Numbers have as many digits as they need to
// be read back as they are.
func writeVectorCSV(w io.Writer, list []vectorRecord, _ bool) error {
	out := csv.NewWriter(w)
	for i, r := range list {
		if r.err != nil {
			terminal.Logf("text %d (%.40s): %v", i+1, r.Name, r.err)
			continue
		}
		line := []string{r.Name}
		for _, x := range r.vector {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		out.Write(line) // Flush keeps its error
	}
	out.Flush()
	return out.Error()
}

// writeVectorTensors writes safetensors: one tensor of all vectors or, for each token, one for each
// record.
func writeVectorTensors(w io.Writer, list []vectorRecord, perToken bool) error {
	var out []weights.Tensor
	add := func(name string, rows int, v []float32) {
		t := weights.Tensor{Name: name, DType: weights.F32, Shape: []int{rows, len(v) / rows}}
		for _, x := range v {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
		}
		out = append(out, t)
	}
	var pooled []float32 // of all texts, one vector each
	for i, r := range list {
		switch {
		case r.err != nil:
			terminal.Logf("text %d (%.40s): %v", i+1, r.Name, r.err)
		case perToken:
			add(strconv.Itoa(i), r.text.ContentTokens(), r.vector)
		default:
			pooled = append(pooled, r.vector...)
		}
	}
	if !perToken {
		add("embeddings", len(list), pooled)
	}
	return weights.Write(w, out, nil)
}
