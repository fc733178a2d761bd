package model

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A small file of a model that is a Git LFS pointer or a page is refused by what it is.
func TestReadFileInstead(t *testing.T) {
	files := fstest.MapFS{"pointer": {Data: []byte("version https://git-lfs.github.com/spec/v1\nsize 7\n")},
		"page": {Data: []byte("<!doctype html>")}, "config.json": {Data: []byte("{}")}}
	for name, want := range map[string]string{"pointer": "a Git LFS pointer to a file of 7 bytes",
		"page": "a web page", "config.json": ""} {
		data, err := ReadFile(files, name, 100)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, "{}", string(data))
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
