package omnivoice

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	cutMarks      = ".,;:!?。，；：！？"  // after which a text may be cut
	closingMarks  = "\"'“”‘’）]》>」】" // marks that belong to the sentence before
	minCharacters = 3               // characters of a part
)

// abbreviations are words whose full stop ends no sentence.
var abbreviations = strings.Fields(`Mr. Mrs. Ms. Dr. Prof. Sr. Jr. Rev. Fr. Hon. Pres. Gov. Capt. Gen.
	Sen. Rep. Col. Maj. Lt. Cmdr. Sgt. Cpl. Co. Corp. Inc. Ltd. Est. Dept. St. Ave. Blvd. Rd. Mt. Ft. No.
	Jan. Feb. Mar. Apr. Aug. Sep. Sept. Oct. Nov. Dec. i.e. e.g. vs. Vs. Etc. approx. fig. def.`)

// SplitParts cuts a text after punctuation into parts of at most `length` characters; a longer
// sentence stays whole. A part that is too short to be spoken alone joins its neighbour.
func SplitParts(text string, length int) []string {
	// As many sentences as fit are one part.
	var packed []string
	for _, s := range splitSentences(text) {
		last := len(packed) - 1
		if last >= 0 && countCharacters(packed[last])+countCharacters(s) <= length {
			packed[last] += s
		} else {
			packed = append(packed, s)
		}
	}

	// A short part joins the one before it, and the first part, if it is short, the second.
	var parts []string
	for i, p := range packed {
		last := len(parts) - 1
		if last >= 0 && (countCharacters(p) < minCharacters ||
			i == 1 && countCharacters(packed[0]) < minCharacters) {
			parts[last] += p
		} else {
			parts = append(parts, p)
		}
	}
	for i := range parts {
		parts[i] = trimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}

// countCharacters returns the number of code points of a text.
func countCharacters(text string) int { return utf8.RuneCountInString(text) }

// splitSentences cuts a text after each mark, and after what closes a sentence.
func splitSentences(text string) (sentences []string) {
	start := 0
	for i, c := range text {
		end := i + utf8.RuneLen(c)
		switch {
		case start == i && len(sentences) > 0 && strings.ContainsRune(cutMarks+closingMarks, c):
			sentences[len(sentences)-1] += text[i:end]
			start = end
		case strings.ContainsRune(cutMarks, c) && !(c == '.' && endsInAbbreviation(text[start:end])):
			sentences = append(sentences, text[start:end])
			start = end
		}
	}
	if start < len(text) {
		sentences = append(sentences, text[start:])
	}
	return sentences
}

// endsInAbbreviation reports whether a text ends in an abbreviation.
func endsInAbbreviation(text string) bool {
	words := strings.FieldsFunc(text, isSpace)
	return len(words) > 0 && slices.Contains(abbreviations, words[len(words)-1])
}

// The length from which a text is cut, and about that of its parts.
const (
	longFrames = 30 * FrameRate
	partFrames = 15 * FrameRate
)

// SplitLong cuts a text that takes more than 30 seconds into parts of about 15. A sentence that is
// longer than the model speaks at once is cut at blanks, or anywhere.
func SplitLong(text string, pace Pace) (parts []string) {
	frames := pace.FrameCount(text)
	if frames <= longFrames || pace.Seconds > 0 {
		return []string{text}
	}
	length := max(1, int(partFrames/(float64(frames)/float64(countCharacters(text)))))
	for _, p := range SplitParts(text, length) {
		if pace.FrameCount(p) > MaxFrames {
			parts = append(parts, pace.sliceText(p)...)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// sliceText cuts a text into parts of at most 15 seconds, at blanks where there are any.
func (p Pace) sliceText(text string) (parts []string) {
	limit := partFrames * p.weightPerFrame()
	if p.Speed > 0 {
		limit *= p.Speed
	}
	start := 0           // of the part
	blank := 0           // the last blank in it, or no later than start
	weight := 0.0        // of the part so far
	weightAtBlank := 0.0 // of the part so far from the last blank on
	for i, c := range text {
		w := letterWeight(c)
		if weight+w > limit && i > start {
			end := i
			if blank > start {
				end = blank
				weight = weightAtBlank
			} else {
				weight = 0
			}
			parts = append(parts, trimSpace(text[start:end]))
			start = end
			weightAtBlank = weight
		}
		weight += w
		weightAtBlank += w
		if isSpace(c) {
			blank = i
			weightAtBlank = 0
		}
	}
	return append(parts, trimSpace(text[start:]))
}

// SplitFirst cuts off the first sentence of a text, so that it can be heard early. It is at least
// two seconds long, because the parts after it continue it: a shorter voice is a poor one.
func SplitFirst(text string, pace Pace) (first, rest string) {
	const minFrames, maxFrames = 2 * FrameRate, partFrames
	for _, s := range splitSentences(text) {
		first += s
		mark, _ := utf8.DecodeLastRuneInString(strings.TrimRight(first, closingMarks))
		frames := pace.FrameCount(first)
		if frames >= minFrames && strings.ContainsRune(".!?。！？", mark) || frames >= maxFrames {
			break
		}
	}
	if pace.FrameCount(first) > MaxFrames {
		first = pace.sliceText(first)[0]
	}
	return trimSpace(first), trimSpace(text[len(first):])
}
