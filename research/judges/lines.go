package judges

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"unmask/internal/jsonline"
	"unmask/research/experiments"
)

// textLine has the fields that are read; unmask text writes more.
type textLine struct {
	ID         *int   `json:"id"`
	Seed       uint64 `json:"seed"`
	IDs        idList `json:"ids"`
	Text       string `json:"text"`
	Unfinished bool   `json:"unfinished"`
}

// idList is a list of ids; json reads null in one as 0, which would be a token.
type idList []int32

// UnmarshalJSON implements json.Unmarshaler.
func (l *idList) UnmarshalJSON(data []byte) error {
	var list []*int32
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("ids: %w", jsonline.PlainError(err))
	}
	if list == nil {
		return nil
	}
	*l = make(idList, len(list))
	for i, id := range list {
		if id == nil {
			return fmt.Errorf("ids: the id of token %d is null, want an integer", i)
		}
		(*l)[i] = *id
	}
	return nil
}

// textBatch is the number of samples judged at once.
const textBatch = 32

// maxTextLine is the longest line in bytes.
const maxTextLine = 16 << 20

// eachLine visits the lines of unmask text --json, numbered from 1. Its errors name a line.
func eachLine(in io.Reader, visit func(n int, l textLine) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTextLine)
	n := 1
	for ; lines.Scan(); n++ {
		l, err := parseTextLine(lines.Bytes())
		if err == nil {
			err = visit(n, l)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return fmt.Errorf("line %d: more than %d bytes", n, maxTextLine)
}

// ScoreLines judges the lines of unmask text --json, a few at a time. It returns their number and
// how many of them are too short to judge, because a first token has no score. With s.Retokenize it
// scores text, otherwise ids. each, which may be nil, is called with the text of every sample and
// the number judged before.
func ScoreLines(ctx context.Context, s *experiments.TextScorer, in io.Reader,
	each func(text string, judged int)) (n, short int, err error) {
	type sample struct {
		seed uint64
		id   int
	}
	lineOf := map[sample]int{}
	var ids [][]int32 // of the samples that wait to be judged
	var texts []string
	judged := 0
	flush := func() (err error) {
		if s.Retokenize != nil {
			err = s.AddTexts(ctx, ids, texts)
		} else {
			err = s.Add(ctx, ids)
		}
		judged += len(ids)
		ids = ids[:0]
		texts = texts[:0]
		return err
	}
	err = eachLine(in, func(line int, l textLine) error {
		n = line
		key := sample{l.Seed, *l.ID}
		if first := lineOf[key]; first > 0 {
			return fmt.Errorf("sample %d of seed %d is on line %d already, want each once", *l.ID, l.Seed,
				first)
		}
		lineOf[key] = line
		if each != nil {
			each(l.Text, judged)
		}
		if len(l.IDs) < 2 {
			short++
			return nil
		}
		ids = append(ids, l.IDs)
		texts = append(texts, l.Text)
		if len(ids) < textBatch {
			return nil
		}
		if err := flush(); err != nil {
			return fmt.Errorf("or one of the %d before it: %w", textBatch-1, err)
		}
		return nil
	})
	if err == nil && len(ids) > 0 {
		err = flush()
	}
	return n, short, err
}

// parseTextLine reads a line and checks that it is a finished sample of unmask text --json.
func parseTextLine(line []byte) (l textLine, err error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return l, errors.New("empty, want a JSON object with id, ids and text")
	}
	if err := json.Unmarshal(line, &l); err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); !ok {
			return l, jsonline.PlainError(err)
		}
		return l, fmt.Errorf("%w, want a JSON object with id, ids and text", err)
	}
	switch {
	case l.ID == nil:
		return l, errors.New("id is missing: not a line of unmask text --json")
	case l.Unfinished:
		return l, errors.New("an unfinished sample, want finished ones")
	case l.IDs == nil:
		return l, errors.New("ids is missing: not a line of unmask text --json")
	}
	return l, nil
}
