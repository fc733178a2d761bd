package main

import (
	"regexp"
	"slices"
	"strconv"

	"unmask"
	"unmask/tokenizers"
)

// hole is a number of tokens in brackets: "[20]".
var hole = regexp.MustCompile(`\[([0-9]+)\]`)

// infillTokens turns a text with holes into tokens with masks.
func infillTokens(m *unmask.Model, text string) ([]int32, error) {
	spec := m.Spec()
	var tokens []int32
	add := func(piece string) error {
		if piece == "" {
			return nil
		}
		ids, err := m.Tokenizer.Encode(piece)
		if err != nil {
			return usage("--infill: %v", err)
		}
		tokens = append(tokens, ids...)
		return nil
	}
	at := 0
	for _, h := range hole.FindAllStringSubmatchIndex(text, -1) {
		if err := add(text[at:h[0]]); err != nil {
			return nil, err
		}
		at = h[1]
		n, err := strconv.Atoi(text[h[2]:h[3]])
		if err != nil || n < 1 || n > spec.Length() {
			return nil, usage("--infill: hole %s, allowed are 1..%d tokens", text[h[0]:h[1]], spec.Length())
		}
		tokens = append(tokens, slices.Repeat([]int32{spec.Mask}, n)...)
	}
	if at == 0 {
		return nil, usage("--infill has no hole such as [20]")
	}
	return tokens, add(text[at:])
}

// promptTokens begins with the end-of-text token where the vocabulary has one, as the
// models were trained on packed documents.
func promptTokens(m *unmask.Model, text string) ([]int32, error) {
	ids, err := m.Tokenizer.Encode(text)
	if err != nil {
		return nil, usage("--prompt: %v", err)
	}
	if end, ok := m.Tokenizer.Special(tokenizers.EndOfText); ok {
		ids = append([]int32{end}, ids...)
	}
	return ids, nil
}
