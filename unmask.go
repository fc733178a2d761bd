// Package unmask runs masked diffusion models: a sequence starts as masks and is filled in
// over N steps by a bidirectional transformer and a sampler, the rule for which positions
// open next and how their tokens are drawn.
//
//	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
//	for step, err := range unmask.Generate(ctx, m, unmask.Run{Steps: 32}) { ... }
//
// Networks of SDTT, MDLM (text) and MAGE (images) load from their published weights.
package unmask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"unmask/backend"
	"unmask/generate"
	"unmask/model"
	"unmask/tokenizers"
	"unmask/weights/hub"

	_ "unmask/dit" // the networks register themselves
	_ "unmask/vit"
)

// Options choose how a model is loaded. The zero value is float32 on all cores.
type Options struct {
	Device    string // as OpenDevice takes it; "" means cpu
	Threads   int    // of the CPU; 0: all cores
	Precision backend.Precision
	Backend   backend.Backend // a device that is open already, used whatever Device says

	// Progress is told of a download's bytes; nil for silence.
	Progress func(hub.Progress)
}

// Model is a loaded network with its tokenizer.
type Model struct {
	model.Denoiser
	Info      model.Info
	Backend   backend.Backend
	Tokenizer tokenizers.Tokenizer // nil for images; masked positions show as Hole
	Source    *model.Source        // its files
}

// Hole stands for a masked position in decoded text.
const Hole = "▯"

// HubFiles are the files of a model on the hub.
var HubFiles = []string{"config.json", "model.safetensors"}

const tokenizerFile = "tokenizer.json"

// Load loads the model at name: a directory with config.json and model.safetensors, or
// org/name[@revision] on the Hugging Face hub, from the cache or downloaded to it.
func Load(ctx context.Context, name string, o Options) (*Model, error) {
	dir, err := Locate(ctx, name, o.Progress)
	if err != nil {
		return nil, err
	}
	src, err := model.Open(dir)
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

// Locate returns the directory of a model by the name that Load takes.
func Locate(ctx context.Context, name string, progress func(hub.Progress)) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return name, nil
	case err == nil:
		return "", fmt.Errorf("model %s is a file, allowed are a directory with config.json and model.safetensors, or org/name[@revision]", name)
	case strings.HasPrefix(name, ".") || filepath.IsAbs(name) || strings.Count(name, "/") != 1 && !strings.Contains(name, "@"):
		return "", fmt.Errorf("model %s: there is no such directory, and it is not org/name[@revision]", name)
	}
	repo, revision, err := hub.Parse(name)
	if err != nil {
		return "", err
	}
	return hub.Pull(ctx, repo, revision, HubFiles, progress)
}

func load(src *model.Source, o Options) (*Model, error) {
	b := o.Backend
	if b == nil {
		var err error
		if b, err = OpenDevice(cmp.Or(o.Device, "cpu"), o.Threads); err != nil {
			return nil, err
		}
	}
	if _, err := fs.Stat(src.Files, tokenizerFile); err != nil {
		go tokenizers.GPT2() // takes 80 ms the first time: begin while the weights load
	}
	l, err := model.Load(src, model.Options{Backend: b, Precision: o.Precision})
	if err != nil {
		return nil, err
	}
	m := &Model{Denoiser: l.Denoiser, Info: l.Info, Backend: b, Source: src}
	if l.Info.Tokenizer != "" {
		var t tokenizers.Tokenizer
		if t, m.Info.Tokenizer, err = tokenizer(src, l.Info.Tokenizer); err != nil {
			return nil, err
		}
		m.Tokenizer = tokenizers.WithMask(t, l.Spec().Mask, Hole)
	}
	return m, nil
}

// tokenizer is the tokenizer.json beside the weights or, without one, GPT-2's by its name. It
// returns which.
func tokenizer(src *model.Source, name string) (tokenizers.Tokenizer, string, error) {
	data, err := model.ReadFile(src.Files, tokenizerFile, tokenizers.MaxFile)
	switch {
	case err == nil:
		t, err := tokenizers.Parse(data)
		if err != nil {
			err = fmt.Errorf("%s: %w", src.Name, err)
		}
		return t, tokenizerFile, err
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("%s: %s: %w", src.Name, tokenizerFile, err)
	case path.Base(name) == "gpt2":
		return tokenizers.GPT2(), name, nil
	}
	return nil, "", fmt.Errorf("%s: tokenizer %q is neither gpt2 nor a %s beside config.json", src.Name, name, tokenizerFile)
}

// Run says what Generate does; see generate.Options.
type Run = generate.Options

// Step is the state of a batch after a step; see generate.Step.
type Step = generate.Step

// Generate runs the denoising loop and yields after each step of each batch. It ends with an
// error that wraps ctx.Err() when ctx is cancelled.
func Generate(ctx context.Context, m *Model, r Run) iter.Seq2[*Step, error] {
	return generate.Run(ctx, m.Denoiser, r)
}
