package model

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"unmask/tokenizers"
)

// StartTokenizer begins to read the tokenizer of a model's files, tokenizer.json or vocab.json and
// merges.txt beside the weights or, without them, a built-in by its name in config.json (such as
// "gpt2"). The function that it returns waits for it, and also tells people where it is from.
func (s *Source) StartTokenizer(name string) func() (t tokenizers.Tokenizer, from string,
	err error) {
	type result struct {
		t    tokenizers.Tokenizer
		from string
		err  error
	}
	done := make(chan result, 1)
	go func() { // GPT-2's takes 80 ms the first time, which loading the weights hides
		t, from, err := s.tokenizer(name)
		done <- result{t, from, err}
	}()
	return func() (tokenizers.Tokenizer, string, error) {
		r := <-done
		return r.t, r.from, r.err
	}
}

func (s *Source) tokenizer(name string) (tokenizers.Tokenizer, string, error) {
	t, from, err := tokenizers.Tokenizer(nil), "", error(fs.ErrNotExist)
	if s.Files != nil { // tensors made in memory have none
		t, from, err = tokenizers.ParseFS(s.Files)
	}
	switch {
	case err == nil:
		return t, from, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	case path.Base(name) == "gpt2":
		return tokenizers.GPT2(), name, nil
	}
	return nil, "", missing(fmt.Sprintf("tokenizer is %q, want gpt2 or a %s beside config.json", name,
		tokenizers.Files[0]))
}

// missing is the error of a model without tokenizer, an fs.ErrNotExist.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }
