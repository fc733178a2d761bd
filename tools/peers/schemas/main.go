// Command schemas is unmask's part of tools/peers/schemas.py: it compiles JSON Schemas for the
// tokens of a tokenizer and judges their instances. It reads a line for each schema and answers
// with one; its first line says that it is ready.
//
//	go run ./tools/peers/schemas -tokenizer tokenizer.json < SCHEMAS.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/internal/processor"
	"unmask/model"
	"unmask/prompt"
	"unmask/tokenizers"
)

// maxLine bounds a line of standard input, in bytes.
const maxLine = 64 << 20

func main() {
	name := flag.String("tokenizer", "tokenizer.json", "the tokenizer's file")
	flag.Parse()
	if err := run(*name, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

// question is a line of standard input: a schema, and instances that are valid or not.
type question struct {
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

// verdict is a line of standard output.
type verdict struct {
	// Verdict is ready in the first line, then pass, wrong or refused.
	Verdict string `json:"verdict"`

	// Reason is the error of a schema that was refused, or the instance that was judged wrong.
	Reason string `json:"reason,omitempty"`

	// Seconds are the processor's, to compile the schema.
	Seconds float64 `json:"seconds"`
}

// run answers the questions of in with verdicts in out.
func run(tokenizerFile string, in io.Reader, out io.Writer) error {
	v, err := readVocabulary(tokenizerFile)
	if err != nil {
		return err
	}
	// The caller measures from this line on, because reading the vocabulary is not part of a schema.
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(verdict{Verdict: "ready"}); err != nil {
		return err
	}

	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		if err := encoder.Encode(v.judge(q)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// vocabulary is a tokenizer's tokens.
type vocabulary struct {
	tokens *grammar.Vocabulary

	// bytes are the tokens of single bytes. Instances are spelled with them alone, so that a verdict
	// does not depend on how the tokenizer would split them.
	bytes [256]int32

	endToken int32
}

// readVocabulary reads a tokenizer.json that has a token for every byte, so that any text can be
// written token by token.
func readVocabulary(name string) (*vocabulary, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := tokenizers.Parse(data)
	if err != nil {
		return nil, err
	}
	end, ok := t.Special(tokenizers.EndOfText)
	if !ok {
		return nil, fmt.Errorf("%s has no %s", name, tokenizers.EndOfText)
	}

	v := &vocabulary{
		tokens:   prompt.NewVocabulary(t, model.Spec{Outcomes: t.VocabSize(), Mask: -1}),
		endToken: end,
	}
	found := map[byte]bool{}
	for id := range int32(t.VocabSize()) {
		if text, ok := t.Token(id); ok && len(text) == 1 {
			v.bytes[text[0]] = id
			found[text[0]] = true
		}
	}
	if len(found) < len(v.bytes) {
		return nil, fmt.Errorf("%s has tokens for %d single bytes, want all 256", name, len(found))
	}
	return v, nil
}

// judge compiles a schema for the tokens, and requires that it accepts the valid instances alone.
func (v *vocabulary) judge(q question) verdict {
	start := processor.Seconds()
	s, err := schema.Compile(q.Schema, schema.Options{})
	var language *grammar.Tokens
	if err == nil {
		end := []int32{v.endToken}
		language, err = s.Tokens(v.tokens, grammar.TokenOptions{EndTokens: end, FillTokens: end})
	}
	seconds := processor.Seconds() - start
	if err != nil {
		return verdict{Verdict: "refused", Reason: err.Error(), Seconds: seconds}
	}

	for i, test := range q.Tests {
		text, err := s.Write(test.Data)
		if err != nil || v.accepts(language, text) != test.Valid {
			reason := fmt.Sprintf("instance %d, valid %v", i, test.Valid)
			return verdict{Verdict: "wrong", Reason: reason, Seconds: seconds}
		}
	}
	return verdict{Verdict: "pass", Seconds: seconds}
}

// accepts reports whether a language has a text, spelled in bytes, and ends after it.
func (v *vocabulary) accepts(language *grammar.Tokens, text string) bool {
	state := language.Start
	for i := range len(text) {
		state = language.Next(state, v.bytes[text[i]])
		if state < 0 {
			return false
		}
	}
	state = language.Next(state, v.endToken)
	return state >= 0 && language.Accepts(state)
}
