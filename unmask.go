// Package unmask runs masked diffusion models: a sequence starts as masks and is filled in
// over N steps by a bidirectional transformer and a sampler, the rule for which positions
// open next and how their tokens are drawn.
//
//	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
//	r := unmask.Request{Prompt: "Once upon a time"}
//	for step, err := range unmask.Generate(ctx, m, r, 1) { ... }
//
// Published weights of text and image models load by name; see docs/models.md. A [Request] says in
// words and numbers what is wanted, as the command's flags do, and [Model.Prepare] turns it into
// what the loop runs.
package unmask

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"sync"

	"unmask/backend"
	"unmask/backend/open"
	"unmask/backend/plain"
	"unmask/catalog"
	"unmask/exact"
	"unmask/families/omnivoice"
	"unmask/generate"
	"unmask/generate/footprint"
	"unmask/model"
	"unmask/paint"
	"unmask/param"
	"unmask/prompt"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
	"unmask/weights/hub"

	// Networks and codecs register themselves.
	_ "unmask/dit"
	_ "unmask/families/amused"
	_ "unmask/families/d1"
	_ "unmask/families/encoders"
	_ "unmask/families/halton"
	_ "unmask/families/maskgen"
	_ "unmask/families/pgm"
	_ "unmask/families/titok"
	_ "unmask/media/codecs/latents"
	_ "unmask/media/codecs/vq"
	_ "unmask/media/codecs/vqgan"
	_ "unmask/vit"
)

// Options say how a model is loaded. The zero value is float32 on all cores.
type Options struct {
	// Device is a name that open.Device takes; "" means cpu.
	Device string

	// Threads of the CPU; 0: all cores.
	Threads int

	Precision backend.Precision

	// Fit replaces Precision by a smaller one if the weights exceed free memory.
	Fit bool

	// Backend is a device that is already open. Device and Threads are then ignored.
	Backend backend.Backend

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
	Info    model.Info
	Backend backend.Backend

	// Source has the model's files; nil for an exact model.
	Source *model.Source

	// Precision is that of the weights' products.
	Precision backend.Precision

	// Name is the name passed to Load.
	Name string

	// Text is nil where the model makes no text.
	Text *prompt.Text

	// Tokenizer is that of a model that reads texts and makes none: it answers with vectors, or
	// with probabilities of a question's options.
	Tokenizer tokenizers.Tokenizer

	// Pictures is nil where the model makes no pictures.
	Pictures *paint.Pictures

	// Speech is nil where the model does not speak.
	Speech *omnivoice.Model

	// Recipe is the model's published run; "" for the defaults of its kind. Presets are other
	// published runs, by name.
	Recipe  string
	Presets map[string]string

	// AnswerLength is the number of positions on which an answer begins.
	AnswerLength int

	// Classes are the names of its classes, where they have names.
	Classes []string

	kind model.Kind

	// revision is model.Loaded.Revision.
	revision string

	// templateVariables are those of the chat template, as its authors set them.
	templateVariables map[string]any

	// chat reads the chat template, once.
	chat func() (*chat.Model, error)

	// languages compiles grammars; nil where the model makes no text.
	languages *prompt.Languages
}

// Kind returns what the model's sequences stand for.
func (m *Model) Kind() model.Kind { return m.kind }

// NewModel returns the model of a network that was loaded or built on a device; src is nil if it
// has no files.
func NewModel(l *model.Loaded, device backend.Backend, src *model.Source) *Model {
	m := &Model{
		Denoiser: l.Denoiser,
		Info:     l.Info,
		Backend:  device,
		Source:   src,
		Recipe:   l.Recipe,
		Presets:  l.Presets,
		Classes:  l.Classes,

		AnswerLength:      cmp.Or(l.AnswerLength, ReplyLength),
		kind:              cmp.Or(l.Kind, model.KindTokens),
		revision:          l.Revision,
		templateVariables: l.Variables,
	}
	if src != nil {
		m.Name = src.Name
	}
	if m.kind == model.KindVectors {
		m.Tokenizer = l.Tokenizer
	} else {
		m.Text = prompt.NewText(l)
	}
	if l.Codec != nil {
		m.Pictures = paint.New(l.Codec, l.Spec().Mask)
	}
	m.Speech, _ = l.Denoiser.(*omnivoice.Model)
	m.chat = sync.OnceValues(m.readChat)
	if m.Text != nil {
		m.languages = prompt.NewLanguages(m.Text, l.Spec(), m.callForm)
	}
	return m
}

// Load loads the model at name, one of:
//
//	demo                              what catalog.Embed registered under it
//	oracle:markov:length=16,tokens=4  an exact model, as exact.Parse reads it
//	DIR                               a directory with config.json and model.safetensors
//	FILE.gguf                         a GGUF file
//	org/name[@revision]               on the Hugging Face hub, from the cache or downloaded to it
//	org/name[@revision]:FOLDER/       a model in a folder there
//	org/name[@revision]:FILE.gguf     a GGUF file there
//
// An error names the file or the repository and what is wrong with it. Cancel ctx to give up a
// download.
func Load(ctx context.Context, name string, o Options) (*Model, error) {
	if catalog.IsExact(name) {
		return loadExact(name)
	}
	src, err := catalog.Open(ctx, name, o.Progress)
	if err != nil {
		return nil, err
	}
	return loadSource(src, o)
}

// LoadFS loads a model from a file system, such as an embedded one. name is what
// it is called.
func LoadFS(files fs.FS, name string, o Options) (*Model, error) {
	src, err := model.OpenFS(files, name)
	if err != nil {
		return nil, err
	}
	return loadSource(src, o)
}

// OpenBackend returns the device that the options name, or the one that they have. An unknown
// precision or device is a *param.Error; a GPU that is not there or too old is an error too.
func (o *Options) OpenBackend() (backend.Backend, error) {
	if o.Precision > backend.Int8 {
		return nil, &param.Error{
			Name:  "precision",
			Found: strconv.Itoa(int(o.Precision)),
			Want:  "F32, BF16 or Int8 of package backend",
		}
	}
	if o.Backend != nil {
		return o.Backend, nil
	}
	return open.Device(cmp.Or(o.Device, "cpu"), o.Threads)
}

// loadSource loads the model of src, which it closes after an error.
func loadSource(src *model.Source, o Options) (_ *Model, err error) {
	defer func() {
		if err != nil {
			src.Set.Close()
		}
	}()
	device, err := o.OpenBackend()
	if err != nil {
		return nil, err
	}
	src.KindOverride = o.As
	precision, note, err := footprint.ChoosePrecision(src, device, o.Precision, o.Fit)
	if err != nil {
		return nil, err
	}
	l, err := model.Load(src, model.Options{Backend: device, Precision: precision})
	if err != nil {
		return nil, err
	}
	m := NewModel(l, device, src)
	m.Precision = precision
	if note != "" {
		m.Info.Notes = append(m.Info.Notes, note)
	}
	return m, nil
}

// loadExact returns an exact model whose tokens are shown as letters or, if there are too many, as
// numbers.
func loadExact(name string) (*Model, error) {
	distribution, err := catalog.ParseExact(name)
	if err != nil {
		return nil, err
	}
	info := model.Info{
		Architecture: "oracle",
		Sizes: map[string]int{
			"length": distribution.Length(),
			"tokens": distribution.Tokens(),
		},
		Tokenizer: "letters, or numbers above 26 tokens",
	}
	if shape := distribution.Shape(); len(shape) == 2 {
		info.Sizes["height"] = shape[0]
		info.Sizes["width"] = shape[1]
	}
	l := &model.Loaded{
		Denoiser:  exact.NewDenoiser(distribution),
		Info:      info,
		Kind:      model.KindText,
		Tokenizer: exact.Symbols(distribution, prompt.Hole),
	}
	m := NewModel(l, plain.New(), nil)
	m.Name = name
	return m, nil
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

// Generate runs the denoising loop for n samples of a request and yields after each step of each
// batch. Sample i has the index Request.Index + i, and differs in nothing else. After ctx is
// cancelled it ends with an error that wraps ctx.Err(). It may be called from several goroutines at
// once; what it yields is one goroutine's.
func Generate(ctx context.Context, m *Model, r Request, n int) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		q, err := m.Prepare(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		options, err := generate.Options{Request: q, N: n}.Check(m.Denoiser)
		if err == nil {
			err = footprint.CheckBatch(m.Denoiser, m.Backend, options.Request, options.Batch)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		generate.Run(ctx, m.Denoiser, options)(yield)
	}
}

// Defaults returns the recipe that the model was published with or, if it has none, the default of
// its kind. It has no guidance if the model takes no condition. An error is that of a recipe in the
// model's files which this version cannot read.
func (m *Model) Defaults() (generate.Recipe, error) {
	if m.Recipe != "" {
		return m.parsePublished(m.Recipe)
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

// parsePublished reads a recipe that comes with the model.
func (m *Model) parsePublished(text string) (generate.Recipe, error) {
	r, err := generate.ParseRecipe(text)
	if err != nil {
		return r, fmt.Errorf("%s: published recipe: %w", m.Name, err)
	}
	spec := m.Spec()
	if spec.Classes == 0 && !spec.Prompt {
		r.Guidance = generate.Guidance{}
	}
	return r.WithDefaults(spec), nil
}
