// Command tokens encodes and decodes for tools/peers/tokens.py: it reads one JSON request a line
// and answers each with a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"unmask/tokenizers"
)

type request struct {
	File string // a tokenizer.json to read from now on
	Text string
}

type answer struct {
	Refused string     `json:"refused,omitempty"` // why the file or text was not read
	IDs     [3][]int32 `json:"ids"`               // EncodeSpecial, Encode, Around of the first
	Decoded [2]string  `json:"decoded"`           // of the first two
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	var t tokenizers.Tokenizer
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var a answer
		var err error
		if r.File != "" {
			t, err = load(r.File)
		} else {
			a, err = encode(t, r.Text)
		}
		if err != nil {
			a.Refused = err.Error()
		}
		if err := out.Encode(a); err != nil {
			os.Exit(1)
		}
	}
}

func load(name string) (tokenizers.Tokenizer, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		t, _, err := tokenizers.ParseFS(os.DirFS(name))
		return t, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return tokenizers.Parse(data)
}

func encode(t tokenizers.Tokenizer, text string) (a answer, err error) {
	if a.IDs[0], err = t.EncodeSpecial(text); err != nil {
		return a, err
	}
	if a.IDs[1], err = t.Encode(text); err != nil {
		return a, err
	}
	before, after := tokenizers.SurroundingTokens(t)
	a.IDs[2] = slices.Concat(before, a.IDs[0], after)
	a.Decoded = [2]string{t.Decode(a.IDs[0]), t.Decode(a.IDs[1])}
	return a, nil
}
