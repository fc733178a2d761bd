package model

import (
	"fmt"

	"unmask/tokenizers"
)

// Kind names what a model's sequences encode.
type Kind string

// The kinds of models. Commands that show samples need KindText, KindImage or KindSpeech.
const (
	KindTokens Kind = "tokens" // ids of unknown meaning
	KindText   Kind = "text"
	KindImage  Kind = "image"
	// vectors of texts, or answers to typed questions: the network has no head for tokens
	KindVectors Kind = "vectors"
	KindSpeech  Kind = "speech" // codes of sound
)

// Loaded is a network with everything that it brings. A Format's Load fills in what its model has;
// every field except Denoiser may be zero.
type Loaded struct {
	Denoiser
	Info Info
	Kind Kind // "" means KindTokens

	// Tokenizer turns text into the ids of Spec's outcomes; nil if the model makes no text. It need
	// not know the mask: prompt.Text shows masked positions itself.
	Tokenizer tokenizers.Tokenizer

	// BeginTokens are tokens before a prompt that goes on, where the authors' sampler has others than
	// the tokenizer's files say; nil: those of the files.
	BeginTokens []int32

	// PadToken fills positions of a text that it does not need, and is not shown; nil if the network
	// draws none. Under a grammar it is the empty word.
	PadToken *int32

	// Variables of the chat template that the authors' program sets, such as enable_thinking: bool,
	// string, int or nil.
	Variables map[string]any

	// Codec loads the model's codec on first use; nil if the model has none. Load sets it for a
	// KindImage model whose Format left it nil and whose files match a registered CodecFormat.
	Codec func() (Codec, error)

	// Recipe is the run that the model was published with, in the syntax of generate.ParseRecipe;
	// "" means the defaults of its kind. A config.json has the last word, by its key unmask_recipe.
	Recipe string

	// Revision is "" for a network whose files are read as version 0.1.0 read them. Settings of runs
	// have it, so that a run that was begun with other logits does not go on.
	Revision string

	// AnswerLength is the usual number of tokens of an answer, on which it begins; 0:
	// DefaultTextLength. A config.json has the last word, by its key unmask_answer_length.
	AnswerLength int

	// Presets are other published runs by name; "fid" is the authors' evaluation.
	Presets map[string]string

	// Classes are the names of classes 0, 1, ... of a class-conditional model; nil if they have
	// none.
	Classes []string
}

// Info describes a loaded network.
type Info struct {
	// Architecture is "" from a Format for its name.
	Architecture string         `json:"architecture"`
	Sizes        map[string]int `json:"sizes"`
	Parameters   int            `json:"parameters"`

	// Tokenizer says where the tokenizer comes from, in words.
	Tokenizer string `json:"tokenizer,omitempty"`

	// Unused are tensors in the files that the network does not use.
	Unused []string `json:"unused,omitempty"`

	// Notes say where tensor shapes overruled config.json, and what of it is not done.
	Notes []string `json:"notes,omitempty"`
}

// Format is one published architecture.
type Format struct {
	Name string

	// Kinds are the values of model_type that it reads, and names of kinds that config.json cannot
	// tell; nil for a format without model_type.
	Kinds []string

	// Match decides by config.json and tensor names, where no kind is known.
	Match func(src *Source) bool

	Load func(src *Source, o Options) (*Loaded, error)

	// Companions are the repositories of the other networks that a model on the hub needs, such as
	// its image tokenizer, by the model's repository and by the folder that would hold the network.
	// They are used where that folder is missing.
	Companions map[string]map[string]string
}

// TokenizerFolder is the folder of Companions for a repository of which only the tokenizer is
// needed: its tokenizer.json.
const TokenizerFolder = "tokenizer"

var formats []Format

// Register adds a format; networks call it from init. Every command, sweep and test of a program
// knows the formats of all packages that the program imports.
func Register(f Format) { formats = append(formats, f) }

// Companion returns the repository of the network that stands for a missing folder of the model
// repo on the hub, and "" if no format names one.
func Companion(repo, folder string) string {
	for _, f := range formats {
		if companion := f.Companions[repo][folder]; companion != "" {
			return companion
		}
	}
	return ""
}

// complete fills in what a Format left to the registry.
func (l *Loaded) complete(src *Source, o Options) error {
	if l.Kind == "" {
		l.Kind = KindTokens
	}
	if l.Kind == KindImage && l.Codec == nil {
		if f := codecFormat(src); f != nil {
			l.Codec = func() (Codec, error) { return f.loadDecoder(src, o) }
		}
	}
	if len(src.Config) == 0 {
		return nil
	}
	config := struct {
		Recipe       *string `json:"unmask_recipe"`
		AnswerLength *int    `json:"unmask_answer_length"`
	}{&l.Recipe, &l.AnswerLength}
	if err := DecodeConfig(src, &config); err != nil {
		return err
	}
	if l.AnswerLength < 0 {
		return fmt.Errorf("config.json: unmask_answer_length is %d, want 1 or more", l.AnswerLength)
	}
	return nil
}
