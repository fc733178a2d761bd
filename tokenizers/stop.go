package tokenizers

import "context"

// WithContext returns a tokenizer like t, for the texts of one request: encoding ends with the
// error of ctx soon after ctx is done. A text of megabytes takes seconds, which nobody waits for
// once its client has left.
func WithContext(ctx context.Context, t Tokenizer) Tokenizer {
	v, ok := WithoutMask(t).(*vocabulary)
	if !ok {
		return t
	}
	out := *v
	out.stop = ctx.Err
	return replaceVocabulary(t, &out)
}

// workPerCheck is the work, in bytes of words and in merges, from one look at the context to the
// next: well below a millisecond.
const workPerCheck = 1 << 12

// spend counts work, and returns an error where the encoding is to end.
func (s *scratch) spend(work int) error {
	s.work += work
	if s.work < workPerCheck || s.stop == nil {
		return nil
	}
	s.work = 0
	return s.stop()
}
