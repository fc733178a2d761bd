//go:build !(linux && (amd64 || arm64)) || nocuda

package cuda

import (
	"errors"

	"unmask/backend"
)

// Supported reports whether this build supports GPUs.
const Supported = false

var errUnsupported = errors.New("cuda: this build has no GPU support: it is in builds for Linux on " +
	"amd64 and arm64 without the tag nocuda")

// Backend is a GPU. In this build there is none.
type Backend struct{ backend.Backend }

// New returns an error: this build does not support GPUs.
func New(Options) (*Backend, error) { return nil, errUnsupported }

// Devices returns an error: this build does not support GPUs.
func Devices() ([]Info, error) { return nil, errUnsupported }
