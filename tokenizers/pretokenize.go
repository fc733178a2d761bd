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
	text string

	// atStart: it is at the start of the whole text, which Metaspace asks.
	atStart bool
}

// splitStage divides a piece into smaller ones, may change their text, and passes each to next.
type splitStage func(p piece, next func(piece) error) error

// preTokenizer is the stages that divide text into words.
type preTokenizer struct {
	stages []splitStage
	bytes  bool // the last stage is ByteLevel, so that words are in the byte alphabet
}

// eachWord passes every word of a text to f.
func (p *preTokenizer) eachWord(text piece, f func(piece) error) error {
	for _, stage := range slices.Backward(p.stages) {
		next := f
		f = func(text piece) error { return stage(text, next) }
	}
	return f(text)
}

// readStage adds stage s.
func (p *preTokenizer) readStage(s object) error {
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
			func(s object) (int, error) { return 0, p.readStage(s) },
			func([]int) int { return 0 })
		return err
	case "ByteLevel":
		return p.readByteLevel(s)
	case "Split":
		return p.readSplit(s)
	case "Digits":
		individual := false
		if err := s.readFields(map[string]any{"individual_digits": &individual}); err != nil {
			return err
		}
		limit := 0
		if individual {
			limit = 1
		}
		p.addSplit(runsOf(isNumeric, limit), false, behaviours["Isolated"])
		return nil
	case "WhitespaceSplit", "Whitespace", "BertPreTokenizer":
		p.addSplit(runsOf(unicode.IsSpace, 1), false, behaviours["Removed"])
		if kind == "Whitespace" {
			p.addSplit(runsOf(isWordRune, 0), false, behaviours["Isolated"])
		} else if kind == "BertPreTokenizer" {
			p.addSplit(runsOf(isPunctuation, 1), false, behaviours["Isolated"])
		}
		return s.allowOnly()
	case "Punctuation":
		return p.readPunctuation(s)
	case "Metaspace":
		return p.readMetaspace(s)
	}
	return fmt.Errorf("type is %.40q, want ByteLevel, Split, Digits, Metaspace, Whitespace, "+
		"WhitespaceSplit, Punctuation, BertPreTokenizer or Sequence", kind)
}

// readByteLevel adds GPT-2's splits and its byte alphabet.
func (p *preTokenizer) readByteLevel(s object) error {
	addPrefixSpace := true
	useRegex := true
	err := s.readFields(map[string]any{
		"add_prefix_space": &addPrefixSpace,
		"use_regex":        &useRegex,
		"trim_offsets":     new(bool), // of no effect on ids
	})
	if err != nil {
		return err
	}
	if _, ok := s["add_prefix_space"]; !ok {
		return fmt.Errorf("add_prefix_space is missing, want true or false")
	}
	if addPrefixSpace {
		p.stages = append(p.stages, func(in piece, next func(piece) error) error {
			if !strings.HasPrefix(in.text, " ") {
				in.text = " " + in.text
			}
			return next(in)
		})
	}
	if useRegex {
		p.addSplit(compilePattern(gpt2Pattern), false, behaviours["Isolated"])
	}
	p.bytes = true
	return nil
}

// readPunctuation reads a split at each punctuation mark.
func (p *preTokenizer) readPunctuation(s object) error {
	behaviour := "Isolated"
	if err := s.readFields(map[string]any{"behavior": &behaviour}); err != nil {
		return err
	}
	keep, err := readBehaviour(behaviour)
	if err != nil {
		return err
	}
	p.addSplit(runsOf(isPunctuation, 1), false, keep)
	return nil
}

// readBehaviour returns what becomes of the matches of a split.
func readBehaviour(name string) (func([]span) []span, error) {
	keep := behaviours[name]
	if keep == nil {
		return nil, fmt.Errorf("behavior is %.40q, want Isolated, Removed, Contiguous, "+
			"MergedWithPrevious or MergedWithNext", name)
	}
	return keep, nil
}

// readSplit adds a split at a pattern of the file.
func (p *preTokenizer) readSplit(s object) error {
	var behaviour string
	invert := false
	err := s.readFields(map[string]any{"behavior": &behaviour, "invert": &invert}, "pattern")
	if err != nil {
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
	p.addSplit(find, invert, keep)
	return nil
}

// addSplit adds a stage that splits at a pattern. With invert, what does not match counts as the
// match.
func (p *preTokenizer) addSplit(find pattern, invert bool, keep func([]span) []span) {
	p.stages = append(p.stages, func(in piece, next func(piece) error) error {
		ranges := spans(in.text, find)
		if invert {
			for i := range ranges {
				ranges[i].match = !ranges[i].match
			}
		}
		for _, s := range keep(ranges) {
			if err := next(piece{in.text[s.start:s.end], in.atStart && s.start == 0}); err != nil {
				return err
			}
		}
		return nil
	})
}

// readMetaspace reads SentencePiece's treatment of spaces: each becomes `replacement`, and one is
// put before every piece (always), before the text (first) or nowhere (never).
func (p *preTokenizer) readMetaspace(s object) error {
	m, err := readMetaspace(s)
	if err != nil {
		return err
	}
	p.stages = append(p.stages, func(in piece, next func(piece) error) error {
		in.text = strings.ReplaceAll(in.text, " ", m.mark)
		prepends := m.scheme == "always" || m.scheme == "first" && in.atStart
		if prepends && !strings.HasPrefix(in.text, m.mark) {
			in.text = m.mark + in.text
		}
		return next(in)
	})
	if m.split {
		p.addSplit(literalPattern(m.mark), false, behaviours["MergedWithNext"])
	}
	return nil
}

// metaspace has the settings of SentencePiece's treatment of spaces.
type metaspace struct {
	scheme string // always, first or never
	mark   string // one character, which stands for a space
	split  bool   // words begin at marks
}

// readMetaspace reads them, for the pre-tokenizer and the decoder.
func readMetaspace(s object) (metaspace, error) {
	m := metaspace{scheme: "always", mark: "▁", split: true}
	addPrefixSpace := true
	err := s.readFields(map[string]any{
		"replacement":      &m.mark,
		"add_prefix_space": &addPrefixSpace,
		"prepend_scheme":   &m.scheme,
		"split":            &m.split,
		"str_rep":          new(string), // of old files, the same as replacement
	})
	if err != nil {
		return m, err
	}
	switch {
	case utf8.RuneCountInString(m.mark) != 1:
		err = fmt.Errorf("replacement is %.40q, want one character", m.mark)
	case m.scheme != "always" && m.scheme != "first" && m.scheme != "never":
		err = fmt.Errorf("prepend_scheme is %.40q, want always, first or never", m.scheme)
	case !addPrefixSpace && m.scheme != "never":
		err = fmt.Errorf("prepend_scheme is %.40q, want never where add_prefix_space is false",
			m.scheme)
	}
	return m, err
}
