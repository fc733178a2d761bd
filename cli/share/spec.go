package share

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/fleet"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/judges"
)

// Spec describes what workers make: a command's flags, or the points of a plan.
type Spec struct {
	Kind      string // image, text, points or features
	Args      []string
	Request   *unmask.Request // of texts
	Inputs    []unmask.Input  // of --prompts
	Model     string
	Precision string
	Task      string // text or image
	Measure   judges.Measure
	Points    []experiments.Point
	Tensor    string // of --tokens-in FILE:TENSOR, with the colon

	Device  string `json:"-"` // the worker's own
	Threads int    `json:"-"`

	places map[string]string // of the files on this machine, by flag

	// Input returns the bytes from which output i is made.
	Input func(ctx context.Context, i int) ([]byte, error) `json:"-"`
}

// Build prepares a worker for an spec.
type Build func(ctx context.Context, e Spec) (fleet.Built, error)

// Sharing returns the names of the flags for sharing a run, which do not change its outputs.
func Sharing() []string { return []string{"shard", "hub", "nats", "audit", "log", "metrics"} }

// local are the flags for a machine's own outputs and devices, and for sharing a run.
var local = append(Sharing(), "out", "sheet", "scale", "json", "device", "threads", "batch")

// files are the flags whose value is a file that workers need.
var files = []string{"inpaint", "mask", "init", "prompts", "messages", "tokens-in"}

// isFile reports whether the value of a flag is a file.
func isFile(name, value string) bool {
	return slices.Contains(files, name) ||
		name == "schedule" && strings.HasSuffix(value, flags.File)
}

// errandOf returns the spec of a command's flags, and the files that it needs. inputs are those
// of --prompts.
func errandOf(kind string, f *pflag.FlagSet, model, precision string,
	inputs []unmask.Input) (e Spec, trees []fleet.Tree, err error) {
	e.Kind, e.Precision = kind, precision
	f.Visit(func(g *pflag.Flag) {
		values := []string{g.Value.String()}
		if s, ok := g.Value.(pflag.SliceValue); ok {
			values = s.GetSlice()
		}
		switch {
		case slices.Contains(local, g.Name) || g.Name == "model":
			return
		case g.Name == "prompts" && values[0] == "-":
			e.Inputs = inputs
			return
		case g.Name == "tokens-in":
			values[0], e.Tensor = cutTensor(values[0])
		}
		for _, v := range values {
			e.Args = append(e.Args, "--"+g.Name+"="+v)
		}
		if isFile(g.Name, values[0]) && err == nil {
			var t fleet.Tree
			t, err = fleet.NewTree(g.Name, values[0])
			trees = append(trees, t)
		}
	})
	if err == nil {
		e.Model = model
		trees, err = addTree(trees, "model", model)
	}
	return e, trees, err
}

// cutTensor splits FILE:TENSOR, unless a file has that whole name.
func cutTensor(name string) (file, tensor string) {
	at := strings.LastIndexByte(name, ':')
	if _, err := os.Stat(name); err == nil || at <= 0 {
		return name, ""
	}
	return name[:at], name[at:]
}

// everywhere reports whether every program has a model: "" (none), exact, or an embedded one.
func everywhere(model string) bool {
	return model == "" || unmask.IsExact(model) || slices.Contains(unmask.Embedded(), model)
}

// addTree adds a model's files unless every program has them.
func addTree(trees []fleet.Tree, name, model string) ([]fleet.Tree, error) {
	if everywhere(model) {
		return trees, nil
	}
	place := model
	if _, err := os.Stat(model); err != nil {
		if place, err = unmask.Locate(context.Background(), model, nil); err != nil {
			return nil, err
		}
	}
	terminal.Say("hashing %s for workers", place)
	t, err := fleet.NewTree(name, place)
	return append(trees, t), err
}

// open reads an spec and the places of its files on this machine. It refuses one that names a
// file that the hub did not send.
func open(s fleet.Source) (e Spec, err error) {
	if err := json.Unmarshal(s.Spec, &e); err != nil {
		return e, fmt.Errorf("the hub's spec: %w", err)
	}
	for _, m := range []struct {
		name string
		file *string
	}{{"model", &e.Model}, {"judge", &e.Measure.Judge}, {"inception", &e.Measure.Inception},
		{"reference", &e.Measure.Reference}} {
		if place, ok := s.Trees[m.name]; ok {
			*m.file = place
		} else if !everywhere(*m.file) {
			return e, notSent(m.name, *m.file)
		}
	}
	e.Input, e.places = s.Input, s.Trees
	return e, nil
}

func notSent(name, file string) error {
	return fmt.Errorf("the hub's spec has %s %s, want a file that the hub sent", name,
		param.Quote(file))
}

// Parse reads an spec's flags, sets the worker's own device, and calls check.
func (e *Spec) Parse(f *pflag.FlagSet, check func(*pflag.FlagSet) error) (err error) {
	if err := f.Parse(append(slices.Clone(e.Args), "--model="+e.Model, "--device="+e.Device,
		fmt.Sprint("--threads=", e.Threads))); err != nil {
		return err
	}
	f.Visit(func(g *pflag.Flag) {
		if !isFile(g.Name, g.Value.String()) || err != nil {
			return
		}
		if place, ok := e.places[g.Name]; !ok {
			err = notSent("--"+g.Name, g.Value.String())
		} else if g.Name == "tokens-in" {
			err = g.Value.Set(place + e.Tensor)
		} else {
			err = g.Value.Set(place)
		}
	})
	if err != nil {
		return err
	}
	return check(f)
}
