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
// sentence stays whole.
func SplitParts(text string, length int) []string {
	var packed []string
	for _, s := range splitSentences(text) {
		if n := len(packed); n > 0 && countCharacters(packed[n-1])+countCharacters(s) <= length {
			packed[n-1] += s
		} else {
			packed = append(packed, s)
		}
	}
	var out []string
	for i, p := range packed {
		if n := len(out); n > 0 && (countCharacters(p) < minCharacters ||
			i == 1 && countCharacters(packed[0]) < minCharacters) {
			out[n-1] += p
		} else {
			out = append(out, p)
		}
	}
	for i := range out {
		out[i] = trimSpace(out[i])
	}
	return slices.DeleteFunc(out, func(p string) bool { return p == "" })
}

func countCharacters(text string) int { return utf8.RuneCountInString(text) }

// splitSentences cuts a text after each mark, and after what closes a sentence.
func splitSentences(text string) (list []string) {
	from := 0
	for at, c := range text {
		end := at + utf8.RuneLen(c)
		switch {
		case from == at && len(list) > 0 && strings.ContainsRune(cutMarks+closingMarks, c):
			list[len(list)-1] += text[at:end]
			from = end
		case strings.ContainsRune(cutMarks, c) && !(c == '.' && endsInAbbreviation(text[from:end])):
			list = append(list, text[from:end])
			from = end
		}
	}
	if from < len(text) {
		list = append(list, text[from:])
	}
	return list
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
func (p Pace) sliceText(text string) (list []string) {
	most := partFrames * p.weightPerFrame()
	if p.Speed > 0 {
		most *= p.Speed
	}
	from := 0
	blank := 0
	sum := 0.0
	since := 0.0 // since: the weight after the last blank
	for at, c := range text {
		w := letterWeight(c)
		if sum+w > most && at > from {
			end := at
			if blank > from {
				end = blank
				sum = since
			} else {
				sum = 0
			}
			list = append(list, trimSpace(text[from:end]))
			from = end
			since = sum
		}
		if sum, since = sum+w, since+w; isSpace(c) {
			blank = at
			since = 0
		}
	}
	return append(list, trimSpace(text[from:]))
}

// SplitFirst cuts off the first sentence of a text, so that it can be heard early. It is at least
// two seconds long, because the parts after it continue it.
func SplitFirst(text string, pace Pace) (first, rest string) {
	const enough, most = 2 * FrameRate, partFrames
	for _, s := range splitSentences(text) {
		first += s
		end, _ := utf8.DecodeLastRuneInString(strings.TrimRight(first, closingMarks))
		n := pace.FrameCount(first)
		if n >= enough && strings.ContainsRune(".!?。！？", end) || n >= most {
			break
		}
	}
	if pace.FrameCount(first) > MaxFrames {
		first = pace.sliceText(first)[0]
	}
	return trimSpace(first), trimSpace(text[len(first):])
}
