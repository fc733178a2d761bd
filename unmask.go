// Package unmask runs masked diffusion models: a sequence starts as masks and is filled in
// over N steps by a bidirectional transformer and a sampler, the rule for which positions
// open next and how their tokens are drawn.
//
//	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
//	r := unmask.Request{Prompt: "Once upon a time"}
//	for step, err := range unmask.Generate(ctx, m, unmask.Run{Request: r}) { ... }
//
// Published weights of text and image models load by name; see docs/models.md. A [Request] says in
// words and numbers what is wanted, as the command's flags do, and [Model.Prepare] turns it into
// what the loop runs.
package unmask

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"sync"

	"unmask/backend"
	"unmask/constrain"
	_ "unmask/dit"
	_ "unmask/families/amused" // networks and codecs register themselves
	_ "unmask/families/encoders"
	_ "unmask/families/halton"
	_ "unmask/families/maskgen"
	"unmask/families/omnivoice"
	_ "unmask/families/titok"
	"unmask/generate"
	"unmask/grammar"
	"unmask/internal/lru"
	_ "unmask/media/codecs/latents"
	_ "unmask/media/codecs/vq"
	_ "unmask/media/codecs/vqgan"
	"unmask/model"
	"unmask/paint"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
	_ "unmask/vit"
	"unmask/weights/hub"
)

// Options say how a model is loaded. The zero value is float32 on all cores.
type Options struct {
	Device    string // as OpenDevice takes it; "" means cpu
	Threads   int    // of the CPU; 0: all cores
	Precision backend.Precision
	Fit       bool            // replace Precision by a smaller one if the weights exceed free memory
	Backend   backend.Backend // a device that is already open; Device is then ignored

	// As is the kind of model to read the files as, one of docs/models.md, in place of what
	// config.json says or leaves open; "" for what it says.
	As string

	// Progress, if not nil, is called as a download proceeds.
	Progress func(hub.Progress)
}

// Model is a loaded network with its tokenizer or its codec of pictures. Several goroutines may use
// one, also to generate: passes are taken in turn, and each run gets what it gets alone. Its fields
// must not change meanwhile. It has no Close: its memory and goroutines end when nothing refers to
// it any more. Files that were loaded stay mapped, which takes addresses alone.
type Model struct {
	model.Denoiser
	Info      model.Info
	Backend   backend.Backend
	Source    *model.Source     // its files; nil for an exact model
	Precision backend.Precision // of the weights' products
	Name      string            // the name passed to Load
	Text      *Text             // nil where the model makes no text
	// of a model that reads texts and makes none: vectors of texts, or answers to questions
	Tokenizer tokenizers.Tokenizer
	Pictures  *paint.Pictures   // nil where the model makes no pictures
	Speech    *omnivoice.Model  // nil where the model does not speak
	Recipe    string            // its published run; "" for the defaults of its kind
	Presets   map[string]string // other published runs, by name
	Classes   []string          // names of its classes, where they have names

	kind     model.Kind
	vars     map[string]any              // of the chat template, as its authors set them
	chat     func() (*chat.Model, error) // once
	grammars *grammars

	vocabulary func() *grammar.Vocabulary // once
}

// Kind returns what the model's sequences stand for.
func (m *Model) Kind() model.Kind { return m.kind }

// NewModel returns the model of a network that was loaded or built on device b; src is nil if it
// has no files.
func NewModel(l *model.Loaded, b backend.Backend, src *model.Source) *Model {
	m := &Model{Denoiser: l.Denoiser, Info: l.Info, Backend: b, Source: src, Recipe: l.Recipe,
		Presets: l.Presets, Classes: l.Classes,
		kind: cmp.Or(l.Kind, model.KindTokens), vars: l.Variables}
	if t := l.Tokenizer; m.kind == model.KindVectors {
		m.Tokenizer = t
	} else if t != nil {
		t = tokenizers.WithSpecial(t, append(slices.Clone(l.Spec().EndTokens), l.Spec().Mask)...)
		if shown, _ := t.Token(l.Spec().Mask); shown != Hole {
			t = tokenizers.WithMask(t, l.Spec().Mask, Hole)
		}
		m.Text = &Text{Tokenizer: t, spec: l.Spec()}
		if m.Text.begins = l.BeginTokens; l.BeginTokens == nil && l.Spec().SpecialCount() == 0 {
			m.Text.first, m.Text.last = tokenizers.SurroundingTokens(t)
		}
	}
	m.Speech, _ = l.Denoiser.(*omnivoice.Model)
	if l.Codec != nil {
		m.Pictures = paint.New(l.Codec, l.Spec().Mask)
	}
	if src != nil {
		m.Name = src.Name
	}
	m.chat = sync.OnceValues(m.readChat)
	m.grammars = lru.New[[sha256.Size]byte, *constrain.Language](maxGrammars)
	m.vocabulary = sync.OnceValue(func() *grammar.Vocabulary { return Vocabulary(m.Text, m.Spec()) })
	return m
}

// Hole is the character of a masked position in decoded text.
const Hole = "▯"

// Load loads the model at name, one of:
//
//	demo                              what Embed registered under it
//	oracle:markov:length=16,tokens=4  an exact model, as oracle.Parse reads it
//	DIR                               a directory with config.json and model.safetensors
//	FILE.gguf                         a GGUF file
//	org/name[@revision]               on the Hugging Face hub, from the cache or downloaded to it
//	org/name[@revision]:FILE.gguf     a GGUF file there
func Load(ctx context.Context, name string, o Options) (*Model, error) {
	if IsExact(name) {
		return loadExact(name)
	}
	src, err := Open(ctx, name, o.Progress)
	if err != nil {
		return nil, err
	}
	return load(src, o)
}

// LoadFS loads a model from a file system, such as an embedded one.
func LoadFS(files fs.FS, name string, o Options) (*Model, error) {
	src, err := model.OpenFS(files, name)
	if err != nil {
		return nil, err
	}
	return load(src, o)
}

// open opens the device that the options name.
func (o *Options) open() (backend.Backend, error) {
	if o.Precision > backend.Int8 {
		return nil, &param.Error{Name: "precision", Found: strconv.Itoa(int(o.Precision)),
			Want: "F32, BF16 or Int8 of package backend"}
	}
	if o.Backend != nil {
		return o.Backend, nil
	}
	return OpenDevice(cmp.Or(o.Device, "cpu"), o.Threads)
}

// load loads the model of src, which it closes after an error.
func load(src *model.Source, o Options) (_ *Model, err error) {
	defer func() {
		if err != nil {
			src.Set.Close()
		}
	}()
	b, err := o.open()
	if err != nil {
		return nil, err
	}
	src.KindOverride = o.As
	precision, note, err := o.fit(src, b)
	if err != nil {
		return nil, err
	}
	l, err := model.Load(src, model.Options{Backend: b, Precision: precision})
	if err != nil {
		return nil, err
	}
	m := NewModel(l, b, src)
	if m.Precision = precision; note != "" {
		m.Info.Notes = append(m.Info.Notes, note)
	}
	return m, nil
}

// Run is N samples of a request. Sample i differs in its Index alone, which is the request's and i.
type Run struct {
	Request
	N     int // 0 means 1
	Batch int // samples at once; 0: see generate.Options
}

// Overrides replace parameters of a model's published run; see generate.Overrides. Those of a
// [Recipe]'s fields are its method Overrides.
type (
	Overrides = generate.Overrides
	Recipe    = generate.Recipe
	Filter    = model.Filter
)

// Step is the state of a batch after a step; see generate.Step.
type Step = generate.Step

// Generate runs the denoising loop and yields after each step of each batch. After ctx is cancelled
// it ends with an error that wraps ctx.Err(). It may be called from several goroutines at once;
// what it yields is one goroutine's.
func Generate(ctx context.Context, m *Model, r Run) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		q, err := m.Prepare(ctx, r.Request)
		o := generate.Options{Request: q, N: r.N, Batch: r.Batch}
		if err == nil {
			o, err = m.Check(o)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		generate.Run(ctx, m.Denoiser, o)(yield)
	}
}

// Defaults returns the recipe that the model was published with or, if it has none, the default of
// its kind. It has no guidance if the model takes no condition.
func (m *Model) Defaults() (generate.Recipe, error) {
	if m.Recipe != "" {
		return m.published(m.Recipe)
	}
	spec := m.Spec()
	if m.kind == model.KindText {
		spec.Shape = []int{spec.Length()}
	}
	r := generate.Defaults(spec)
	if _, ok := m.Denoiser.(model.Refiner); !ok {
		r.Cache = 0
	}
	return r, nil
}

// published reads a recipe that comes with the model.
func (m *Model) published(text string) (generate.Recipe, error) {
	r, err := generate.ParseRecipe(text)
	if err != nil {
		return r, fmt.Errorf("%s: published recipe: %w", m.Name, err)
	}
	if spec := m.Spec(); spec.Classes == 0 && !spec.Prompt {
		r.Guidance = generate.Guidance{}
	}
	return r.WithDefaults(m.Spec()), nil
}
