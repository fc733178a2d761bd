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
// "gpt2"). The function that it returns waits for the tokenizer, also if it is called again, and
// also returns where it is from, for people.
func (s *Source) StartTokenizer(name string) (wait func() (t tokenizers.Tokenizer, source string,
	err error)) {
	var read struct {
		tokenizer tokenizers.Tokenizer
		source    string
		err       error
	}
	finished := make(chan struct{})
	go func() { // GPT-2's takes 80 ms the first time, which loading the weights hides
		defer close(finished)
		read.tokenizer, read.source, read.err = s.readTokenizer(name)
	}()
	return func() (tokenizers.Tokenizer, string, error) {
		<-finished
		return read.tokenizer, read.source, read.err
	}
}

// readTokenizer reads the tokenizer that StartTokenizer returns.
func (s *Source) readTokenizer(name string) (t tokenizers.Tokenizer, source string, err error) {
	err = fs.ErrNotExist
	if s.Files != nil { // tensors made in memory have none
		t, source, err = tokenizers.ParseFS(s.Files)
	}
	switch {
	case err == nil:
		return t, source, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	case path.Base(name) == "gpt2":
		return tokenizers.GPT2(), name, nil
	}
	return nil, "", missingTokenizerError(fmt.Sprintf(
		"tokenizer is %q, want gpt2 or a %s beside config.json", name, tokenizers.Files[0]))
}

// missingTokenizerError is the error of a model without tokenizer. It is an fs.ErrNotExist, because
// a model of token ids can do without.
type missingTokenizerError string

func (m missingTokenizerError) Error() string        { return string(m) }
func (m missingTokenizerError) Is(target error) bool { return target == fs.ErrNotExist }
