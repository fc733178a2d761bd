package server

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"unmask"
	"unmask/backend"
	"unmask/backend/open"
	"unmask/catalog"
	"unmask/decide"
	"unmask/embed"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/samplers"
	"unmask/server/engine"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// contract is the version of everything besides model and request that decides an answer's bytes,
// such as the random streams and the samplers' rules.
const contract = "unmask 1"

// Model is a model that is served.
type Model struct {
	Name        string // that requests ask for: letters, digits, dots, dashes and underscores
	Model       *unmask.Model
	Precision   backend.Precision  // that it was loaded with
	Calibration decide.Calibration // of its answers to typed questions; nil: none
}

// servedModel is a model with what the server keeps of it.
type servedModel struct {
	*unmask.Model
	name        string
	spec        model.Spec
	device      string
	precision   string
	chat        *chat.Model // nil where it has no template
	chatless    error       // why
	defaults    generate.Recipe
	identity    string // SHA-256 of contract, weights, precision and device
	engine      *engine.Engine
	created     int64 // unix seconds
	calibration decide.Calibration
	embedder    func() (*embed.Embedder, error)
}

// servedName is a name under which a model is served.
var servedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// newServed reads what answers need to know of a model.
func newServed(o Model) (*servedModel, error) {
	err := cmp.Or(checkServed(o.Name), o.Calibration.Check(), param.RefuseUnless(o.Model != nil,
		"model",
		"nil", "a loaded one", param.Missing))
	if err != nil {
		return nil, err
	}
	m := &servedModel{Model: o.Model, name: o.Name, spec: o.Model.Spec(),
		precision: o.Precision.String(), device: cmp.Or(open.KindOf(o.Model.Backend), "cpu"),
		created: time.Now().Unix(), calibration: o.Calibration}
	m.embedder = sync.OnceValues(func() (*embed.Embedder, error) { return embed.New(m.Model) })
	if m.Text == nil && m.Pictures == nil && m.Tokenizer == nil && m.Speech == nil {
		m.Model = numbered(o.Model)
	}
	if m.Text != nil {
		m.chat, m.chatless = m.Chat()
	}
	if m.calibration != nil && m.rank(wantsDecisions) < 0 {
		return nil, fmt.Errorf("model %s answers no typed questions, want it without a calibration",
			m.name)
	}
	if m.defaults, err = m.Defaults(); err != nil {
		return nil, err
	}
	weights, err := m.Fingerprint()
	if err != nil {
		return nil, err
	}
	m.identity = fmt.Sprintf("%x",
		sha256.Sum256(encode([]string{contract, weights, m.precision, m.device})))
	return m, nil
}

// numbered returns a model of bare token ids as one of text, in which ids are numbers.
func numbered(m *unmask.Model) *unmask.Model {
	out := unmask.NewModel(&model.Loaded{Denoiser: m.Denoiser, Info: m.Info, Kind: m.Kind(),
		Tokenizer: tokenizers.Numbers(m.Spec().Outcomes), Recipe: m.Recipe, Presets: m.Presets,
		Classes: m.Classes}, m.Backend, m.Source)
	out.Name = m.Name
	return out
}

// fingerprint returns the first digits of the identity.
func (m *servedModel) fingerprint() string { return m.identity[:12] }

// modelInfo is a model in a list.
type modelInfo struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	OwnedBy string     `json:"owned_by"`
	Unmask  modelShape `json:"unmask"`

	// as Anthropic's clients read it
	Type  string    `json:"type"`
	Title string    `json:"display_name"`
	Since time.Time `json:"created_at"`
}

// modelShape describes a model to clients.
type modelShape struct {
	Kind        string      `json:"kind"`
	Shape       []int       `json:"shape"`  // of a sequence: its longest length, or rows and columns
	Fixed       bool        `json:"fixed"`  // no other length
	Tokens      int         `json:"tokens"` // that can be drawn
	Mask        int32       `json:"mask"`
	Precision   string      `json:"precision"`
	Device      string      `json:"device"`
	Fingerprint string      `json:"fingerprint"`
	Chat        bool        `json:"chat"`
	System      bool        `json:"system"`         // its template writes a system message
	Decides     bool        `json:"decides"`        // it answers typed questions
	Ends        []int32     `json:"ends,omitempty"` // tokens that end an answer
	Grows       bool        `json:"grows"`          // it finds the length of holes: [?]
	Prompt      bool        `json:"prompt"`         // pictures are drawn from a text
	Classes     []string    `json:"classes,omitempty"`
	ClassCount  int         `json:"class_count,omitempty"`
	Size        []int       `json:"size,omitempty"` // of a picture: width and height
	Encodes     bool        `json:"encodes"`        // pictures can be edited
	As          string      `json:"as,omitempty"`   // kind that config.json alone does not tell
	Recipe      string      `json:"recipe"`         // what runs where nothing is asked for
	Limits      modelLimits `json:"limits"`
	RowsASecond float64     `json:"rows_per_second,omitempty"`

	Calibration decide.Calibration `json:"calibration,omitempty"`
}

type modelLimits struct {
	N     int `json:"n"`
	Steps int `json:"steps"`
}

func (m *servedModel) info() modelInfo {
	s := modelShape{Kind: string(m.Kind()), Shape: m.spec.Shape, Fixed: m.spec.Fixed,
		Tokens: m.spec.Outcomes, Mask: m.spec.Mask, Precision: m.precision, Device: m.device,
		Fingerprint: m.fingerprint(), Chat: m.chat != nil,
		Decides: m.rank(wantsDecisions) >= 0, Grows: m.spec.Growth != nil,
		Prompt: m.spec.Prompt, Classes: m.Classes, ClassCount: m.spec.Classes,
		Recipe: m.defaults.String(),
		Limits: modelLimits{N: maxChoices, Steps: maxSteps}, RowsASecond: m.engine.RowsPerSecond(),
		Calibration: m.calibration}
	if m.Source != nil {
		s.As = m.Source.KindOverride
	}
	if m.chat != nil {
		s.Ends, s.System = m.chat.EndTokens(), m.chat.WritesSystem()
	}
	if m.Pictures != nil {
		if width, height, err := m.Pictures.Size(); err == nil {
			s.Size = []int{width, height}
		}
		if c, err := m.Pictures.Codec(); err == nil {
			_, encodes := c.(model.Encoder)
			s.Encodes = encodes && len(c.Shape()) == 2
		}
	}
	return modelInfo{ID: m.name, Object: "model", Created: m.created, OwnedBy: "unmask", Unmask: s,
		Type: "model", Title: m.name, Since: time.Unix(m.created, 0).UTC()}
}

// NamedModel is a model to be served under a name.
type NamedModel struct{ Name, Model string }

// ParseModels reads MODEL or NAME=MODEL, with MODEL as unmask.Load takes it. Without NAME the name
// is the last part of MODEL. It returns an error for names that Add refuses and for models that
// catalog.CheckName refuses, so that this is known before a server listens.
func ParseModels(args []string) (list []NamedModel, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		var n NamedModel
		var given bool
		if n.Name, n.Model, given = strings.Cut(arg, "="); !given || catalog.IsExact(arg) {
			n = NamedModel{strings.TrimSuffix(path.Base(arg), ".gguf"), arg}
		}
		if seen[n.Name] {
			return nil, twice(n.Name)
		}
		if err := cmp.Or(checkServed(n.Name), catalog.CheckName(n.Model)); err != nil {
			return nil, err
		}
		seen[n.Name] = true
		list = append(list, n)
	}
	return list, nil
}

// checkServed returns an error for a name that requests could not give.
func checkServed(name string) error {
	if !servedName.MatchString(name) {
		return fmt.Errorf("model name is %.80q, want 1 to 64 letters, digits, dots, dashes and "+
			"underscores", name)
	}
	return nil
}

func twice(name string) error {
	return fmt.Errorf("model name %s is there twice, want other names: NAME=DIR", name)
}

// samplerList is the answer of GET /v1/samplers.
type samplerList struct {
	Object     string          `json:"object"`
	Data       []samplers.Info `json:"data"`
	Schedules  []string        `json:"schedules"`
	Parameters []param.Param   `json:"parameters"` // of all requests, with underscores in names
}

// listSamplers answers GET /v1/samplers.
func listSamplers(*http.Request) (any, *Fault) {
	out := samplerList{Object: "list", Data: samplers.List(), Parameters: generate.Params()}
	for _, schedule := range samplers.Schedules() {
		out.Schedules = append(out.Schedules, schedule.String())
	}
	return out, nil
}
