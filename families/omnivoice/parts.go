package omnivoice

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	marks   = ".,;:!?。，；：！？"  // after which a text may be cut
	closing = "\"'“”‘’）]》>」】" // marks that belong to the sentence before
	least   = 3               // characters of a part
)

// short are abbreviations whose full stop ends no sentence.
var short = strings.Fields("Mr. Mrs. Ms. Dr. Prof. Sr. Jr. Rev. Fr. Hon. Pres. Gov. Capt. Gen. " +
	"Sen. Rep. Col. Maj. Lt. Cmdr. Sgt. Cpl. Co. Corp. Inc. Ltd. Est. Dept. St. Ave. Blvd. Rd. Mt. " +
	"Ft. No. Jan. Feb. Mar. Apr. Aug. Sep. Sept. Oct. Nov. Dec. i.e. e.g. vs. Vs. Etc. approx. fig. " +
	"def.")

// SplitParts cuts a text after punctuation into parts of at most `length` characters; a longer
// sentence stays whole.
func SplitParts(text string, length int) []string {
	var packed []string
	for _, s := range sentences(text) {
		if n := len(packed); n > 0 && characters(packed[n-1])+characters(s) <= length {
			packed[n-1] += s
		} else {
			packed = append(packed, s)
		}
	}
	var out []string
	for i, p := range packed {
		if n := len(out); n > 0 && (characters(p) < least ||
			i == 1 && characters(packed[0]) < least) {
			out[n-1] += p
		} else {
			out = append(out, p)
		}
	}
	for i := range out {
		out[i] = trim(out[i])
	}
	return slices.DeleteFunc(out, func(p string) bool { return p == "" })
}

func characters(text string) int { return utf8.RuneCountInString(text) }

// sentences cuts a text after each mark, and after what closes a sentence.
func sentences(text string) (list []string) {
	from := 0
	for at, c := range text {
		end := at + utf8.RuneLen(c)
		switch {
		case from == at && len(list) > 0 && strings.ContainsRune(marks+closing, c):
			list[len(list)-1] += text[at:end]
			from = end
		case strings.ContainsRune(marks, c) && !(c == '.' && abbreviated(text[from:end])):
			list = append(list, text[from:end])
			from = end
		}
	}
	if from < len(text) {
		list = append(list, text[from:])
	}
	return list
}

// abbreviated reports whether a text ends in an abbreviation.
func abbreviated(text string) bool {
	words := strings.FieldsFunc(text, isSpace)
	return len(words) > 0 && slices.Contains(short, words[len(words)-1])
}

// The length from which a text is cut, and about that of its parts.
const (
	longest = 30 * FrameRate
	usual   = 15 * FrameRate
)

// SplitLong cuts a text that takes more than 30 seconds into parts of about 15. A sentence that is
// longer than the model speaks at once is cut at blanks, or anywhere.
func SplitLong(text string, pace Pace) (parts []string) {
	frames := pace.FrameCount(text)
	if frames <= longest || pace.Seconds > 0 {
		return []string{text}
	}
	length := max(1, int(usual/(float64(frames)/float64(characters(text)))))
	for _, p := range SplitParts(text, length) {
		if pace.FrameCount(p) > MaxFrames {
			parts = append(parts, pace.slices(p)...)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// slices cuts a text into parts of at most 15 seconds, at blanks where there are any.
func (p Pace) slices(text string) (list []string) {
	most := usual * p.unit()
	if p.Speed > 0 {
		most *= p.Speed
	}
	from, blank, sum, since := 0, 0, 0.0, 0.0 // since: the weight after the last blank
	for at, c := range text {
		w := letterWeight(c)
		if sum+w > most && at > from {
			end := at
			if blank > from {
				end, sum = blank, since
			} else {
				sum = 0
			}
			list = append(list, trim(text[from:end]))
			from, since = end, sum
		}
		if sum, since = sum+w, since+w; isSpace(c) {
			blank, since = at, 0
		}
	}
	return append(list, trim(text[from:]))
}

// SplitFirst cuts off the first sentence of a text, so that it can be heard early. It is at least
// two seconds long, because the parts after it continue it.
func SplitFirst(text string, pace Pace) (first, rest string) {
	const enough, most = 2 * FrameRate, usual
	for _, s := range sentences(text) {
		first += s
		end, _ := utf8.DecodeLastRuneInString(strings.TrimRight(first, closing))
		n := pace.FrameCount(first)
		if n >= enough && strings.ContainsRune(".!?。！？", end) || n >= most {
			break
		}
	}
	if pace.FrameCount(first) > MaxFrames {
		first = pace.slices(first)[0]
	}
	return trim(first), trim(text[len(first):])
}
