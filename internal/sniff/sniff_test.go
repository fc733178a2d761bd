package sniff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstead(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 4999819336\n"
	for name, c := range map[string]struct{ head, want string }{
		"pointer": {pointer, "a Git LFS pointer to a file of 4999819336 bytes, want that file " +
			"(git lfs pull)"},
		"pointer, cut": {pointer[:50], "a Git LFS pointer to another file, want that file (git lfs pull)"},
		"page":         {"\n<!DOCTYPE html>\n<html>", "a web page, want the file that was to be downloaded"},
		"page, plain":  {"<HTML><body>", "a web page, want the file that was to be downloaded"},
		"page, marked": {"\ufeff<html>", "a web page, want the file that was to be downloaded"},
		"error": {`{"error":"Invalid credentials"}`, "a server's error, want the file that was to be " +
			`downloaded: {"error":"Invalid credentials"}`},
		"empty":       {"", ""},
		"config.json": {`{"model_type":"llada"}`, ""},
		"GGUF":        {"GGUF\x03\x00\x00\x00", ""},
		"zip":         {"PK\x03\x04", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPlaceholder([]byte(c.head))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}
