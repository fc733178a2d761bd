package unmask

import (
	"context"
	"errors"
	"fmt"

	"unmask/model"
)

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
