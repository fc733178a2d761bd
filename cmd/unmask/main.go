// Command unmask runs masked diffusion models from the command line; see package cli.
package main

import (
	"os"

	"unmask/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
