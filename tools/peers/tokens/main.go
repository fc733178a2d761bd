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

// maxLine bounds a request, in bytes.
const maxLine = 64 << 20

// request is a line of standard input: a File to read, or a Text to encode with the latest file.
type request struct {
	// File is a tokenizer.json, or a folder with a tokenizer.
	File string
	Text string
}

// answer is a line of standard output.
type answer struct {
	// Refused says why the file or the text was not read, or is "".
	Refused string `json:"refused,omitempty"`

	// IDs are the text's tokens: with special tokens read in it, with all of it taken as plain
	// text, and the first of these between the tokens that stand around a text.
	IDs [3][]int32 `json:"ids"`

	// Decoded are the texts of the first two of IDs.
	Decoded [2]string `json:"decoded"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
}

// run answers requests, one a line: a file of a tokenizer, which it loads, or a text, which it
// encodes with the one that was loaded last.
func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)

	var t tokenizers.Tokenizer
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		var a answer
		var err error
		if r.File != "" {
			t, err = loadTokenizer(r.File)
		} else {
			a, err = encodeText(t, r.Text)
		}
		if err != nil {
			a.Refused = err.Error()
		}
		if err := encoder.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// loadTokenizer reads a tokenizer.json, or the tokenizer of a folder.
func loadTokenizer(name string) (tokenizers.Tokenizer, error) {
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

// encodeText encodes a text in every way that a caller of package tokenizers can.
func encodeText(t tokenizers.Tokenizer, text string) (a answer, err error) {
	withSpecial, err := t.EncodeSpecial(text)
	a.IDs[0] = withSpecial
	if err != nil {
		return a, err
	}
	plain, err := t.Encode(text)
	a.IDs[1] = plain
	if err != nil {
		return a, err
	}
	before, after := tokenizers.SurroundingTokens(t)
	a.IDs[2] = slices.Concat(before, withSpecial, after)
	a.Decoded = [2]string{t.Decode(withSpecial), t.Decode(plain)}
	return a, nil
}
