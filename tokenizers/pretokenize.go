package tokenizers

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a text on its way to the merges.
type piece struct {
	text  string
	first bool // at the start of the whole text; for Metaspace
}

// cutter divides a piece into smaller ones, may change their text, and passes each to next.
type cutter func(in piece, next func(piece) error) error

// preTokenizer is the stages that divide text into words.
type preTokenizer struct {
	stages []cutter
	bytes  bool // words are spelled in the byte alphabet, because the last stage is ByteLevel
}

// words passes every word of in to next.
func (p *preTokenizer) words(in piece, next func(piece) error) error {
	for _, cut := range slices.Backward(p.stages) {
		then := next
		next = func(in piece) error { return cut(in, then) }
	}
	return next(in)
}

// read adds stage s.
func (p *preTokenizer) read(s object) error {
	kind, err := s.kind()
	if err != nil || kind == "" {
		return err
	}
	if p.bytes {
		return fmt.Errorf("type is %.40q after ByteLevel, want ByteLevel last", kind)
	}
	switch kind {
	case "Sequence":
		_, err := readSequence(s, "pretokenizers",
			func(s object) (int, error) { return 0, p.read(s) },
			func([]int) int { return 0 })
		return err
	case "ByteLevel":
		return p.readByteLevel(s)
	case "Split":
		return p.readSplit(s)
	case "Digits":
		each := false
		if err := s.read(map[string]any{"individual_digits": &each}); err != nil {
			return err
		}
		most := 0
		if each {
			most = 1
		}
		p.split(runs(isNumeric, most), false, behaviours["Isolated"])
		return nil
	case "WhitespaceSplit", "Whitespace", "BertPreTokenizer":
		p.split(runs(unicode.IsSpace, 1), false, behaviours["Removed"])
		if kind == "Whitespace" {
			p.split(runs(isWord, 0), false, behaviours["Isolated"])
		} else if kind == "BertPreTokenizer" {
			p.split(runs(isSign, 1), false, behaviours["Isolated"])
		}
		return s.only()
	case "Punctuation":
		return p.readPunctuation(s)
	case "Metaspace":
		return p.readMetaspace(s)
	}
	return fmt.Errorf("type is %.40q, want ByteLevel, Split, Digits, Metaspace, Whitespace, "+
		"WhitespaceSplit, Punctuation, BertPreTokenizer or Sequence", kind)
}

func (p *preTokenizer) readByteLevel(s object) error {
	prefix, trim, regex := true, true, true
	if err := s.read(map[string]any{"add_prefix_space": &prefix, "trim_offsets": &trim,
		"use_regex": &regex}); err != nil {
		return err
	}
	if _, ok := s["add_prefix_space"]; !ok {
		return fmt.Errorf("add_prefix_space is missing, want true or false")
	}
	if prefix {
		p.stages = append(p.stages, func(in piece, next func(piece) error) error {
			if !strings.HasPrefix(in.text, " ") {
				in.text = " " + in.text
			}
			return next(in)
		})
	}
	if regex {
		p.split(compile(gpt2Pattern), false, behaviours["Isolated"])
	}
	p.bytes = true
	return nil
}

func (p *preTokenizer) readPunctuation(s object) error {
	behaviour := "Isolated"
	if err := s.read(map[string]any{"behavior": &behaviour}); err != nil {
		return err
	}
	keep, err := readBehaviour(behaviour)
	if err != nil {
		return err
	}
	p.split(runs(isSign, 1), false, keep)
	return nil
}

func readBehaviour(name string) (func([]span) []span, error) {
	keep := behaviours[name]
	if keep == nil {
		return nil, fmt.Errorf("behavior is %.40q, want Isolated, Removed, Contiguous, "+
			"MergedWithPrevious or MergedWithNext", name)
	}
	return keep, nil
}

func (p *preTokenizer) readSplit(s object) error {
	var behaviour string
	invert := false
	if err := s.read(map[string]any{"behavior": &behaviour, "invert": &invert},
		"pattern"); err != nil {
		return err
	}
	keep, err := readBehaviour(behaviour)
	if err != nil {
		return err
	}
	find, err := readPattern(s["pattern"])
	if err != nil {
		return err
	}
	p.split(find, invert, keep)
	return nil
}

// split adds a stage that splits at a pattern.
func (p *preTokenizer) split(find pattern, invert bool, keep func([]span) []span) {
	p.stages = append(p.stages, func(in piece, next func(piece) error) error {
		all := spans(in.text, find)
		if invert {
			for i := range all {
				all[i].match = !all[i].match
			}
		}
		for _, s := range keep(all) {
			if err := next(piece{in.text[s.start:s.end], in.first && s.start == 0}); err != nil {
				return err
			}
		}
		return nil
	})
}

// readMetaspace reads SentencePiece's treatment of spaces: each becomes `replacement`, and one is
// put before every piece (always), before the text (first) or nowhere (never).
func (p *preTokenizer) readMetaspace(s object) error {
	scheme, mark, split, err := metaspace(s)
	if err != nil {
		return err
	}
	p.stages = append(p.stages, func(in piece, next func(piece) error) error {
		in.text = strings.ReplaceAll(in.text, " ", mark)
		if (scheme == "always" || scheme == "first" && in.first) &&
			!strings.HasPrefix(in.text, mark) {
			in.text = mark + in.text
		}
		return next(in)
	})
	if split {
		p.split(literal(mark), false, behaviours["MergedWithNext"])
	}
	return nil
}

func metaspace(s object) (scheme, mark string, split bool, err error) {
	prefix := true
	scheme, mark, split = "always", "▁", true
	if err = s.read(map[string]any{
		"replacement": &mark, "add_prefix_space": &prefix, "prepend_scheme": &scheme,
		"split": &split, "str_rep": new(string),
	}); err != nil {
		return
	}
	switch {
	case utf8.RuneCountInString(mark) != 1:
		err = fmt.Errorf("replacement is %.40q, want one character", mark)
	case scheme != "always" && scheme != "first" && scheme != "never":
		err = fmt.Errorf("prepend_scheme is %.40q, want always, first or never", scheme)
	case !prefix && scheme != "never":
		err = fmt.Errorf("prepend_scheme is %.40q, want never where add_prefix_space is false",
			scheme)
	}
	return
}
