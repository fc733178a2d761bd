// Package simd chooses the instruction set that the kernels in its subpackages use.
//
// Names, as in Options and the environment variable UNMASK_ISA:
//
//	avx512     AVX-512 F, BW, DQ and VL, with BF16 and VNNI where the processor has them;
//	           avx512-nobf16, avx512-novnni and avx512-nobf16-novnni leave those out
//	avx2-vnni  AVX2 and FMA with AVX-VNNI, which laptops without AVX-512 have
//	avx2       AVX2 and FMA
//	neon       arm64, with SDOT where the processor has it; neon-nodot leaves that out
//	generic    plain Go
package simd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// ISA is an instruction set.
type ISA uint8

// The instruction sets that there are kernels for.
const (
	Generic ISA = iota
	NEON
	AVX2
	AVX512
)

// Level is an instruction set and its extensions.
type Level struct {
	ISA
	BF16 bool // AVX512_BF16, which has VDPBF16PS
	VNNI bool // AVX512_VNNI or AVX-VNNI, which have VPDPBUSD
	Dot  bool // FEAT_DotProd, which has SDOT
}

// Variable is the environment variable that chooses when a program does not.
const Variable = "UNMASK_ISA"

var names = [...]string{Generic: "generic", NEON: "neon", AVX2: "avx2", AVX512: "avx512"}

// String returns the name that Select takes.
func (l Level) String() string {
	name := names[l.ISA]
	if l.ISA == AVX512 && !l.BF16 {
		name += "-nobf16"
	}
	if l.ISA == AVX512 && !l.VNNI {
		name += "-novnni"
	}
	if l.ISA == AVX2 && l.VNNI {
		name += "-vnni"
	}
	if l.ISA == NEON && !l.Dot {
		name += "-nodot"
	}
	return name
}

// Available lists what this processor and build can run, the best first, Generic last.
func Available() []Level {
	best, hasAVXVNNI := detect()
	var all []Level
	if best.ISA == AVX512 {
		levels := []Level{
			{ISA: AVX512, BF16: true, VNNI: true},
			{ISA: AVX512, VNNI: true},
			{ISA: AVX512, BF16: true},
			{ISA: AVX512},
		}
		for _, l := range levels {
			if (best.BF16 || !l.BF16) && (best.VNNI || !l.VNNI) {
				all = append(all, l)
			}
		}
		best.ISA = AVX2
	}
	if best.Dot {
		all = append(all, best)
	}
	if hasAVXVNNI {
		all = append(all, Level{ISA: AVX2, VNNI: true})
	}
	if best.ISA != Generic {
		all = append(all, Level{ISA: best.ISA})
	}
	return append(all, Level{})
}

// Select returns the level of a name. An empty name means that of UNMASK_ISA, and when that
// is empty too, the best.
func Select(name string) (Level, error) {
	levels := Available()
	source := "instruction set"
	if name == "" {
		source = Variable
		name = os.Getenv(Variable)
	}
	if i := slices.IndexFunc(levels, func(l Level) bool { return l.String() == name }); i >= 0 {
		return levels[i], nil
	}
	if name == "" || name == levels[0].ISA.String() {
		return levels[0], nil
	}
	available := make([]string, len(levels))
	for i, l := range levels {
		available[i] = l.String()
	}
	return Level{}, fmt.Errorf("%s is %q, this processor and build have %s", source, name,
		strings.Join(available, ", "))
}

// Default is the level of UNMASK_ISA, or else the best, for kernels that belong to no device. A
// name that Select refuses is for a device to report, and means plain Go here.
var Default = sync.OnceValue(func() Level {
	l, _ := Select("")
	return l
})

// String returns the name without extensions.
func (i ISA) String() string { return names[i] }
