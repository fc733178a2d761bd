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

// Spec describes what workers make: samples of a request, or the points of a plan.
type Spec struct {
	Kind      string // image, text or points
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

// sent is a Spec as workers get it.
type sent Spec

// MarshalJSON writes the request as an Input, which may name files: workers replace their places.
func (e Spec) MarshalJSON() ([]byte, error) {
	out := struct {
		sent
		Request unmask.Input `json:",omitempty"`
	}{sent: sent(e)}
	if e.Request != nil {
		out.Request = unmask.InputOf(*e.Request)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Spec) UnmarshalJSON(data []byte) error {
	in := struct {
		*sent
		Request unmask.Input
	}{sent: (*sent)(e)}
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

// file is a file of a spec, by what it is for.
type file struct {
	name  string
	place *string // "" for none
	model bool    // place is a model's name
}

// everywhere reports whether workers need no file: there is none, or every program has the model.
func (f file) everywhere() bool {
	return *f.place == "" || f.model && (catalog.IsExact(*f.place) ||
		slices.Contains(catalog.Embedded(), *f.place))
}

// files returns the files of a spec. It changes no request that others have.
func (e *Spec) files() []file {
	list := []file{{"model", &e.Model, true}, {"judge", &e.Measure.Judge, true},
		{"inception", &e.Measure.Inception, true}, {"reference", &e.Measure.Reference, true}}
	if e.Request == nil || e.Request.Image == nil {
		return list
	}
	r := *e.Request
	in := *e.Request.Image
	r.Image = &in
	e.Request = &r
	return append(list, file{"image", &in.File, false}, file{"mask", &in.MaskFile, false})
}

// checkInputs returns an error for a line that names a file: workers are sent only those of the
// request that the lines are over.
func (e *Spec) checkInputs() error {
	for i, in := range e.Inputs {
		r, _, err := in.ApplyTo(unmask.Request{})
		if err == nil && r.Image != nil {
			err = notSent("image", r.Image.File)
		}
		if err != nil {
			return &unmask.InputError{Index: i, Err: err}
		}
	}
	return nil
}

// trees returns the files that workers need.
func (e *Spec) trees() (list []fleet.Tree, err error) {
	if err := e.checkInputs(); err != nil {
		return nil, err
	}
	for _, f := range e.files() {
		if f.everywhere() {
			continue
		}
		place := *f.place
		if _, err := os.Stat(place); err != nil && f.model {
			if place, err = catalog.Locate(context.Background(), place, nil); err != nil {
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

// open reads a spec and the places of its files on this machine. It refuses one that names a file
// that the hub did not send.
func open(s fleet.Source) (e Spec, err error) {
	if err := json.Unmarshal(s.Spec, &e); err != nil {
		return e, fmt.Errorf("the hub's spec: %w", err)
	}
	for _, f := range e.files() {
		if place, ok := s.Trees[f.name]; ok {
			*f.place = place
		} else if !f.everywhere() {
			return e, notSent(f.name, *f.place)
		}
	}
	return e, e.checkInputs()
}

func notSent(name, file string) error {
	return fmt.Errorf("the hub's spec has %s %s, want a file that the hub sent", name,
		param.Quote(file))
}
