//go:build !(linux && (amd64 || arm64)) || nocuda

package cuda

import (
	"errors"

	"unmask/backend"
)

var errLeftOut = errors.New("cuda: this build has no GPU support: it is in builds for Linux on amd64 and arm64 without the tag nocuda")

// New returns an error: this build knows no GPU.
func New(Options) (backend.Backend, error) { return nil, errLeftOut }

// Info is what the driver says of a GPU.
type Info struct {
	Index int
	Model string
}

// Devices returns an error: this build knows no GPU.
func Devices() ([]Info, error) { return nil, errLeftOut }
