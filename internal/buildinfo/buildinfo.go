// Package buildinfo says what the running program was built from.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the release that the source is of, or comes after; CHANGELOG.md has what is in it.
const Number = "0.2.0"

// Version returns one line: the release and the commit, Go's version, and the platform.
func Version() string {
	v := Number
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return fmt.Sprintf("unmask %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
