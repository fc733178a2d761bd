package scores

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"unmask"
)

// mutation matches one change: the letter in the sequence, its number from 1, the new letter.
var mutation = regexp.MustCompile(`^([^0-9\s])([0-9]{1,7})([^0-9\s])$`)

// LogOdds returns log p(new) - log p(old) of a change such as A24G, in nats, or the sum of several
// joined by colons (Meier et al. 2021, "Language models enable zero-shot prediction of the effects
// of mutations on protein function": wild-type marginals if the score saw the sequence, masked
// marginals if its positions were masked).
func (s *Score) LogOdds(t *unmask.Text, changes string) (sum float64, err error) {
	for change := range strings.SplitSeq(changes, ":") {
		part := mutation.FindStringSubmatch(change)
		if part == nil {
			return 0, fmt.Errorf("mutation is %.40q, want one such as A24G", change)
		}
		p, err := strconv.Atoi(part[2])
		if err != nil || p < 1 || p > len(s.Tokens) {
			return 0, fmt.Errorf("mutation %s is at position %s, want 1 to %d", change, part[2],
				len(s.Tokens))
		}
		from, err := letter(t, part[1])
		if err != nil {
			return 0, fmt.Errorf("mutation %s: %w", change, err)
		}
		to, err := letter(t, part[3])
		if err != nil {
			return 0, fmt.Errorf("mutation %s: %w", change, err)
		}
		if s.Tokens[p-1] != from {
			return 0, fmt.Errorf("mutation %s: position %d has %s, want %s", change, p,
				t.Decode(s.Tokens[p-1:p]), part[1])
		}
		if s.logits[p-1] == nil {
			return 0, fmt.Errorf("mutation %s: position %d is not scored", change, p)
		}
		sum += float64(s.logits[p-1][to]) - float64(s.logits[p-1][from])
	}
	return sum, nil
}

func letter(t *unmask.Text, text string) (int32, error) {
	ids, err := t.Encode(text)
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%q is %d tokens, want 1", text, len(ids))
	}
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}
