package model

import "unmask/tokenizers"

// Kind tells what a model's sequences stand for.
type Kind string

// The kinds of models. A command that shows samples needs one of the latter two.
const (
	KindTokens Kind = "tokens" // ids without a meaning that is known here
	KindText   Kind = "text"
	KindImage  Kind = "image"
)

// Loaded is a network with all that it brings. A Format's Load fills in what its model has; every
// field but Denoiser may be left zero.
type Loaded struct {
	Denoiser
	Info Info
	Kind Kind // "" means KindTokens

	// Tokenizer turns text into the ids of Spec's outcomes; nil where the model makes no text. It
	// need not know the mask: the front door shows masked positions itself.
	Tokenizer tokenizers.Tokenizer

	// Codec loads what turns codes into pictures, when it is first needed; nil where the model has
	// none. Load sets it for a KindImage whose Format left it nil and whose files match a
	// registered CodecFormat.
	Codec func() (Codec, error)

	// Recipe is the run that the model was published with, spelled as generate.ParseRecipe reads
	// it; "" for the defaults of the model's kind.
	Recipe string

	// Presets are other published runs, by name: "fid" is that of the authors' evaluation.
	Presets map[string]string

	// Classes are the names of the classes 0, 1, ... of a class-conditional model; nil where the
	// classes have no names.
	Classes []string
}

// Info describes a loaded network.
type Info struct {
	Architecture string         `json:"architecture"`
	Sizes        map[string]int `json:"sizes"`
	Parameters   int            `json:"parameters"`
	Tokenizer    string         `json:"tokenizer,omitempty"` // where it is from, for people
	Unused       []string       `json:"unused,omitempty"`    // tensors that the network does not need
	Notes        []string       `json:"notes,omitempty"`     // where the tensors overruled config.json
}

// Format is one published architecture.
type Format struct {
	Name  string
	Match func(src *Source) bool // by config.json and tensor names
	Load  func(src *Source, o Options) (*Loaded, error)
}

var formats []Format

// Register adds a format; networks call it from init. A network of any module that does is known to
// every command, sweep and test of the program that imports it.
func Register(f Format) { formats = append(formats, f) }

// complete fills in what a Format may leave to the registry.
func (l *Loaded) complete(src *Source, o Options) {
	if l.Kind == "" {
		l.Kind = KindTokens
	}
	if f := codecFormat(src); l.Kind == KindImage && l.Codec == nil && f != nil {
		l.Codec = func() (Codec, error) { return f.load(src, o) }
	}
}
