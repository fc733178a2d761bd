// Command images times image models for tools/peers/images.py: a guided step of a generator, or a
// picture's decoding, on one thread. It prints the processor seconds of each call as JSON.
//
//	images step DIR CALLS BATCH    a full pass of twice BATCH sequences, mixed, its head at every
//	                               masked position: a draw
//	images decode DIR CALLS BATCH  the pictures of BATCH sequences of codes
package main

import (
	"cmp"
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

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("want step or decode, DIR, CALLS and BATCH")
	}
	calls, err := strconv.Atoi(args[2])
	batch, wrong := strconv.Atoi(args[3])
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	o := unmask.Options{Backend: cpu.New(cpu.Options{Threads: 1})}
	var call func() error
	switch args[0] {
	case "step":
		call, err = step(args[1], batch, o)
	case "decode":
		call, err = decode(args[1], batch, o)
	default:
		err = fmt.Errorf("%s is neither step nor decode", args[0])
	}
	if err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	var seconds []float64
	for range calls {
		began := processor.Seconds()
		if err := call(); err != nil {
			return err
		}
		seconds = append(seconds, processor.Seconds()-began)
	}
	return json.NewEncoder(os.Stdout).Encode(seconds)
}

// step returns a guided pass over masked sequences.
func step(dir string, batch int, o unmask.Options) (func() error, error) {
	m, err := unmask.Load(context.Background(), dir, o)
	if err != nil {
		return nil, err
	}
	spec := m.Spec()
	length := spec.Length()
	b := &model.Batch{Size: batch, Length: length}
	d := model.Draw{Power: 1, Uniform: make([]float64, batch*length),
		Token: make([]int32, batch*length), LogP: make([]float64, batch*length)}
	for i := range batch * length {
		b.Tokens, b.ReadRows = append(b.Tokens, spec.Mask), append(b.ReadRows, int32(i))
		d.Uniform[i] = 0.5
	}
	for range batch {
		c := &model.Condition{Class: 1}
		if spec.Prompt {
			c = &model.Condition{Prompt: states(0.1), Unconditional: &model.Condition{Prompt: states(0)}}
		}
		b.Conditions = append(b.Conditions, c)
	}
	g := guide.New(m.Denoiser, func(model.Progress) float64 { return 2 })
	return func() error {
		got, err := g.Forward(context.Background(), b)
		if err != nil {
			return err
		}
		return got.Sample(b.ReadRows, &d)
	}, nil
}

// states are those of a text, as CLIP-L makes them.
func states(x float32) *model.Prompt {
	const rows, width = 77, 768
	p := &model.Prompt{Rows: rows, Width: width, States: make([]float32, rows*width),
		Final: make([]float32, rows*width), Pooled: make([]float32, width)}
	for i := range p.States {
		p.States[i], p.Final[i] = x, x
	}
	return p
}

// decode returns the pictures of codes.
func decode(dir string, batch int, o unmask.Options) (func() error, error) {
	p, err := export.LoadPictures(context.Background(), dir, o)
	if err != nil {
		return nil, err
	}
	c, err := p.Codec()
	if late, ok := c.(model.LateCodec); ok && err == nil {
		err = late.LoadDecoder()
	}
	if err != nil {
		return nil, err
	}
	n := model.Spec{Shape: c.Shape()}.Length()
	width, height := c.Size()
	codes, pixels := make([]int32, batch*n), make([]float32, batch*3*width*height)
	for i := range codes {
		codes[i] = int32(37 * i % c.Codes())
	}
	return func() error {
		for i := range batch {
			if err := c.Decode(pixels[i*3*width*height:(i+1)*3*width*height],
				codes[i*n:(i+1)*n]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
