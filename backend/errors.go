package backend

import "fmt"

// DeviceError is a failed call of a device's driver. Kernels return nothing, so they panic with it;
// Recover turns the panic into an error at the end of a pass, a load or a decoding.
type DeviceError struct {
	Call   string // in the driver's spelling, such as cuMemAlloc_v2
	Code   int
	Name   string // of the error code, such as CUDA_ERROR_OUT_OF_MEMORY
	Detail string // what was requested and what helps; may be ""
}

// Error returns the call, the name and the number of the error, and what is known beside them.
func (e *DeviceError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Recover, deferred, sets *err to the DeviceError of a panic. Other panics continue.
func Recover(err *error) {
	switch e := recover().(type) {
	case nil:
	case *DeviceError:
		*err = e
	default:
		panic(e)
	}
}
