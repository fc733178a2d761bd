package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/experiments"
	"unmask/metrics"
	"unmask/metrics/gpt2"
	"unmask/metrics/inception"
	"unmask/model"
	"unmask/theory/oracle"
	"unmask/weights"
	"unmask/weights/pytorch"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure samples: text by a judge, images against a reference",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEvalText(), newEvalImage())
	return cmd
}

// evaluation is the result of an evaluation.
type evaluation struct {
	samples int
	metrics experiments.Metrics
}

// metricLines say what the numbers are.
var metricLines = []struct{ name, line string }{
	{"perplexity", "generative perplexity, lower is better"},
	{"entropy", "nats over a sample's own tokens, higher is more diverse"},
	{"distinct2", "share of different token pairs, of the first 1000 samples"},
	{"self_bleu", "of the first 1000 samples, lower is more diverse"},
	{"frechet", "Frechet distance to the reference, lower is better"},
	{"score", "Inception Score, higher is better"},
	{"precision", "share of samples among the reference"},
	{"recall", "share of the reference among the samples"},
}

func (r evaluation) print(asJSON bool) error {
	if asJSON {
		type value struct {
			Value float64 `json:"value"`
			Error float64 `json:"error,omitempty"`
		}
		out := struct {
			Samples int              `json:"samples"`
			Metrics map[string]value `json:"metrics"`
		}{r.samples, map[string]value{}}
		for name, m := range r.metrics {
			out.Metrics[name] = value{m.Value, m.Error()}
		}
		line, err := json.Marshal(out)
		if err != nil {
			return err
		}
		return standardOutput(fmt.Sprintf("%s\n", line))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "samples     %d\n", r.samples)
	for _, l := range metricLines {
		m, ok := r.metrics[l.name]
		if !ok {
			continue
		}
		number := fmt.Sprintf("%.4g", m.Value)
		if e := m.Error(); e > 0 {
			number += fmt.Sprintf(" ± %.2g", e)
		}
		fmt.Fprintf(&b, "%-11s %-18s %s\n", l.name, number, l.line)
	}
	return standardOutput(b.String())
}

// open checks the compute flags and opens the device for networks that are no Denoiser.
func (d *deviceFlags) open() (backend.Backend, backend.Precision, error) {
	o, err := d.options()
	if err != nil {
		return nil, o.Precision, err
	}
	b, err := unmask.OpenDevice(o.Device, o.Threads)
	return b, o.Precision, err
}

// loadJudge loads a GPT-2 by name: demo (embedded), a directory, or org/name on the hub; or an exact
// model, which has no files.
func loadJudge(ctx context.Context, name string, b backend.Backend, p backend.Precision) (metrics.Judge, *model.Source, error) {
	if isExact(name) {
		m, err := parseExact(name)
		if err != nil {
			return nil, nil, usage("judge: %v", err)
		}
		return oracle.Judge{Model: m}, nil, nil
	}
	src, err := openJudge(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	m, err := gpt2.Load(src, model.Options{Backend: b, Precision: p})
	if err != nil {
		return nil, nil, err
	}
	return m, src, nil
}

func openJudge(ctx context.Context, name string) (*model.Source, error) {
	if name == "demo" {
		return model.OpenFS(demo.Judge(), "demo judge")
	}
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	dir, err := unmask.Locate(ctx, name, downloadProgress())
	if err != nil {
		return nil, err
	}
	return model.Open(dir)
}

// loadInception loads Inception-v3 from a PyTorch file, a safetensors file, or a directory with
// one of either.
func loadInception(name string, b backend.Backend, p backend.Precision) (*inception.Model, error) {
	file := name
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if info.IsDir() {
		var found []string
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if weightsFile(e.Name()) {
				found = append(found, e.Name())
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%s: %d weight files, wanted is one .pth or .safetensors", name, len(found))
		}
		file = name + "/" + found[0]
	}
	set, err := weightsOf(file)
	if err != nil {
		return nil, err
	}
	m, err := inception.Load(set, model.Options{Backend: b, Precision: p})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// maxInception bounds the weights of a file, in bytes; the published ones take 95 MB.
const maxInception = 1 << 30

// weightsOf reads a safetensors file, or a PyTorch file into memory.
func weightsOf(file string) (*weights.Set, error) {
	if strings.HasSuffix(file, ".safetensors") {
		return weights.Open(file)
	}
	c, err := pytorch.Open(file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var streams []weights.Stream
	total := 0
	for _, t := range c.Tensors() {
		total += t.Numel() * t.DType.Bits() / 8
		if total > maxInception {
			return nil, fmt.Errorf("%s: tensors of more than %d bytes: not an Inception-v3", file, maxInception)
		}
		streams = append(streams, weights.Stream{Name: t.Name, DType: t.DType, Shape: t.Shape, Open: t.Open})
	}
	var data bytes.Buffer
	if err := weights.WriteStreams(&data, streams, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return weights.Parse(data.Bytes(), file)
}

func weightsFile(name string) bool {
	return slices.ContainsFunc([]string{".pth", ".pt", ".safetensors"}, func(ext string) bool { return strings.HasSuffix(name, ext) })
}
