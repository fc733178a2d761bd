package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"unmask"
	"unmask/model"
	"unmask/weights"
)

// TextLogits writes the raw logits of texts of any lengths, given as tokens with those that stand
// around them. Of text i, counted from 0, there are i.tokens I64 [D] and, as in Logits but without
// the dimension B, i.logits F32 [D,V] and others, such as i.hidden.0 of `with`. The metadata has
// the names of texts.
func TextLogits(ctx context.Context, m *unmask.Model, names []string, texts [][]int32, out string,
	with ...Inside) error {
	if m.Spec().Fixed {
		return fmt.Errorf("the model has sequences of %d positions only, want tokens of that many",
			m.Spec().Length())
	}
	var all []weights.Stream
	metadata, total, n := map[string]string{}, int64(0), 0
	for i, tokens := range texts {
		b := &model.Batch{Size: 1, Length: len(tokens), Tokens: tokens}
		var err error
		if i == 0 {
			n, err = columns(ctx, m, b)
		}
		if err != nil {
			return err
		}
		list, size, err := streams(ctx, m, b, n, with)
		if total += size; err == nil && total > maxInside {
			err = fmt.Errorf("--with has more than %.1f GB, want at most that: give fewer texts",
				float64(maxInside)/1e9)
		}
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, names[i], err)
		}
		number := strconv.Itoa(i)
		all = append(all, weights.Stream{Name: number + ".tokens", DType: weights.I64,
			Shape: []int{len(tokens)}, Open: opener(bytes.NewReader(longs(tokens)))})
		for _, s := range list {
			s.Name, s.Shape = number+"."+s.Name, s.Shape[1:]
			all = append(all, s)
		}
		metadata[number] = names[i]
	}
	return weights.WriteFileStreams(out, all, metadata)
}

// longs returns the bytes of tokens as I64.
func longs(tokens []int32) (data []byte) {
	for _, t := range tokens {
		data = binary.LittleEndian.AppendUint64(data, uint64(t))
	}
	return data
}
