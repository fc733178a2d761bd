package metrics

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// Entropy returns the entropy of a sequence's own token counts, in nats (Hayakawa et al. 2025,
// appendix on SDTT, after Zheng et al. 2024). 0 for an empty sequence.
func Entropy(tokens []int32) float64 {
	counts := map[int32]int{}
	for _, t := range tokens {
		counts[t]++
	}
	var h float64
	for _, c := range slices.Sorted(maps.Values(counts)) { // the sum's last bit depends on the order
		p := float64(c) / float64(len(tokens))
		h -= p * math.Log(p)
	}
	return max(h, 0)
}

// DistinctN returns the share of distinct n-grams among all n-grams of the samples (Li et al., "A
// diversity-promoting objective function", 2016); 0 if no sample has n tokens.
func DistinctN(samples [][]int32, n int) float64 {
	seen := map[string]bool{}
	total := 0
	for _, s := range samples {
		eachGram(s, n, func(gram string) {
			seen[gram] = true
			total++
		})
	}
	if total == 0 {
		return 0
	}
	return float64(len(seen)) / float64(total)
}

// Duplicates returns the share of samples that equal an earlier one; 0 without samples.
func Duplicates(samples [][]int32) float64 {
	seen := map[string]bool{}
	for _, s := range samples {
		eachGram(s, max(1, len(s)), func(whole string) { seen[whole] = true })
	}
	return 1 - float64(len(seen))/float64(max(1, len(samples)))
}

// eachGram visits a sequence's n-grams, for a fixed n from 1, as comparable strings.
func eachGram(s []int32, n int, visit func(gram string)) {
	bytes := make([]byte, 0, 4*len(s))
	for _, t := range s {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(t))
	}
	for i := 0; i+n <= len(s); i++ {
		visit(string(bytes[4*i : 4*(i+n)]))
	}
}

// smoothing replaces the numerator of a precision that is 0 (Chen & Cherry 2014, method 1, as in
// NLTK).
const smoothing = 0.1

// SelfBLEU returns the mean BLEU of each sample against all others, with n-grams up to n (usually
// 4), equally weighted (Zhu et al., "Texygen", 2018, with NLTK's method1 smoothing). It is 1 if all
// samples are equal, 0 if no two share a token, and NaN for fewer than two samples.
func SelfBLEU(samples [][]int32, n int) float64 {
	if len(samples) < 2 {
		return math.NaN()
	}
	logs := make([]float64, len(samples)) // sum over n-gram orders of the log precision
	for order := 1; order <= n; order++ {
		addPrecisions(logs, samples, order)
	}
	lengths := make([]int, len(samples))
	for i, s := range samples {
		lengths[i] = len(s)
	}
	slices.Sort(lengths)
	var sum float64
	for i, s := range samples {
		sum += brevityPenalty(len(s), lengths) * math.Exp(logs[i]/float64(n))
	}
	return sum / float64(len(samples))
}

// gramCounts is how often a gram occurs in the sample that has it most often, and in the second
// one. With both, each sample is compared with all others without looking at each pair.
type gramCounts struct {
	sample int // that has it most often
	times  int
	second int
}

// addPrecisions adds the log of each sample's n-gram precision: the share of its grams that some
// other sample has at least as often.
func addPrecisions(logs []float64, samples [][]int32, n int) {
	maxCounts := map[string]gramCounts{}
	counts := make([]map[string]int, len(samples))
	for i, s := range samples {
		counts[i] = map[string]int{}
		eachGram(s, n, func(gram string) { counts[i][gram]++ })
		for gram, c := range counts[i] {
			m := maxCounts[gram]
			switch {
			case c > m.times:
				m = gramCounts{i, c, m.times}
			case c > m.second:
				m.second = c
			}
			maxCounts[gram] = m
		}
	}
	for i := range samples {
		matched := 0
		total := 0
		for gram, c := range counts[i] {
			m := maxCounts[gram]
			elsewhere := m.times
			if m.sample == i {
				elsewhere = m.second
			}
			matched += min(c, elsewhere)
			total += c
		}
		switch {
		case matched > 0:
			logs[i] += math.Log(float64(matched) / float64(total))
		case n == 1: // no common token: 0 despite smoothing
			logs[i] = math.Inf(-1)
		default:
			logs[i] += math.Log(smoothing / float64(max(total, 1)))
		}
	}
}

// brevityPenalty returns BLEU's penalty for a sample of length n that is shorter than the closest
// other length, the shorter of two equally close ones. lengths are those of all samples, sorted,
// two or more.
func brevityPenalty(n int, lengths []int) float64 {
	i, _ := slices.BinarySearch(lengths, n) // the sample's own place
	last := len(lengths) - 1
	if n == 0 {
		return 0
	}
	isLongest := i == last
	if isLongest || lengths[i+1] == n {
		return 1
	}
	longer := lengths[i+1]
	if i > 0 && n-lengths[i-1] <= longer-n {
		return 1 // a shorter one is as close
	}
	return math.Exp(1 - float64(longer)/float64(n))
}
