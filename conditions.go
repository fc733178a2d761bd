package unmask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"unmask/model"
	"unmask/param"
)

// Subjects are the classes or prompts that a run's pictures are drawn from.
type Subjects struct {
	Classes  []string // numbers or names
	Prompts  []string
	Inputs   []Input // classes for a model of classes, otherwise prompts; see ReadInputs
	Negative string  // the prompt that guidance leads away from; "" is the empty prompt
}

// Conditions are the conditions of a run's pictures, in a cycle: picture i has condition i modulo
// their number. A nil Conditions has none.
type Conditions struct {
	Asked    []string // classes or prompts, as written in Subjects
	Negative string
	Cut      []string // those of Asked that are longer than the model's text encoder reads

	classes bool
	list    []*model.Condition
}

// Conditions looks up classes or encodes prompts for a run; it returns nil if s has neither. guided
// is true if the run has guidance. Errors begin with the name of the flag whose value is wrong:
// class, prompt, prompts or negative.
func (m *Model) Conditions(ctx context.Context, s Subjects, guided bool) (*Conditions, error) {
	spec := m.Spec()
	if err := s.check(spec, guided); err != nil {
		return nil, err
	}
	c := &Conditions{Asked: slices.Concat(s.Classes, s.Prompts), Negative: s.Negative,
		classes: spec.Classes > 0}
	for i, in := range s.Inputs {
		text, err := in.subject(c.classes)
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
		return c, c.findClasses(m, len(s.Classes))
	}
	var err error
	if c.list, err = m.PromptConditions(ctx, c.Asked, s.Negative); err != nil {
		flag := "prompts"
		if len(s.Prompts) > 0 {
			flag = "prompt"
		}
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	for i, p := range c.list {
		if p.Prompt.Cut {
			c.Cut = append(c.Cut, c.Asked[i])
		}
	}
	return c, nil
}

// check returns an error for subjects that a model with this Spec does not take.
func (s *Subjects) check(spec model.Spec, guided bool) error {
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
			return &param.Error{Name: c.name, Found: param.Quote(c.found), Want: c.want}
		}
	}
	if len(s.Inputs) > 0 && !spec.Conditional() {
		return errors.New("prompts, want none: the model has no classes and reads no prompts")
	}
	return nil
}

// findClasses looks up the classes in Asked, of which the first `flags` are from flags and the
// others from inputs.
func (c *Conditions) findClasses(m *Model, flags int) error {
	for i, class := range c.Asked {
		condition, err := m.ClassCondition(class)
		if i >= flags && err != nil {
			return fmt.Errorf("prompts: input %d: %w", i-flags, err)
		}
		if err != nil {
			return err
		}
		c.list = append(c.list, condition)
	}
	return nil
}

// first returns the first text that is not empty, "" if all are.
func first(list []string) string {
	for _, text := range list {
		if text != "" {
			return text
		}
	}
	return ""
}

// subject returns the class or prompt of a picture: the class if it is set or the model has
// classes, and the prompt otherwise.
func (in Input) subject(classes bool) (string, error) {
	r, seeded, err := in.Over(Request{})
	prompt := strings.TrimSpace(r.Prompt)
	switch {
	case err != nil:
		return "", err
	case r.Infill != "":
		return "", fmt.Errorf("infill is %s, want none for a picture", param.Quote(r.Infill))
	case seeded:
		return "", fmt.Errorf("seed is %d, want none for a picture: its number and the run's decide it",
			r.Seed)
	case classes && r.Class != "" && r.Prompt == "":
		return r.Class, nil
	case r.Class != "":
		return "", fmt.Errorf("class is %s, want a prompt alone", param.Quote(r.Class))
	case prompt == "" && classes:
		return "", errors.New("class is missing")
	}
	return prompt, nil
}

// Of returns the condition of picture i, nil for none.
func (c *Conditions) Of(i int) *model.Condition {
	if c == nil {
		return nil
	}
	return c.list[i%len(c.list)]
}

// Text returns the class or the prompt of picture i, as written in Subjects; the other is "".
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

// ClassCondition returns the condition of a class, given by its number or its name.
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

// PromptConditions encodes prompts and returns their conditions. negative is the prompt that
// guidance leads away from; "" is the empty prompt. Prompt.Cut is true for a text longer than the
// model's text encoder reads.
func (m *Model) PromptConditions(ctx context.Context, prompts []string,
	negative string) ([]*model.Condition, error) {
	p, ok := m.Denoiser.(model.Prompter)
	if !ok || !m.Spec().Prompt {
		return nil, errors.New("the model reads no prompts")
	}
	made, err := p.Prompts(ctx, append([]string{negative}, prompts...))
	if err != nil {
		return nil, err
	}
	without := &model.Condition{Prompt: made[0]}
	var list []*model.Condition
	for _, prompt := range made[1:] {
		list = append(list, &model.Condition{Prompt: prompt, Without: without})
	}
	return list, nil
}
