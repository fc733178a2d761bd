package unmask

import (
	"context"
	"errors"

	"unmask/model"
)

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
