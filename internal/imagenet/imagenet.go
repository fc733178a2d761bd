// Package imagenet has the names of the 1000 classes of ILSVRC 2012 (Russakovsky et al., 2015,
// "ImageNet large scale visual recognition challenge"), in the order that networks number them.
package imagenet

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed names.txt
var table string

// Names returns the names of classes 0 to 999, each once; the slice is shared and must not be
// changed. They are WordNet's first words, made plainer where these are ambiguous.
var Names = sync.OnceValue(func() []string {
	var list []string
	for name := range strings.SplitSeq(strings.ReplaceAll(table, "\n", " "), ",") {
		list = append(list, strings.TrimSpace(name))
	}
	return list
})

// Classes returns Names for a network of n classes, or nil if these are others.
func Classes(n int) []string {
	if n == len(Names()) {
		return Names()
	}
	return nil
}
