//go:build !(linux && (amd64 || arm64)) || nocuda

package cuda

import (
	"errors"

	"unmask/backend"
)

// Included says whether this build knows GPUs.
const Included = false

var errLeftOut = errors.New("cuda: this build has no GPU support: it is in builds for Linux on " +
	"amd64 and arm64 without the tag nocuda")

// Backend is a GPU; this build has none.
type Backend struct{ backend.Backend }

// New returns an error: this build knows no GPU.
func New(Options) (*Backend, error) { return nil, errLeftOut }

// Devices returns an error: this build knows no GPU.
func Devices() ([]Info, error) { return nil, errLeftOut }
