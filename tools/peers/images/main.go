// Command images times image models for tools/peers/images.py: a guided step of a generator, or a
// picture's decoding, on one thread. It prints the processor seconds of each call as JSON.
//
//	images step DIR CALLS BATCH    a full pass of twice BATCH sequences, mixed, its head at every
//	                               masked position: a draw
//	images decode DIR CALLS BATCH  the pictures of BATCH sequences of codes
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"unmask"
	"unmask/backend/cpu"
	"unmask/guide"
	"unmask/internal/processor"
	"unmask/model"
	"unmask/research/export"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run measures calls of a step or of a decoder, and prints the processor's seconds of each as JSON.
func run(args []string) error {
	if len(args) != 4 {
		return errors.New("want step or decode, DIR, CALLS and BATCH")
	}
	dir := args[1]
	calls, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	batch, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}

	options := unmask.Options{Backend: cpu.New(cpu.Options{Threads: 1})}
	var call func() error
	switch args[0] {
	case "step":
		call, err = prepareStep(dir, batch, options)
	case "decode":
		call, err = prepareDecode(dir, batch, options)
	default:
		err = fmt.Errorf("%s is neither step nor decode", args[0])
	}
	if err != nil {
		return err
	}

	// The first call is not timed: it allocates working memory and reads mapped weights.
	if err := call(); err != nil {
		return err
	}
	var seconds []float64
	for range calls {
		start := processor.Seconds()
		if err := call(); err != nil {
			return err
		}
		seconds = append(seconds, processor.Seconds()-start)
	}
	return json.NewEncoder(os.Stdout).Encode(seconds)
}

// prepareStep returns a function that runs one guided pass over masked sequences and draws a token
// at each position.
func prepareStep(dir string, batch int, options unmask.Options) (func() error, error) {
	m, err := unmask.Load(context.Background(), dir, options)
	if err != nil {
		return nil, err
	}
	spec := m.Spec()
	length := spec.Length()
	b := &model.Batch{Size: batch, Length: length}
	draw := model.Draw{
		Power:   1,
		Uniform: make([]float64, batch*length),
		Token:   make([]int32, batch*length),
		LogP:    make([]float64, batch*length),
	}
	for i := range batch * length {
		b.Tokens = append(b.Tokens, spec.Mask)
		b.ReadRows = append(b.ReadRows, int32(i))
		draw.Uniform[i] = 0.5
	}
	for range batch {
		condition := &model.Condition{Class: 1}
		if spec.Prompt {
			condition = &model.Condition{
				Prompt:        constantPrompt(0.1),
				Unconditional: &model.Condition{Prompt: constantPrompt(0)},
			}
		}
		b.Conditions = append(b.Conditions, condition)
	}

	guided := guide.New(m.Denoiser, func(model.Progress) float64 { return 2 })
	return func() error {
		marginals, err := guided.Forward(context.Background(), b)
		if err != nil {
			return err
		}
		return marginals.Sample(b.ReadRows, &draw)
	}, nil
}

// constantPrompt returns states of a text, all x, in the shapes of CLIP-L's. The time of a pass
// does not depend on their values, so no text encoder is needed.
func constantPrompt(x float32) *model.Prompt {
	const rows = 77
	const width = 768
	p := &model.Prompt{
		Rows:   rows,
		Width:  width,
		States: make([]float32, rows*width),
		Final:  make([]float32, rows*width),
		Pooled: make([]float32, width),
	}
	for i := range p.States {
		p.States[i] = x
		p.Final[i] = x
	}
	return p
}

// prepareDecode returns a function that decodes the codes of batch pictures.
func prepareDecode(dir string, batch int, options unmask.Options) (func() error, error) {
	pictures, err := export.LoadPictures(context.Background(), dir, options)
	if err != nil {
		return nil, err
	}
	codec, err := pictures.Codec()
	if err != nil {
		return nil, err
	}
	if late, ok := codec.(model.LateCodec); ok {
		if err := late.LoadDecoder(); err != nil {
			return nil, err
		}
	}

	length := model.Spec{Shape: codec.Shape()}.Length() // codes of a picture
	width, height := codec.Size()
	size := 3 * width * height // values of a picture
	codes := make([]int32, batch*length)
	pixels := make([]float32, batch*size)
	for i := range codes {
		codes[i] = int32(37 * i % codec.Codes())
	}
	return func() error {
		for i := range batch {
			picture := pixels[i*size : (i+1)*size]
			if err := codec.Decode(picture, codes[i*length:(i+1)*length]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
