package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"unmask/families/encoders"
	"unmask/tokenizers/chat"
)

// askVon asks von's networks, which were made for questions. Their probabilities have their own
// temperature already.
func (a *asker) askVon(ctx context.Context, net *encoders.Von) error {
	state, err := vonState(a.state)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	for i := range a.questions {
		if err := a.askVonOnce(ctx, net, state, i); err != nil {
			return inQuestion(i, err)
		}
	}
	return nil
}

// askVonOnce asks one question.
func (a *asker) askVonOnce(ctx context.Context, net *encoders.Von, state string, i int) error {
	question := &a.questions[i]
	words := encoders.VonQuestion{
		Instructions: question.Instructions,
		State:        state,
		Options:      question.vonOptions(),
	}
	prompt, err := net.EncodeQuestion(words)
	if err != nil {
		return err
	}
	answer := &a.answers[i]
	answer.Mass = 1
	answer.Passes = 1
	answer.Tokens = len(prompt.Tokens)

	// A noul without descriptions has a lead of its own, which the same question without a state
	// shows.
	var empty *encoders.VonPrompt
	if question.Kind == Boolean && !question.isDescribed() {
		words.State = ""
		bare, err := net.EncodeQuestion(words)
		if err != nil {
			return err
		}
		empty = &bare
		answer.Passes++
		answer.Tokens += len(bare.Tokens)
	}

	done, err := a.Turn.Acquire(ctx, a.m.Denoiser)
	if err != nil {
		return err
	}
	defer done()
	p, err := net.Answer(ctx, prompt, empty)
	if err != nil {
		return err
	}
	if question.Kind == Boolean { // von has true first
		p[0], p[1] = p[1], p[0]
	}
	for _, x := range p {
		answer.LogP = append(answer.LogP, math.Log(x))
	}
	return nil
}

// isDescribed reports whether an option has a description.
func (q *Question) isDescribed() bool {
	for _, o := range q.Options {
		if o.Description != "" {
			return true
		}
	}
	return false
}

// vonOptions returns the options in von's words, without labels before them: of a noul true, then
// false.
func (q *Question) vonOptions() (list []string) {
	if q.Kind == Boolean {
		list = []string{"Yes, condition holds true.", "No, condition is false."}
		for i, o := range q.Options { // false, then true
			if o.Description != "" {
				list[1-i] = o.Description
			}
		}
		return list
	}
	for _, o := range q.Options {
		switch {
		case q.Kind == Score:
			list = append(list, vonLevel(o.Label))
		case strings.TrimSpace(o.Description) != "":
			list = append(list, strings.TrimSpace(o.Description))
		default:
			list = append(list, strings.TrimSpace(o.Label))
		}
	}
	return list
}

// vonLevel returns a level in von's words. One that is an object has a text and examples.
func vonLevel(label string) string {
	var level struct {
		What     string   `json:"what"`
		Examples []string `json:"examples"`
	}
	if !strings.HasPrefix(label, "{") || json.Unmarshal([]byte(label), &level) != nil {
		return strings.TrimSpace(label)
	}
	text := level.What
	if len(level.Examples) > 0 {
		text += " Examples: " + strings.Join(level.Examples, ", ")
	}
	return strings.TrimSpace(text)
}

// vonTemplate writes an object as lines of keys and values, and any other value, as Python's str
// does.
const vonTemplate = `{% if tools is mapping %}{% for key, value in tools.items() %}` +
	`{{ '' if loop.first else '\n' }}{{ key }}: {{ value }}{% endfor %}{% else %}{{ tools }}{% endif %}`

// vonState returns a state in von's words.
func vonState(s State) (string, error) {
	if len(s.value) == 0 {
		return s.Text, nil
	}
	t, err := chat.Parse(vonTemplate, nil)
	if err != nil {
		return "", err
	}

	// Tools is the option that a template gets as the value of its JSON; there is no message.
	parts, err := t.RenderJSON([]byte("[]"), chat.Options{Tools: s.value})
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), err
}
