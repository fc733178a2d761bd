package omnivoice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"unmask/param"
)

// designTable has the words of a designed voice in English and Chinese. Words of a row exclude each
// other; an accent is of English, a dialect of Chinese.
var designTable = [][][2]string{
	{{"male", "男"}, {"female", "女"}},
	{{"child", "儿童"}, {"teenager", "少年"}, {"young adult", "青年"}, {"middle-aged", "中年"},
		{"elderly", "老年"}},
	{{"very low pitch", "极低音调"}, {"low pitch", "低音调"}, {"moderate pitch", "中音调"},
		{"high pitch", "高音调"}, {"very high pitch", "极高音调"}},
	{{"whisper", "耳语"}},
	accents: {{"american accent"}, {"australian accent"}, {"british accent"}, {"canadian accent"},
		{"chinese accent"}, {"indian accent"}, {"japanese accent"}, {"korean accent"},
		{"portuguese accent"}, {"russian accent"}},
	dialects: {{1: "河南话"}, {1: "陕西话"}, {1: "四川话"}, {1: "贵州话"}, {1: "云南话"}, {1: "桂林话"},
		{1: "济南话"}, {1: "石家庄话"}, {1: "甘肃话"}, {1: "宁夏话"}, {1: "青岛话"}, {1: "东北话"}},
}

// accents and dialects are rows of designTable.
const accents, dialects = 4, 5

// DesignWords returns all words of designed voices.
func DesignWords() (list []string) {
	for _, row := range designTable {
		for _, pair := range row {
			for _, word := range pair {
				if word != "" {
					list = append(list, word)
				}
			}
		}
	}
	return list
}

// ParseDesign returns the description of a voice in the form that the model was trained on: Chinese
// where the text has Chinese characters, unless an English accent is named. "" describes none. An
// error lists the nearest words.
func ParseDesign(description, text string) (string, error) {
	var rows []int // of designTable, of each word
	var pairs [][2]string
	isComma := func(c rune) bool { return c == ',' || c == '，' }
	for _, word := range strings.FieldsFunc(description, isComma) {
		word = strings.ToLower(trimSpace(word))
		if word == "" {
			continue
		}
		row, pair, ok := findDesignWord(word)
		if !ok {
			return "", param.Unknown("voice word", word, DesignWords())
		}
		if i := slices.Index(rows, row); i >= 0 {
			return "", clashError(word, pairs[i], "one word of a kind")
		}
		rows = append(rows, row)
		pairs = append(pairs, pair)
	}
	accent := slices.Index(rows, accents)
	dialect := slices.Index(rows, dialects)
	if accent >= 0 && dialect >= 0 {
		return "", clashError(pairs[dialect][1], pairs[accent],
			"an English accent or a Chinese dialect")
	}

	language := 0 // index in a pair
	if dialect >= 0 || accent < 0 && hasHan(text) {
		language = 1
	}
	var words []string
	for _, pair := range pairs {
		words = append(words, cmp.Or(pair[language], pair[1-language]))
	}
	if hasHan(strings.Join(words, "")) {
		return strings.Join(words, "，"), nil
	}
	return strings.Join(words, ", "), nil
}

// findDesignWord returns the row and the pair of a word.
func findDesignWord(word string) (int, [2]string, bool) {
	for i, row := range designTable {
		for _, pair := range row {
			if word == pair[0] || word == pair[1] {
				return i, pair, true
			}
		}
	}
	return 0, [2]string{}, false
}

// clashError returns the error of two words that exclude each other.
func clashError(word string, earlier [2]string, want string) error {
	return &param.Error{
		Name: "voice",
		Found: fmt.Sprintf("%q with %q", word,
			strings.TrimSpace(earlier[0]+" "+earlier[1])),
		Want:   want,
		Reason: param.NoEffect,
	}
}
