// Command _asm writes the assembly of a package for an architecture, and the declarations of its
// functions:
//
//	go run . vec amd64
package main

import (
	"flag"
	"log"
	"slices"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"

	"unmask/internal/simd/_asm/ceiling"
	"unmask/internal/simd/_asm/gemm"
	"unmask/internal/simd/_asm/neon"
	"unmask/internal/simd/_asm/neongemm"
	"unmask/internal/simd/_asm/philox"
	"unmask/internal/simd/_asm/vec"
)

// packages are the packages with assembly.
var packages = map[string]struct {
	// files is the beginning of the names of their files, from this folder.
	files string

	// amd64 and arm64 write a package's functions.
	amd64 func()
	arm64 func(*neon.File)
}{
	"vec":     {"../vec/vec", vec.AMD64, vec.ARM64},
	"screen":  {"../screen/screen", vec.ScreenAMD64, vec.ScreenARM64},
	"gemm":    {"../gemm/gemm", gemm.AMD64, neongemm.ARM64},
	"philox":  {"../../philox/fill", philox.AMD64, philox.ARM64},
	"ceiling": {"../../../bench/internal/ceiling/ceiling", ceiling.AMD64, ceiling.ARM64},
}

func main() {
	flag.Parse()
	name := flag.Arg(0)
	arch := flag.Arg(1)
	p, ok := packages[name]
	out := p.files + "_" + arch + ".s"
	stubs := p.files + "_" + arch + ".go"
	var err error
	switch {
	case !ok:
		log.Fatalf("package is %q", name)
	case arch == "arm64":
		err = neon.Write(out, stubs, name, p.arm64)
	default:
		for option, value := range map[string]string{"out": out, "stubs": stubs, "pkg": name} {
			if err == nil {
				err = flag.Set(option, value)
			}
		}
		pass.Compile = pass.Concat(pass.Compile, pass.FunctionPass(shorten))
		build.ConstraintExpr("amd64,!purego")
		p.amd64()
		build.Generate()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// shorten drops moves of a vector to itself, which avo does for general registers alone, and prints
// small constants without leading zeros. Both keep the assembly shorter for those who review it.
func shorten(f *ir.Function) error {
	f.Nodes = slices.DeleteFunc(f.Nodes, func(n ir.Node) bool {
		i, ok := n.(*ir.Instruction)
		return ok && i.Opcode == "VMOVAPS" && len(i.Operands) == 2 && i.Operands[0] == i.Operands[1]
	})
	for _, i := range f.Instructions() {
		for n, op := range i.Operands {
			if v, ok := op.(operand.U32); ok && v < 1<<8 {
				i.Operands[n] = operand.U8(v)
			} else if ok && v < 1<<16 {
				i.Operands[n] = operand.U16(v)
			}
		}
	}
	return nil
}
