package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A model without a name of its own is served under the last part of its place: of a model in a
// folder of a repository, the folder.
func TestDefaultModelNames(t *testing.T) {
	for place, want := range map[string]string{
		"org/name":                     "name",
		"org/name:folder/":             "folder",
		"org/name@v1:models/folder-1/": "folder-1",
	} {
		list, err := ParseModels([]string{place})
		require.NoError(t, err, place)
		require.Equal(t, []NamedModel{{want, place}}, list)
	}
}
