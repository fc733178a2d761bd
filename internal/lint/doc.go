// Package lint has the rules that hold for the whole module, as tests: the layers of
// ARCHITECTURE.md, lines of at most 100 columns, names of packages, statements that are not folded
// into each other, and links between documents. It imports nothing of the module, so it runs in a
// second: go test ./internal/lint.
package lint
