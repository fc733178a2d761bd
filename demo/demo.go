// Package demo embeds small trained models in the published formats, so that the first
// command works without a download. recipe/ has the scripts that trained them.
package demo

import (
	"embed"
	"io/fs"
)

//go:embed text chat judge image
var files embed.FS

// Text returns a masked diffusion model of small stories in SDTT's format: 192 wide, 8 blocks,
// length 256, 1024 byte-pair tokens. A text is one story, and package stories measures it.
func Text() fs.FS { return folder("text") }

// Chat returns a model of Text's shapes, trained further to answer: it tells stories about a hero
// whose name the user gives, and lists their facts, also as JSON. Package stories says which
// answers are right.
func Chat() fs.FS { return folder("chat") }

// Judge returns a GPT-2 over the same tokens, for generative perplexity.
func Judge() fs.FS { return folder("judge") }

// Image returns a MAGE with its VQGAN over drawn landscapes of 64 x 64 pixels.
func Image() fs.FS { return folder("image") }

// folder returns an embedded folder as a file system of its own, as a model is loaded from.
func folder(name string) fs.FS {
	dir, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // only an invalid name has an error, and names are constants above
	}
	return dir
}
