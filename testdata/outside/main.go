// Command outside is a program of another module: the whole command line of unmask, with a sampler
// and a network of its own in every command.
package main

import (
	"os"

	"unmask/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
