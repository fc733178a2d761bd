// Command clip prints the ids of texts, JSON strings a line on standard input, by the CLIP
// tokenizer in a folder, 77 a line. tools/peers/clip.py compares them with Hugging Face's library.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"unmask/codecs/clip"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	t, err := clip.OpenTokenizer(os.DirFS(os.Args[1]))
	if err != nil {
		return err
	}
	lines, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			return err
		}
		ids, _, err := t.Encode(text, 77, t.Pad())
		if err != nil {
			return err
		}
		line, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}
