package model

import (
	"context"
	"fmt"
	"sync"
)

// NoClass is the Condition.Class of a sequence without a class.
const NoClass = -1

// Condition is a class or a prompt for a sequence. Without one (nil), a class-conditional model
// uses the row that it was trained with for no class, and a model of prompts returns an error,
// because its "none" is a prompt too (most often the empty one).
//
// The zero Condition is class 0. A model reads only the fields that its Spec asks for.
type Condition struct {
	// Class is 0 to Spec.Classes-1, or NoClass; for models with Spec.Classes > 0.
	Class int32

	// Prompt is for models with Spec.Prompt.
	Prompt *Prompt

	// KnownPositions are the positions, ascending, whose known tokens are the condition: a language
	// model's prompt. Networks do not read it; guidance masks these positions in its unconditional
	// pass.
	KnownPositions []int32

	// Unconditional is the condition of guidance's other pass: the empty or a negative prompt. Nil
	// means no class or, with KnownPositions, the same condition with these positions masked. A model
	// of prompts cannot be guided if it is nil.
	Unconditional *Condition
}

// Prompt is an encoded text, computed once and shared by all steps and sequences. Its slices must
// not change after the first use; it must be held by pointer.
type Prompt struct {
	// Rows is the number of rows of States, and Width that of their numbers.
	Rows  int
	Width int

	// States, [Rows, Width], are what the transformer attends to.
	States []float32

	// Final, [Rows, Width], is for picture decoders that read the text too; nil means none.
	Final []float32

	// VisibleRows, [Rows], is false where a row is hidden from attention; nil means that all are seen.
	VisibleRows []bool

	// Pooled, [pooled width], is one vector for the whole text; nil means none.
	Pooled []float32

	// Numbers are further inputs in the network's own order (aMUSEd: width, height, top and left of
	// the crop in pixels, aesthetic score; MaskGen: aesthetic score); nil means its defaults.
	Numbers []float64

	// Truncated means that the text was longer than the encoder reads.
	Truncated bool

	// derived are the results of Derive, by key; mu guards them.
	mu      sync.Mutex
	derived map[any]any
}

// Derive returns the result of make, which is called once for each key: for example a network's
// keys and values of the text, with the network as key. Results live as long as the prompt, so a
// network needs no table of prompts and no rule for when to forget one. Derive may be called
// concurrently.
func (p *Prompt) Derive(key any, make func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.derived[key]
	if !ok {
		v = make()
		if p.derived == nil {
			p.derived = map[any]any{}
		}
		p.derived[key] = v
	}
	return v
}

// Prompter is a Denoiser that reads prompts with a text encoder of its own.
type Prompter interface {
	Denoiser
	// Prompts encodes texts; "" is the empty prompt. It may be called during a pass.
	Prompts(ctx context.Context, texts []string) ([]*Prompt, error)
}

// CheckCondition returns an error for a condition that does not fit the Spec, and for a nil c where
// one is needed.
func (s Spec) CheckCondition(c *Condition) error {
	if c == nil {
		c = &Condition{Class: NoClass}
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
		n := p.Rows * p.Width
		switch {
		case p.Rows < 0 || p.Width < 0 || len(p.States) != n:
			return fmt.Errorf("the prompt has %d numbers, want %d x %d", len(p.States), p.Rows, p.Width)
		case p.Final != nil && len(p.Final) != n:
			return fmt.Errorf("the prompt has %d final numbers, want %d x %d", len(p.Final), p.Rows, p.Width)
		case p.VisibleRows != nil && len(p.VisibleRows) != p.Rows:
			return fmt.Errorf("the prompt's mask has %d rows, want %d", len(p.VisibleRows), p.Rows)
		}
	}
	for i, p := range c.KnownPositions {
		if p < 0 || int(p) >= s.Length() || i > 0 && p <= c.KnownPositions[i-1] {
			return fmt.Errorf("given position %d is %d, want ascending ones of 0 to %d", i, p, s.Length()-1)
		}
	}
	return nil
}
