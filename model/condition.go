package model

import (
	"context"
	"fmt"
	"sync"
)

// NoClass is the Condition.Class of a sequence without a class.
const NoClass = -1

// Condition is what the tokens of a sequence depend on beside each other. A nil Condition is
// none: a model of classes then uses the row that it was trained with for no class, a model of
// prompts returns an error, because its "none" is a prompt too (most often the empty one).
//
// The zero Condition is class 0. A model reads what its Spec says and no more.
type Condition struct {
	Class  int32   // 0 to Spec.Classes-1, or NoClass; for models with Spec.Classes > 0
	Prompt *Prompt // for models with Spec.Prompt

	// Given are positions, ascending, whose known tokens are the condition: the prompt of a
	// language model. Networks do not read it; guidance masks them in the pass without.
	Given []int32

	// Without replaces the condition in the other pass of guidance, which lacks it: the empty or
	// a negative prompt. Nil is no class, or with Given the same condition. Without it a
	// model of prompts cannot be guided.
	Without *Condition
}

// Prompt is a text as a model's own text encoder left it, computed once, then shared by all
// steps and sequences. Slices never change after the first use; always hold it by pointer.
type Prompt struct {
	Rows, Width int
	States      []float32 // [Rows, Width] what the transformer attends to
	Final       []float32 // [Rows, Width] for picture decoders that read the text too; nil: none
	Used        []bool    // [Rows] false where a row is hidden from attention; nil: all are seen
	Pooled      []float32 // [pooled width] one vector for the whole text; nil: none

	// Numbers are further inputs, in the network's own order (aMUSEd: width, height, top and
	// left of the crop in pixels, aesthetic score; MaskGen: aesthetic score); nil: its defaults.
	Numbers []float64

	// Cut tells that the text was longer than the encoder reads.
	Cut bool

	mu      sync.Mutex
	derived map[any]any
}

// Derive returns what make returns, which it calls once for each key: such as a network's keys and
// values of the text, with the network as the key. They live as long as the prompt. It may be
// called from several goroutines.
func (p *Prompt) Derive(key any, make func() (any, error)) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.derived[key]; ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	if p.derived == nil {
		p.derived = map[any]any{}
	}
	p.derived[key] = v
	return v, nil
}

// Prompter is a Denoiser that reads prompts with a text encoder of its own.
type Prompter interface {
	Denoiser
	// Prompts encodes texts; "" is the empty prompt. It may be called while the model computes.
	Prompts(ctx context.Context, texts []string) ([]*Prompt, error)
}

// CheckCondition returns an error for a condition that a model with this Spec does not know, and
// where one is needed but c is nil.
func (s Spec) CheckCondition(c *Condition) error {
	if c == nil {
		if s.Prompt {
			return fmt.Errorf("there is no prompt, want one: this model draws from a text")
		}
		return nil
	}
	switch {
	case s.Classes == 0 && c.Class > 0:
		return fmt.Errorf("class is %d, want none: this model has no classes", c.Class)
	case s.Classes > 0 && c.Class != NoClass && (c.Class < 0 || int(c.Class) >= s.Classes):
		return fmt.Errorf("class is %d, want 0 to %d, or %d for none", c.Class, s.Classes-1, NoClass)
	case s.Prompt && c.Prompt == nil:
		return fmt.Errorf("there is no prompt, want one: this model draws from a text")
	case !s.Prompt && c.Prompt != nil:
		return fmt.Errorf("there is a prompt, want none: this model reads no text")
	}
	if p := c.Prompt; p != nil {
		switch n := p.Rows * p.Width; {
		case p.Rows < 0 || p.Width < 0 || len(p.States) != n:
			return fmt.Errorf("the prompt has %d numbers, want %d x %d", len(p.States), p.Rows, p.Width)
		case p.Final != nil && len(p.Final) != n:
			return fmt.Errorf("the prompt has %d final numbers, want %d x %d", len(p.Final), p.Rows, p.Width)
		case p.Used != nil && len(p.Used) != p.Rows:
			return fmt.Errorf("the prompt's mask has %d rows, want %d", len(p.Used), p.Rows)
		}
	}
	for i, p := range c.Given {
		if p < 0 || int(p) >= s.Length() || i > 0 && p <= c.Given[i-1] {
			return fmt.Errorf("given position %d is %d, want ascending ones of 0 to %d", i, p, s.Length()-1)
		}
	}
	return nil
}
