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

// row is a line of standard input.
type row struct {
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

// verdict is a line of standard output.
type verdict struct {
	Verdict string  `json:"verdict"` // pass, wrong or refused
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"` // of a processor, to compile
}

func run(name string, in io.Reader, out io.Writer) error {
	v, err := readVocabulary(name)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(verdict{Verdict: "ready"}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if err := encoder.Encode(v.judge(r)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// vocabulary is a tokenizer's tokens.
type vocabulary struct {
	all   *grammar.Vocabulary
	bytes [256]int32 // the tokens of single bytes
	end   int32
}

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
	v := &vocabulary{end: end,
		all: prompt.NewVocabulary(t, model.Spec{Outcomes: t.VocabSize(), Mask: -1})}
	found := map[byte]bool{}
	for id := range int32(t.VocabSize()) {
		if text, ok := t.Token(id); ok && len(text) == 1 {
			v.bytes[text[0]], found[text[0]] = id, true
		}
	}
	if len(found) < len(v.bytes) {
		return nil, fmt.Errorf("%s has tokens for %d single bytes, want all 256", name, len(found))
	}
	return v, nil
}

// judge compiles a schema for the tokens and compares what it says of the instances.
func (v *vocabulary) judge(r row) (out verdict) {
	began := processor.Seconds()
	s, err := schema.Compile(r.Schema, schema.Options{})
	var a *grammar.Tokens
	if err == nil {
		end := []int32{v.end}
		a, err = s.Tokens(v.all, grammar.TokenOptions{EndTokens: end, FillTokens: end})
	}
	out.Seconds = processor.Seconds() - began
	if err != nil {
		out.Verdict, out.Reason = "refused", err.Error()
		return out
	}
	out.Verdict = "pass"
	for i, test := range r.Tests {
		text, err := s.Write(test.Data)
		if err != nil || v.accepts(a, text) != test.Valid {
			out.Verdict, out.Reason = "wrong", fmt.Sprintf("instance %d, valid %v", i, test.Valid)
			return out
		}
	}
	return out
}

// accepts reports whether an automaton accepts a text, spelt in bytes, and its end.
func (v *vocabulary) accepts(a *grammar.Tokens, text string) bool {
	at := a.Start
	for i := range len(text) {
		if at = a.Next(at, v.bytes[text[i]]); at < 0 {
			return false
		}
	}
	at = a.Next(at, v.end)
	return at >= 0 && a.Accepts(at)
}
