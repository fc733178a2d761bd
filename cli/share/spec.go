package share

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"unmask"
	"unmask/catalog"
	"unmask/cli/terminal"
	"unmask/fleet"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/research/judges"
)

// The kinds of a Spec.
const (
	KindImage  = "image"
	KindText   = "text"
	KindPoints = "points"
)

// Spec describes what workers make: samples of a request, or the points of a plan.
type Spec struct {
	Kind      string // one of the kinds
	Request   *unmask.Request
	Inputs    []unmask.Input // over the request, see unmask.Model.Requests
	Model     string
	As        string // kind that the model is read as; see unmask.Options
	Precision string
	Task      string // text or image
	Measure   judges.Measure
	Points    []experiments.Point

	Device  string `json:"-"` // the worker's own
	Threads int    `json:"-"`
}

// specFields is a Spec as workers get it.
type specFields Spec

// MarshalJSON writes the request as an Input, which may name files: workers replace their places.
func (e Spec) MarshalJSON() ([]byte, error) {
	out := struct {
		specFields
		Request unmask.Input `json:",omitempty"`
	}{specFields: specFields(e)}
	if e.Request != nil {
		out.Request = unmask.InputOf(*e.Request)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Spec) UnmarshalJSON(data []byte) error {
	in := struct {
		*specFields
		Request unmask.Input
	}{specFields: (*specFields)(e)}
	if err := json.Unmarshal(data, &in); err != nil || in.Request == nil {
		return err
	}
	r, _, err := in.Request.ApplyTo(unmask.Request{})
	e.Request = &r
	return err
}

// BuildFunc prepares a worker for a spec.
type BuildFunc func(ctx context.Context, e Spec) (fleet.Setup, error)

// FlagNames returns the names of the flags for sharing a run, which do not change its outputs.
func FlagNames() []string { return []string{"shard", "hub", "nats", "log"} }

// specFile is a file of a spec, by what it is for.
type specFile struct {
	name    string
	path    *string // "" for none
	isModel bool    // place is a model's name
}

// isEverywhere reports whether workers need no file: there is none, or every program has the model.
func (f specFile) isEverywhere() bool {
	return *f.path == "" || f.isModel && (catalog.IsExact(*f.path) ||
		slices.Contains(catalog.Embedded(), *f.path))
}

// files returns the files of a spec. It changes no request that others have.
func (e *Spec) files() []specFile {
	list := []specFile{{"model", &e.Model, true}, {"judge", &e.Measure.Judge, true},
		{"inception", &e.Measure.Inception, true}, {"reference", &e.Measure.Reference, true}}
	if e.Request == nil || e.Request.Image == nil {
		return list
	}
	r := *e.Request
	in := *e.Request.Image
	r.Image = &in
	e.Request = &r
	return append(list, specFile{"image", &in.File, false}, specFile{"mask", &in.MaskFile, false})
}

// checkInputs returns an error for a line that names a file: workers are sent only those of the
// request that the lines are over.
func (e *Spec) checkInputs() error {
	for i, in := range e.Inputs {
		r, _, err := in.ApplyTo(unmask.Request{})
		if err == nil && r.Image != nil {
			err = unsentFileError("image", r.Image.File)
		}
		if err != nil {
			return &unmask.InputError{Index: i, Err: err}
		}
	}
	return nil
}

// fileTrees returns the files that workers need.
func (e *Spec) fileTrees() (list []fleet.Tree, err error) {
	if err := e.checkInputs(); err != nil {
		return nil, err
	}
	for _, f := range e.files() {
		if f.isEverywhere() {
			continue
		}
		place := *f.path
		if _, err := os.Stat(place); err != nil && f.isModel {
			place, err = catalog.Locate(context.Background(), place, nil)
			if err != nil {
				return nil, err
			}
		}
		terminal.Logf("hashing %s for workers", place)
		t, err := fleet.NewTree(f.name, place)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// readSpec reads a spec and the places of its files on this machine. It refuses one that names a
// file that the hub did not send.
func readSpec(s fleet.Source) (e Spec, err error) {
	if err := json.Unmarshal(s.Spec, &e); err != nil {
		return e, fmt.Errorf("the hub's spec: %w", err)
	}
	for _, f := range e.files() {
		if place, ok := s.Trees[f.name]; ok {
			*f.path = place
		} else if !f.isEverywhere() {
			return e, unsentFileError(f.name, *f.path)
		}
	}
	return e, e.checkInputs()
}

// unsentFileError returns the error for a file that the hub names but did not send: a worker must
// not read files of its own for a hub.
func unsentFileError(name, file string) error {
	return fmt.Errorf("the hub's spec has %s %s, want a file that the hub sent", name,
		param.Quote(file))
}
