//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"unmask/backend"
)

// ltFunction is a function of cuBLASLt (cuBLAS documentation, "Using the cuBLASLt API").
type ltFunction int

const (
	ltCreate ltFunction = iota
	ltDestroy
	ltGetStatusName
	ltMatmul
	ltMatmulAlgoCheck
	ltMatmulAlgoGetHeuristic
	ltMatmulDescCreate
	ltMatmulDescDestroy
	ltMatmulDescSetAttribute
	ltMatmulPreferenceCreate
	ltMatmulPreferenceDestroy
	ltMatmulPreferenceSetAttribute
	ltMatrixLayoutCreate
	ltMatrixLayoutDestroy
	ltMatrixLayoutSetAttribute
	ltCount
)

var ltNames = [ltCount]string{
	ltCreate: "cublasLtCreate", ltDestroy: "cublasLtDestroy", ltGetStatusName: "cublasLtGetStatusName",
	ltMatmul: "cublasLtMatmul", ltMatmulAlgoCheck: "cublasLtMatmulAlgoCheck",
	ltMatmulAlgoGetHeuristic:       "cublasLtMatmulAlgoGetHeuristic",
	ltMatmulDescCreate:             "cublasLtMatmulDescCreate",
	ltMatmulDescDestroy:            "cublasLtMatmulDescDestroy",
	ltMatmulDescSetAttribute:       "cublasLtMatmulDescSetAttribute",
	ltMatmulPreferenceCreate:       "cublasLtMatmulPreferenceCreate",
	ltMatmulPreferenceDestroy:      "cublasLtMatmulPreferenceDestroy",
	ltMatmulPreferenceSetAttribute: "cublasLtMatmulPreferenceSetAttribute",
	ltMatrixLayoutCreate:           "cublasLtMatrixLayoutCreate",
	ltMatrixLayoutDestroy:          "cublasLtMatrixLayoutDestroy",
	ltMatrixLayoutSetAttribute:     "cublasLtMatrixLayoutSetAttribute",
}

// Values of cublasLt.h and library_types.h.
const (
	ltReal32, ltBfloat16 = 0, 14 // cudaDataType_t
	ltCompute32          = 68    // cublasComputeType_t: float32 sums
	ltTransposed         = 1     // cublasOperation_t

	ltTransA, ltEpilogue, ltBiasPointer = 3, 7, 8 // attributes of a product
	ltColumns                           = 3       // attribute of a layout
	ltMaxWorkspace, ltReductions        = 1, 3    // attributes of a preference

	ltEpilogueNone, ltEpilogueReLU, ltEpilogueBias, ltEpilogueGELU = 1, 2, 4, 32
)

const (
	ltWorkspace = 32 << 20 // NVIDIA's recommendation for Hopper
	// rows for which the algorithm is chosen, whatever number it will run with
	ltRows     = 4096
	ltMostRows = 1 << 17 // most rows that it is checked for beforehand
)

// lt is NVIDIA's library of matrix products. Callers of its methods hold the backend's lock.
type lt struct {
	functions [ltCount]uintptr
	handle    uintptr
	workspace devicePtr
	products  map[ltKey]*ltProduct
	out       uintptr // memory for results of calls
}

// ltKey has everything that decides the choice of an algorithm.
type ltKey struct {
	out, stride int // stride: numbers of a padded row
	act         backend.Activation
	bias, add   bool
}

// ltProduct computes products y = act(x w^T + bias), or y += that, of one shape with any number of
// rows. The library stores matrices by columns, so for it the product is y^T [out, rows] = w^T'
// x^T.
type ltProduct struct {
	l             *lt
	desc, w, x, y uintptr // descriptors
	found         ltHeuristic
	alpha, beta   float32
	attribute     uint64 // the attribute being set
}

// ltHeuristic is cublasLtMatmulHeuristicResult_t.
type ltHeuristic struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	waves     float32
	reserved  [4]int32
}

// openLt opens the library named in the options, if there is one.
func (b *Backend) openLt(o Options) (err error) {
	if name := cmp.Or(o.CuBLASLt, os.Getenv(CuBLASLtVariable)); name != "" && name != "none" {
		b.products.lt, err = b.loadLt(name)
	}
	return err
}

func (b *Backend) loadLt(path string) (*lt, error) {
	library, err := openLibrary(path)
	if err != nil {
		return nil, fmt.Errorf("no cuBLASLt: %w", err)
	}
	l := &lt{products: map[ltKey]*ltProduct{}}
	for f, name := range ltNames {
		if l.functions[f], err = purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("%s has no %s, want cuBLAS 12 or 13", path, name)
		}
	}
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	if err := l.call(ltCreate, uintptr(unsafe.Pointer(&l.out))); err != nil {
		return nil, err
	}
	l.handle = l.out
	l.workspace, err = b.arena.allocate(ltWorkspace)
	return l, err
}

// call calls f.
//
//go:uintptrescapes
func (l *lt) call(f ltFunction, args ...uintptr) error {
	code, _, _ := purego.SyscallN(l.functions[f], args...)
	if int32(code) == 0 {
		return nil
	}
	text, _, _ := purego.SyscallN(l.functions[ltGetStatusName], code)
	return &backend.DeviceError{Call: ltNames[f], Code: int(int32(code)),
		Name: goString(*(**byte)(unsafe.Pointer(&text)))}
}

// close frees everything that the library made.
func (l *lt) close() error {
	if l == nil {
		return nil
	}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, p := range l.products {
		note(p.close())
	}
	note(l.call(ltDestroy, l.handle))
	return first
}

// productLt returns the library's product of this shape, or nil if it cannot be used: because it
// does not have the activation, or has no algorithm for some number of rows. The answer does not
// depend on the rows of this call, so a row's bits do not either.
func (b *Backend) productLt(m *matrix, bias devicePtr, act backend.Activation,
	add bool) *ltProduct {
	l := b.products.lt
	if _, has := ltEpilogues[act]; l == nil || m.as != backend.BF16 || !has ||
		add && act != backend.Identity {
		return nil
	}
	must(b.enter())
	defer b.leave()
	key := ltKey{m.out, m.stride / 2, act, bias != 0, add}
	p, ok := l.products[key]
	if !ok {
		var err error
		p, err = l.plan(key)
		must(err)
		l.products[key] = p
	}
	return p
}

// plan describes a product and chooses its algorithm. It returns nil if there is no algorithm that
// works for all numbers of rows.
func (l *lt) plan(k ltKey) (*ltProduct, error) {
	p := &ltProduct{l: l, alpha: 1}
	if k.add {
		p.beta = 1
	}
	err := p.describe(k)
	found := false
	if err == nil {
		found, err = p.choose()
	}
	if err != nil || !found || !p.canAll() {
		p.close()
		return nil, err
	}
	return p, nil
}

// describe creates the descriptors.
func (p *ltProduct) describe(k ltKey) error {
	epilogue := ltEpilogues[k.act]
	if k.bias {
		epilogue |= ltEpilogueBias
	}
	if err := p.l.create(&p.desc, ltMatmulDescCreate, ltCompute32, ltReal32); err != nil {
		return err
	}
	if err := p.set(ltMatmulDescSetAttribute, p.desc, ltTransA, ltTransposed, 4); err != nil {
		return err
	}
	if err := p.set(ltMatmulDescSetAttribute, p.desc, ltEpilogue, max(epilogue, ltEpilogueNone),
		4); err != nil {
		return err
	}
	if k.bias { // any address, so that the attribute is set when algorithms are requested
		if err := p.set(ltMatmulDescSetAttribute, p.desc, ltBiasPointer, uint64(p.l.workspace),
			8); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		to             *uintptr
		kind           uintptr
		rows, cols, ld int
	}{{&p.w, ltBfloat16, k.stride, k.out, k.stride}, {&p.x, ltBfloat16, k.stride, ltRows, k.stride},
		{&p.y, ltReal32, k.out, ltRows, k.out}} {
		if err := p.l.create(d.to, ltMatrixLayoutCreate, d.kind, uintptr(d.rows), uintptr(d.cols),
			uintptr(d.ld)); err != nil {
			return err
		}
	}
	return nil
}

// ltEpilogues are the epilogues of the activations that the library has. Its GELU is the tanh form.
var ltEpilogues = map[backend.Activation]uint64{backend.Identity: 0,
	backend.GELUTanh: ltEpilogueGELU, backend.ReLU: ltEpilogueReLU}

// create creates a descriptor.
func (l *lt) create(to *uintptr, f ltFunction, args ...uintptr) error {
	l.out = 0
	err := l.call(f, append([]uintptr{uintptr(unsafe.Pointer(&l.out))}, args...)...)
	*to = l.out
	return err
}

// set sets an attribute of `bytes` bytes.
func (p *ltProduct) set(f ltFunction, descriptor, attribute uintptr, value uint64,
	bytes uintptr) error {
	p.attribute = value
	return p.l.call(f, descriptor, attribute, uintptr(unsafe.Pointer(&p.attribute)), bytes)
}

// choose requests the best algorithm. It must not split the depth among blocks, because the order
// of a sum would then depend on the rows.
func (p *ltProduct) choose() (found bool, err error) {
	var preference uintptr
	if err := p.l.create(&preference, ltMatmulPreferenceCreate); err != nil {
		return false, err
	}
	defer p.l.call(ltMatmulPreferenceDestroy, preference)
	if err := p.set(ltMatmulPreferenceSetAttribute, preference, ltMaxWorkspace, ltWorkspace,
		8); err != nil {
		return false, err
	}
	if err := p.set(ltMatmulPreferenceSetAttribute, preference, ltReductions, 0, 4); err != nil {
		return false, err
	}
	n := new(int32)
	err = p.l.call(ltMatmulAlgoGetHeuristic, p.l.handle, p.desc, p.w, p.x, p.y, p.y, preference, 1,
		uintptr(unsafe.Pointer(&p.found)), uintptr(unsafe.Pointer(n)))
	if e, ok := err.(*backend.DeviceError); ok && e.Code == ltNotSupported {
		return false, nil
	}
	return *n > 0 && p.found.state == 0, err
}

const ltNotSupported = 15

// canAll reports whether the algorithm works for all numbers of rows, as far as this can be
// checked: for the smallest, and around each power of two.
func (p *ltProduct) canAll() bool {
	for n := 1; n <= ltMostRows; n *= 2 {
		for _, rows := range [...]int{n, n + 1, 2*n - 1} {
			if !p.can(rows) {
				return false
			}
		}
	}
	return true
}

func (p *ltProduct) can(rows int) bool {
	var result ltHeuristic
	return p.rows(rows) == nil && p.l.call(ltMatmulAlgoCheck, p.l.handle, p.desc, p.w, p.x, p.y, p.y,
		uintptr(unsafe.Pointer(&p.found.algorithm)), uintptr(unsafe.Pointer(&result))) == nil &&
		result.workspace <= ltWorkspace
}

func (p *ltProduct) rows(n int) error {
	if err := p.set(ltMatrixLayoutSetAttribute, p.x, ltColumns, uint64(n), 8); err != nil {
		return err
	}
	return p.set(ltMatrixLayoutSetAttribute, p.y, ltColumns, uint64(n), 8)
}

// enqueue computes a product on a stream: dst, x, w, bias, rows. If the library now refuses a
// number of rows that it accepted beforehand, the pass ends with its error, because this package's
// kernels would give other bits.
func (p *ltProduct) enqueue(stream uintptr, params []uint64) error {
	dst, x, w, bias, rows := uintptr(params[0]), uintptr(params[1]), uintptr(params[2]), params[3],
		int(params[4])
	if err := p.rows(rows); err != nil {
		return err
	}
	if bias != 0 {
		if err := p.set(ltMatmulDescSetAttribute, p.desc, ltBiasPointer, bias, 8); err != nil {
			return err
		}
	}
	err := p.l.call(ltMatmul, p.l.handle, p.desc, uintptr(unsafe.Pointer(&p.alpha)), w, p.w, x, p.x,
		uintptr(unsafe.Pointer(&p.beta)),
		dst, p.y, dst, p.y, uintptr(unsafe.Pointer(&p.found.algorithm)), uintptr(p.l.workspace),
		ltWorkspace, stream)
	runtime.KeepAlive(p)
	return err
}

// close frees the descriptors.
func (p *ltProduct) close() error {
	if p == nil {
		return nil
	}
	var first error
	for _, d := range []struct {
		f  ltFunction
		at *uintptr
	}{{ltMatmulDescDestroy, &p.desc}, {ltMatrixLayoutDestroy, &p.w}, {ltMatrixLayoutDestroy, &p.x},
		{ltMatrixLayoutDestroy, &p.y}} {
		if *d.at == 0 {
			continue
		}
		if err := p.l.call(d.f, *d.at); first == nil {
			first = err
		}
		*d.at = 0
	}
	return first
}
