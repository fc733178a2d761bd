package tokenizers

import "golang.org/x/text/unicode/norm"

// NFC returns a text in Unicode's form C, as Hugging Face's library computes it with Unicode 9.
func NFC(text string) string { return form{norm.NFD, true}.normalize(text) }
