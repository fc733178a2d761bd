package export

import (
	"context"
	"fmt"
	"strconv"

	"unmask"
	"unmask/model"
	"unmask/weights"
)

// TextLogits writes the raw logits of texts of any lengths, given as tokens with those that stand
// around them. Of text i, counted from 0, there are i.tokens I64 [D] and i.logits F32 [D,V]; of
// networks whose logits predict the next position i.shifted_logits too, as in Logits; and tensors
// of `with` such as i.hidden.0, without the dimension B. The metadata has the names of texts.
func TextLogits(ctx context.Context, m *unmask.Model, names []string, texts [][]int32, out string,
	with ...Inside) error {
	if m.Spec().Fixed {
		return fmt.Errorf("the model has sequences of %d positions only, want tokens of that many",
			m.Spec().Length())
	}
	var streams []weights.Stream
	metadata, size, n := map[string]string{}, int64(0), 0
	for i, tokens := range texts {
		b := &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens}
		var err error
		if i == 0 {
			n, err = columns(ctx, m, b)
		}
		if err != nil {
			return err
		}
		number := strconv.Itoa(i)
		add := func(s weights.Stream, shape []int) {
			s.Name, s.Shape = number+"."+s.Name, shape
			streams = append(streams, s)
		}
		ids := integers("tokens", tokens, len(tokens))
		add(streamOf(ids), ids.Shape)
		e := &exporter{ctx: ctx, m: m, columns: n}
		add(e.full("logits", m, tokens, len(tokens), 0), []int{len(tokens), n})
		if m.Spec().Shifted {
			add(e.full("shifted_logits", m, tokens, len(tokens), len(tokens)), []int{len(tokens), n})
		}
		seen, err := inside(ctx, m, b, with)
		for _, t := range seen {
			size += int64(len(t.Data))
			add(streamOf(t), t.Shape[1:])
		}
		if err == nil && size > maxInside {
			err = fmt.Errorf("--with has more than %.1f GB, want at most that: give fewer texts",
				float64(maxInside)/1e9)
		}
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, names[i], err)
		}
		metadata[number] = names[i]
	}
	return weights.WriteFileStreams(out, streams, metadata)
}
