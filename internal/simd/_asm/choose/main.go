// Command choose writes the methods of a package, internal/simd/vec or screen, that choose between
// assembly and plain Go: one for each kernel, for amd64, arm64 or, with another -arch, for other
// processors.
//
//	go run ./choose -pkg vec -arch amd64 -out ../vec/kernels_amd64.go
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"strings"
)

// sets are the instruction sets of a processor, as their assembly is named.
var sets = map[string][]string{"amd64": {"AVX512", "AVX2"}, "arm64": {"NEON"}}

// kernel is a method of Ops or of Panel. Its plain Go twin has the name and parameters of the
// method, its assembly the name followed by an instruction set.
type kernel struct {
	name    string
	params  string
	results string

	// args are the arguments of the assembly.
	args string

	// prepare are statements before the call, which args need.
	prepare string

	// only is the one instruction set with assembly, "" if all have it.
	only string
}

// functions are those of one loop over elements, by their names in package vec.
var functions = []string{"exp", "geluTanh", "geluErf", "silu", "sinSquared", "relu", "add",
	"multiply", "maximum"}

// ops are the methods of Ops.
var ops = []kernel{
	{name: "sum", params: "x []float32", results: "float32", args: "at(x), len(x)"},
	{name: "sumSquares", params: "x []float32, mean float32", results: "float32",
		args: "at(x), len(x), mean"},
	{name: "normalize", params: "dst, x, scale, shift []float32, mean, inverse float32",
		prepare: "a, as := constant(scale, &ones)\nb, bs := constant(shift, &zeros)",
		args:    "at(dst), at(x), a, b, as, bs, len(x), mean, inverse"},
	{name: "logits", params: "x, bias []float32, scale float32", results: "float32",
		prepare: "b, step := constant(bias, &zeros)", args: "at(x), b, step, len(x), scale"},
	{name: "sumExp", params: "x []float32, c, top float32", results: "float32",
		args: "at(x), len(x), c, top"},
	{name: "sumExps", params: "x []float32, c, top float32", results: "(float32, float32)",
		args: "at(x), len(x), c, top"},
	{name: "sumExpDot", params: "x []float32, top float32", results: "(float32, float32)",
		args: "at(x), len(x), top"},
	{name: "leaders", params: "x []float32, top float32",
		results: "(second float32, count, first int)", args: "at(x), len(x), top"},
	{name: "weights", params: "dst, x []float32, c, top float32",
		args: "at(dst), at(x), len(x), c, top"},
	{name: "modulate", params: "x, scale, shift []float32",
		args: "at(x), at(scale), at(shift), len(x)"},
	{name: "affine", params: "dst, x, scale, shift []float32, pixels int",
		args: "at(dst), at(x), at(scale), at(shift), len(scale), pixels"},
	{name: "mulAdd", params: "dst, x, y []float32", args: "at(dst), at(x), at(y), len(dst)"},
	{name: "rotate", params: "dst, x, cos, sin []float32",
		args: "at(dst), at(x), at(cos), at(sin), len(cos)"},
	{name: "columnSums", params: "dst, x []float32, stride, pixels int",
		args: "at(dst), at(x), 4*stride, pixels"},
	{name: "columnSquares", params: "dst, x, mean []float32, stride, pixels int",
		args: "at(dst), at(x), at(mean), 4*stride, pixels"},
	{name: "transpose",
		params: "dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep, srcStep, blocks int",
		args:   "at(dst), at(src), &scale[0], 4*dstStride, 4*srcStride, 4*dstStep, 4*srcStep, blocks"},
	{name: "pairBF16", params: "dst, x []float32, pairs, width int", only: "AVX512",
		args: "at(dst), at(x), pairs, width/line"},
	{name: "fixRows", params: "dst, scale, x []float32, rows, dim int, limit, unit float32",
		args: "at(dst), at(scale), at(x), rows, dim/line, limit, unit", only: "AVX512"},
	{name: "fixLanes", params: "dst, scale, x []float32, pairs, lanes int, limit, unit float32",
		args: "at(dst), at(scale), at(x), pairs, 4*lanes, limit, unit", only: "AVX512"},
	{name: "softmaxFixed", params: "s, scale, top, sum, alpha []float32, pairs, lanes int",
		args: "at(s), at(scale), at(top), at(sum), at(alpha), pairs, 4*lanes", only: "AVX512"},
}

// panels are the methods of Panel, whose assembly has a name for each number of registers. Their
// twins have the lanes instead of next.
var panels = []kernel{
	{name: "scores", params: "s, k, q []float32, keys, dim int, next uintptr",
		args: "at(s), at(k), at(q), keys, dim, next"},
	{name: "softmax", params: "s, top, sum, alpha []float32, keys int",
		args: "at(s), at(top), at(sum), at(alpha), keys"},
	{name: "values", params: "o, v, s, alpha []float32, keys, dim int, next uintptr",
		args: "at(o), at(v), at(s), at(alpha), keys, dim, next"},
	{name: "valuesBF16", params: "o, v, s, alpha []float32, pairs, dim int, next uintptr",
		args: "at(o), at(v), at(s), at(alpha), pairs, dim, next", only: "AVX512"},
	{name: "scoresFixed", params: "s, k, scale, q []float32, keys, words int, next uintptr",
		args: "at(s), at(k), at(scale), at(q), keys, words, next", only: "AVX512"},
}

// widths are the names of panels by their number of registers.
var widths = []string{1: "Narrow", 2: "Middle", 3: "Wide"}

// screens are the methods of package screen's Ops.
var screens = []kernel{
	{name: "above", params: "s *Set, first int, x []float32, least float32",
		args: "s.from(first), &x[0], least, len(x)"},
	{name: "race",
		params: "s *Set, first int, x []float32, words *[Size / 4][4]uint32, least float32",
		args:   "s.from(first), &x[0], &words[first/4][0], least, len(x)"},
}

// packages are what each package has.
var packages = map[string]struct {
	functions   []string
	ops, panels []kernel
}{"vec": {functions, ops, panels}, "screen": {nil, screens, nil}}

func main() {
	pkg := flag.String("pkg", "vec", "vec or screen")
	arch := flag.String("arch", "", "amd64, arm64, or neither for other processors")
	out := flag.String("out", "", "the file")
	flag.Parse()
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by command: go run ./choose %s. DO NOT EDIT.\n\n",
		strings.Join(os.Args[1:], " "))
	if instructionSets := sets[*arch]; instructionSets != nil {
		fmt.Fprintf(&b, "//go:build %s && !purego\n\npackage %s\n\nimport \"unmask/internal/simd\"\n",
			*arch, *pkg)
		for _, set := range instructionSets {
			fmt.Fprintf(&b, "const %s = Ops(simd.%s)\n", strings.ToLower(set), set)
		}
	} else {
		fmt.Fprintf(&b, "//go:build (!amd64 && !arm64) || purego\n\npackage %s\n", *pkg)
	}
	kernels := packages[*pkg]
	if kernels.functions != nil {
		writeApply(&b, kernels.functions, sets[*arch])
	}
	for _, k := range kernels.ops {
		k.writeMethod(&b, sets[*arch], "o Ops", "", func(set string) []string {
			return []string{strings.ToLower(set), k.name + set}
		})
	}
	for _, k := range kernels.panels {
		k.writeMethod(&b, sets[*arch], "p Panel", ", p.Lanes()", func(set string) (cases []string) {
			for n := 3; n > 0; n-- {
				if set == "AVX512" || n != 2 {
					cases = append(cases, fmt.Sprintf("Panel{%s, %d}", strings.ToLower(set), n),
						k.name+widths[n]+set)
				}
			}
			return cases
		})
	}
	text, err := format.Source(b.Bytes())
	if err == nil {
		err = os.WriteFile(*out, text, 0o666)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// writeMethod writes a method for a processor with some instruction sets. cases returns values of
// the receiver, each with the assembly to call; extra are arguments that only the twin has.
func (k kernel) writeMethod(b *bytes.Buffer, instructionSets []string, receiver, extra string,
	cases func(set string) []string) {
	fmt.Fprintf(b, "\nfunc (%s) %s(%s) %s {\n", receiver, k.name, k.params, k.results)
	result := ""
	if k.results != "" {
		result = "return "
	}
	var list []string
	for _, set := range instructionSets {
		if k.only == "" || k.only == set {
			list = append(list, cases(set)...)
		}
	}
	var names []string
	for _, p := range strings.Split(k.params, ", ") {
		if name, _, _ := strings.Cut(p, " "); name != "next" {
			names = append(names, name)
		}
	}
	plain := result + k.name + "(" + strings.Join(names, ", ") + extra + ")\n"
	if list == nil {
		b.WriteString(plain + "}\n")
		return
	}
	if k.prepare != "" {
		b.WriteString(k.prepare + "\n")
	}
	fmt.Fprintf(b, "switch %c {\n", receiver[0])
	for i := 0; i < len(list); i += 2 {
		fmt.Fprintf(b, "case %s:\n%s%s(%s)\n", list[i], result, list[i+1], k.args)
	}
	fmt.Fprintf(b, "default:\n%s}\n}\n", plain)
}

// writeApply writes the method that applies one of the functions to each element. The choice of the
// instruction set is outside that of the function, because it is the same at every call.
func writeApply(b *bytes.Buffer, functions, instructionSets []string) {
	b.WriteString("\nfunc (o Ops) apply(f function, dst, x []float32) {\n")
	for _, set := range instructionSets {
		fmt.Fprintf(b, "if o == %s {\nswitch f {\n", strings.ToLower(set))
		for _, name := range functions {
			fmt.Fprintf(b, "case of%s%s:\n%s%s(at(dst), at(x), len(dst))\n", strings.ToUpper(name[:1]),
				name[1:], name, set)
		}
		b.WriteString("}\nreturn\n}\n")
	}
	b.WriteString("apply(f, dst, x)\n}\n")
}
