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
	// Name is what requests ask for: 1 to 64 letters, digits, dots, dashes and underscores.
	Name string

	Model *unmask.Model

	// Precision is that which the model was loaded with.
	Precision backend.Precision

	// Calibration is that of its answers to typed questions. It may be nil.
	Calibration decide.Calibration
}

// servedModel is a model with what the server keeps of it.
type servedModel struct {
	*unmask.Model
	name      string
	spec      model.Spec
	device    string
	precision string

	// chat is nil where the model has no chat template, and noChatReason says why.
	chat         *chat.Model
	noChatReason error

	defaults generate.Recipe

	// identity is the SHA-256 of contract, weights, precision and device.
	identity string

	engine *engine.Engine

	// created is in Unix seconds.
	created int64

	calibration decide.Calibration

	// embedder makes the model's embedder when it is first needed.
	embedder func() (*embed.Embedder, error)
}

// validModelName is a name under which a model can be served.
var validModelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// newServedModel reads what answers need to know of a model.
func newServedModel(o Model) (*servedModel, error) {
	if err := checkModelName(o.Name); err != nil {
		return nil, err
	}
	if err := o.Calibration.Check(); err != nil {
		return nil, err
	}
	if o.Model == nil {
		return nil, &param.Error{Name: "model", Found: "nil", Want: "a loaded one",
			Reason: param.Missing}
	}
	m := &servedModel{
		Model:       o.Model,
		name:        o.Name,
		spec:        o.Model.Spec(),
		precision:   o.Precision.String(),
		device:      cmp.Or(open.KindOf(o.Model.Backend), "cpu"),
		created:     time.Now().Unix(),
		calibration: o.Calibration,
	}
	m.embedder = sync.OnceValues(func() (*embed.Embedder, error) { return embed.New(m.Model) })
	if m.Text == nil && m.Pictures == nil && m.Tokenizer == nil && m.Speech == nil {
		m.Model = withNumberTokenizer(o.Model)
	}
	if m.Text != nil {
		m.chat, m.noChatReason = m.Chat()
	}
	if m.calibration != nil && m.rank(needsDecisions) < 0 {
		return nil, fmt.Errorf("model %s answers no typed questions, want it without a calibration",
			m.name)
	}
	var err error
	m.defaults, err = m.Defaults()
	if err != nil {
		return nil, err
	}
	weights, err := m.Fingerprint()
	if err != nil {
		return nil, err
	}
	m.identity = fmt.Sprintf("%x",
		sha256.Sum256(encodeJSON([]string{contract, weights, m.precision, m.device})))
	return m, nil
}

// withNumberTokenizer returns a model of bare token ids as one of text, in which ids are numbers.
func withNumberTokenizer(m *unmask.Model) *unmask.Model {
	loaded := &model.Loaded{
		Denoiser:  m.Denoiser,
		Info:      m.Info,
		Kind:      m.Kind(),
		Tokenizer: tokenizers.Numbers(m.Spec().Outcomes),
		Recipe:    m.Recipe,
		Presets:   m.Presets,
		Classes:   m.Classes,
	}
	out := unmask.NewModel(loaded, m.Backend, m.Source)
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
	Kind string `json:"kind"`

	// Shape is that of a sequence: its longest length, or rows and columns.
	Shape []int `json:"shape"`

	// Fixed models have no other length.
	Fixed bool `json:"fixed"`

	// Tokens is the number of tokens that can be drawn.
	Tokens int `json:"tokens"`

	Mask        int32  `json:"mask"`
	Precision   string `json:"precision"`
	Device      string `json:"device"`
	Fingerprint string `json:"fingerprint"`
	Chat        bool   `json:"chat"`

	// System reports whether the chat template writes a system message.
	System bool `json:"system"`

	// Decides reports whether the model answers typed questions.
	Decides bool `json:"decides"`

	// Ends are the end tokens of an answer.
	Ends []int32 `json:"ends,omitempty"`

	// Grows reports whether the model finds the length of holes: [?].
	Grows bool `json:"grows"`

	// Prompt reports whether pictures are drawn from a text.
	Prompt bool `json:"prompt"`

	Classes    []string `json:"classes,omitempty"`
	ClassCount int      `json:"class_count,omitempty"`

	// Size is the width and the height of a picture.
	Size []int `json:"size,omitempty"`

	// Encodes reports whether pictures can be edited.
	Encodes bool `json:"encodes"`

	// As is the kind that config.json alone does not tell.
	As string `json:"as,omitempty"`

	// Recipe is what runs where nothing is asked for.
	Recipe string `json:"recipe"`

	Limits      modelLimits `json:"limits"`
	RowsASecond float64     `json:"rows_per_second,omitempty"`

	Calibration decide.Calibration `json:"calibration,omitempty"`
}

type modelLimits struct {
	N     int `json:"n"`
	Steps int `json:"steps"`
}

// info returns the model's entry of GET /v1/models, with the fields of the other APIs' lists.
func (m *servedModel) info() modelInfo {
	shape := modelShape{
		Kind:        string(m.Kind()),
		Shape:       m.spec.Shape,
		Fixed:       m.spec.Fixed,
		Tokens:      m.spec.Outcomes,
		Mask:        m.spec.Mask,
		Precision:   m.precision,
		Device:      m.device,
		Fingerprint: m.fingerprint(),
		Chat:        m.chat != nil,
		Decides:     m.rank(needsDecisions) >= 0,
		Grows:       m.spec.Growth != nil,
		Prompt:      m.spec.Prompt,
		Classes:     m.Classes,
		ClassCount:  m.spec.Classes,
		Recipe:      m.defaults.String(),
		Limits:      modelLimits{N: maxChoices, Steps: maxSteps},
		RowsASecond: m.engine.RowsPerSecond(),
		Calibration: m.calibration,
	}
	if m.Source != nil {
		shape.As = m.Source.KindOverride
	}
	if m.chat != nil {
		shape.Ends = m.chat.EndTokens()
		shape.System = m.chat.WritesSystem()
	}
	if m.Pictures != nil {
		if width, height, err := m.Pictures.Size(); err == nil {
			shape.Size = []int{width, height}
		}
		if c, err := m.Pictures.Codec(); err == nil {
			_, encodes := c.(model.Encoder)
			shape.Encodes = encodes && len(c.Shape()) == 2
		}
	}
	return modelInfo{ID: m.name, Object: "model", Created: m.created, OwnedBy: "unmask",
		Unmask: shape, Type: "model", Title: m.name, Since: time.Unix(m.created, 0).UTC()}
}

// NamedModel is a model to be served under a name.
type NamedModel struct {
	Name string

	// Model is what unmask.Load takes.
	Model string
}

// ParseModels reads MODEL or NAME=MODEL, with MODEL as unmask.Load takes it. Without NAME the name
// is the last part of MODEL. It returns an error for names that Add refuses and for models that
// catalog.CheckName refuses, so that this is known before a server listens.
func ParseModels(args []string) (list []NamedModel, err error) {
	seen := map[string]bool{}
	for _, arg := range args {
		name, place, hasName := strings.Cut(arg, "=")
		if !hasName || catalog.IsExact(arg) { // parameters of an exact model have = too
			name = strings.TrimSuffix(path.Base(arg), ".gguf")
			if strings.HasSuffix(arg, "/") { // of org/name:folder/ the folder
				name = name[strings.LastIndexByte(name, ':')+1:]
			}
			place = arg
		}
		if seen[name] {
			return nil, duplicateName(name)
		}
		if err := checkModelName(name); err != nil {
			return nil, err
		}
		if err := catalog.CheckName(place); err != nil {
			return nil, err
		}
		seen[name] = true
		list = append(list, NamedModel{name, place})
	}
	return list, nil
}

// checkModelName returns an error for a name that requests could not give.
func checkModelName(name string) error {
	if !validModelName.MatchString(name) {
		return fmt.Errorf("model name is %.80q, want 1 to 64 letters, digits, dots, dashes and "+
			"underscores", name)
	}
	return nil
}

// duplicateName returns the error of two models of one name.
func duplicateName(name string) error {
	return fmt.Errorf("model name %s is there twice, want other names: NAME=DIR", name)
}

// samplerList is the answer of GET /v1/samplers.
type samplerList struct {
	Object    string          `json:"object"`
	Data      []samplers.Info `json:"data"`
	Schedules []string        `json:"schedules"`

	// Parameters are those of all requests, with underscores in names.
	Parameters []param.Param `json:"parameters"`
}

// answerSamplers answers GET /v1/samplers.
func answerSamplers(*http.Request) (any, *Fault) {
	list := samplerList{Object: "list", Data: samplers.List(), Parameters: generate.Params()}
	for _, schedule := range samplers.Schedules() {
		list.Schedules = append(list.Schedules, schedule.String())
	}
	return list, nil
}
