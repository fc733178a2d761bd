//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernels, compiled by kernels/build.sh and compressed by gzip: as PTX, which the driver
// compiles for its GPU, and as machine code for Hopper GPUs, which needs no compiler.
var (
	//go:embed kernels/unmask.ptx.gz
	ptx []byte
	//go:embed kernels/unmask.sm_90a.cubin.gz
	hopper []byte
)

// kernelImages are the forms of the kernels that are tried; nil forms are not.
type kernelImages struct {
	// ptx is for any GPU from compute capability 8.0 on.
	ptx []byte

	// hopper is machine code for compute capability 9.0. Only it has the kernels with wgmma, which
	// PTX for other GPUs cannot express.
	hopper []byte
}

// embedded are the kernels of this build.
var embedded = kernelImages{ptx: ptx, hopper: hopper}

// patience is the time after which a slow load is reported to Options.Notice. Tests make it short.
var patience = time.Second

// Codes of failed loads for which errors give advice (enum CUresult).
const (
	noJITCompiler         = 221
	unsupportedPTXVersion = 222
)

var loadingAdvice = map[int]string{
	noJITCompiler: "the driver's compiler, libnvidia-ptxjitcompiler.so.1, is missing: it comes with " +
		"the driver, and containers get it with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
	unsupportedPTXVersion: "the driver is too old, want 520 (CUDA 11.8) or later",
}

// loadKernels loads the kernels and looks up all that are registered. It tries machine code for
// this GPU first. If the driver does not accept that, it compiles the PTX, or finds it compiled in
// its cache.
func (v *device) loadKernels(m kernelImages, notice func(string)) error {
	var hopperErr error
	if m.hopper != nil && v.Major == 9 && v.Minor == 0 {
		hopperErr = v.loadImage(m.hopper, "machine code for Hopper")
		if hopperErr == nil {
			return v.findKernels()
		}
	}

	if notice != nil {
		slow := time.AfterFunc(patience, func() {
			notice(fmt.Sprintf("cuda: the driver is compiling kernels for %s; it keeps them for the "+
				"next start", v.Model))
		})
		defer slow.Stop()
	}
	err := v.loadImage(m.ptx, "PTX")
	if err != nil && hopperErr != nil {
		return fmt.Errorf("%w (and before that %v)", err, hopperErr)
	}
	if err != nil {
		return err
	}
	return v.findKernels()
}

// loadImage loads gzipped PTX or machine code. what names it in errors.
func (v *device) loadImage(compressed []byte, what string) error {
	const errorLog, errorLogBytes = 5, 6 // CU_JIT_ERROR_LOG_BUFFER and its size
	image, err := decompressImage(compressed)
	if err != nil {
		return fmt.Errorf("kernels as %s: %w", what, err)
	}
	r := v.out
	clear(r.log[:])
	r.options = [2]int32{errorLog, errorLogBytes}
	r.values = [2]uintptr{uintptr(unsafe.Pointer(&r.log)), uintptr(len(r.log) - 1)}
	code := v.callCode(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&r.a)),
		uintptr(unsafe.Pointer(&image[0])), uintptr(len(r.options)),
		uintptr(unsafe.Pointer(&r.options)), uintptr(unsafe.Pointer(&r.values)))
	runtime.KeepAlive(image)
	if code == 0 {
		v.module = uintptr(r.a)
		return nil
	}

	err = withSubject(v.callError(cuModuleLoadDataEx, code, loadingAdvice[code]), "kernels as "+what)
	firstLine, _, _ := strings.Cut(unix.ByteSliceToString(r.log[:]), "\n")
	if firstLine != "" {
		return fmt.Errorf("%w: %s", err, firstLine)
	}
	return err
}

// decompressImage decompresses an image and appends the zero byte that PTX needs.
func decompressImage(compressed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	image.Grow(4 << 20)
	if _, err := io.Copy(&image, z); err != nil {
		return nil, err
	}
	image.WriteByte(0)
	return image.Bytes(), nil
}

// findKernels looks up all registered kernels in the module.
func (v *device) findKernels() error {
	r := v.out
	v.entries = make([]uintptr, len(kernels))
	v.shared = make([]uint32, len(kernels))
	for i, k := range kernels {
		name := cString(k.name)
		err := v.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&r.a)), v.module,
			uintptr(unsafe.Pointer(&name[0])))
		runtime.KeepAlive(name)
		if k.hopper && err != nil {
			continue // the PTX has none of these
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, k.name)
		}
		v.entries[i] = uintptr(r.a)
		v.shared[i] = defaultShared
	}
	return nil
}

// hasKernel reports whether the loaded form of the kernels has k.
func (v *device) hasKernel(k *kernel) bool { return !k.hopper || v.entries[k.index] != 0 }

// breaksContext reports whether after this error code the process cannot use the GPU any more: the
// primary context stays broken until the process ends, so a new Backend fails too (CUDA Driver API,
// enum cudaError_enum).
func breaksContext(code int) bool {
	switch code {
	// a fault of a kernel, a time-out, a destroyed context
	case 700, 702, 709, 710, 714, 715, 716, 717, 718, 719:
		return true
	}
	return false
}

// brokenAdvice is added to errors with such a code.
const brokenAdvice = "; this process cannot use the GPU any more, a new one can"
