package unmask

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"unmask/model"
	"unmask/param"
)

// Subjects say what pictures are drawn of.
type Subjects struct {
	Classes  []string // numbers or names
	Prompts  []string
	Inputs   []Input // classes for a model of classes, otherwise prompts; see ReadInputs
	Negative string  // the prompt that guidance leads away from, "" the empty one
}

// Conditions are what the pictures of a run are drawn of: picture i of number i, and again from the
// first after the last. A nil one is none.
type Conditions struct {
	Asked    []string // classes or prompts, as they were asked for
	Negative string
	Cut      []string // those of Asked that are longer than the model reads

	classes bool
	list    []*model.Condition
}

// Conditions reads classes or encodes prompts for a run, nil for no subjects. guided says whether
// the run has guidance. Errors name the field that is wrong as a flag does: class, prompt, prompts
// or negative.
func (m *Model) Conditions(ctx context.Context, s Subjects, guided bool) (*Conditions, error) {
	spec := m.Spec()
	for _, c := range []struct {
		name, found string
		refused     bool
		want        string
	}{
		{"class", first(s.Classes), spec.Classes == 0, "none: the model has no classes"},
		{"prompt", first(s.Prompts), !spec.Prompt, "none: the model reads no prompts"},
		{"negative", s.Negative, !spec.Prompt, "none: the model reads no prompts"},
		{"negative", s.Negative, !guided, "none without guidance"},
	} {
		if c.found != "" && c.refused {
			return nil, &param.Error{Name: c.name, Found: param.Quote(c.found), Want: c.want}
		}
	}
	c := &Conditions{Asked: slices.Concat(s.Classes, s.Prompts), Negative: s.Negative,
		classes: spec.Classes > 0}
	if len(s.Inputs) > 0 && !spec.Conditional() {
		return nil, errors.New("prompts, want none: the model has no classes and reads no prompts")
	}
	for i, in := range s.Inputs {
		text, err := in.Drawn(c.classes)
		if err != nil {
			return nil, fmt.Errorf("prompts: input %d: %w", i, err)
		}
		c.Asked = append(c.Asked, text)
	}
	switch {
	case len(c.Asked) == 0 && spec.Prompt:
		return nil, errors.New("prompt is missing: the model draws from a text")
	case len(c.Asked) == 0:
		return nil, nil
	case c.classes:
		for _, class := range c.Asked {
			condition, err := m.ClassCondition(class)
			if err != nil {
				return nil, err
			}
			c.list = append(c.list, condition)
		}
		return c, nil
	}
	var err error
	if c.list, err = m.PromptConditions(ctx, c.Asked, s.Negative); err != nil {
		return nil, err
	}
	for i, p := range c.list {
		if p.Prompt.Cut {
			c.Cut = append(c.Cut, c.Asked[i])
		}
	}
	return c, nil
}

// first returns the first text that is not empty.
func first(list []string) string {
	for _, text := range list {
		if text != "" {
			return text
		}
	}
	return ""
}

// Of returns what picture i is drawn of, nil for nothing.
func (c *Conditions) Of(i int) *model.Condition {
	if c == nil {
		return nil
	}
	return c.list[i%len(c.list)]
}

// Text returns the class or the prompt of picture i, as it was asked for; the other is "".
func (c *Conditions) Text(i int) (class, prompt string) {
	switch {
	case c == nil:
	case c.classes:
		class = c.Asked[i%len(c.Asked)]
	default:
		prompt = c.Asked[i%len(c.Asked)]
	}
	return class, prompt
}

// ClassCondition returns the condition of a class by its number or its name.
func (m *Model) ClassCondition(class string) (*model.Condition, error) {
	n := m.Spec().Classes
	if n == 0 {
		return nil, errors.New("the model has no classes")
	}
	c, err := model.FindClass(n, m.Classes, class)
	if err != nil {
		return nil, err
	}
	return &model.Condition{Class: c}, nil
}

// PromptConditions returns the conditions of prompts. negative is the prompt that guidance leads
// away from, "" the empty one. Encoding is done here, once; Prompt.Cut tells of a text that is
// longer than the model reads.
func (m *Model) PromptConditions(ctx context.Context, prompts []string,
	negative string) ([]*model.Condition, error) {
	p, ok := m.Denoiser.(model.Prompter)
	if !ok || !m.Spec().Prompt {
		return nil, errors.New("the model reads no prompts")
	}
	made, err := p.Prompts(ctx, append([]string{negative}, prompts...))
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	without := &model.Condition{Prompt: made[0]}
	var list []*model.Condition
	for _, prompt := range made[1:] {
		list = append(list, &model.Condition{Prompt: prompt, Without: without})
	}
	return list, nil
}
