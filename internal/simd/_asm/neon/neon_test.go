package neon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var wordLine = regexp.MustCompile(`WORD \$(0x[0-9a-f]{8}) // (.*)`)

// TestWords holds the words to binutils' assembler, given their comments: each instruction with
// some registers, and all of the generated files.
func TestWords(t *testing.T) {
	if _, err := exec.LookPath("aarch64-linux-gnu-as"); err != nil {
		t.Skip("needs binutils-aarch64-linux-gnu")
	}
	var text strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		text.WriteString(everyWord(r))
	}
	var files []string
	for _, pattern := range []string{"../../*/*_arm64.s", "../../../philox/*_arm64.s",
		"../../../../bench/internal/ceiling/*_arm64.s"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal("no generated files", pattern, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	found := wordLine.FindAllStringSubmatch(text.String(), -1)
	var source strings.Builder
	for _, m := range found {
		fmt.Fprintln(&source, m[2])
	}
	code := assemble(t, source.String())
	if len(code) != 4*len(found) {
		t.Fatalf("%d bytes of %d instructions", len(code), len(found))
	}
	for i, m := range found {
		want := binary.LittleEndian.Uint32(code[4*i:])
		if got, _ := strconv.ParseUint(m[1], 0, 32); uint32(got) != want {
			t.Errorf("%s is %#08x, not %#08x", m[2], want, got)
		}
	}
}

// everyWord has every instruction that is a word, with random registers.
func everyWord(r *rand.Rand) string {
	f := &Func{}
	v := func() V { return V(r.IntN(32)) }
	for _, two := range []func(*Func, V, V) V{(*Func).FAdd, (*Func).FSub, (*Func).FMul, (*Func).FDiv,
		(*Func).FMax, (*Func).FMin, (*Func).Greater, (*Func).Equal, (*Func).AndNot, (*Func).Narrow,
		(*Func).NarrowBytes} {
		two(f, v(), v())
	}
	for _, one := range []func(*Func, V) V{(*Func).FAbs, (*Func).FNeg, (*Func).Round, (*Func).Float,
		(*Func).FNegative, (*Func).Negative} {
		one(f, v())
	}
	f.Widen(v())
	for _, high := range []bool{false, true} {
		f.SMull(high, v(), v())
		f.SMlal(high, v(), v(), v())
		f.UMull(high, v(), v())
	}
	f.SAdalp(v(), v())
	for i := range 4 {
		f.FMLAElement(v(), v(), v(), i)
		f.SDotElement(v(), v(), v(), i)
	}
	f.SRight(v(), 1+r.IntN(32))
	return f.text()
}

func assemble(t *testing.T, source string) []byte {
	t.Helper()
	object := filepath.Join(t.TempDir(), "words.o")
	as := exec.Command("aarch64-linux-gnu-as", "-march=armv8.2-a+dotprod", "-o", object)
	as.Stdin = strings.NewReader(source)
	if out, err := as.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary := object + ".bin"
	if out, err := exec.Command("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", object,
		binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestRegistersInLoops: what a loop reads keeps its register until the loop ends.
func TestRegistersInLoops(t *testing.T) {
	f := &Func{}
	kept, before := f.V(), f.V()
	f.Zero(kept)
	f.Zero(before)
	f.Label("outer")
	f.Label("inner")
	f.AddTo(before, kept) // the last use of both
	f.Branch("NE", "inner")
	within := f.V()
	f.Zero(within)
	f.Branch("NE", "outer")
	after := f.V()
	f.Zero(after)
	n := f.allocate()
	if n[within] == n[kept] || n[within] == n[before] || n[kept] == n[before] {
		t.Errorf("a register has two values in a loop: %v", n)
	}
	if n[after] != n[kept] {
		t.Errorf("V%d is not free again after the loop: V%d", n[kept], n[after])
	}
}

func TestTooManyRegisters(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("33 registers fit")
		}
	}()
	f := &Func{}
	v := f.Vs(33)
	for range 2 {
		for _, v := range v {
			f.AddTo(v, v)
		}
	}
	f.allocate()
}

func TestLayout(t *testing.T) {
	f := &Func{offsets: map[string]int{}}
	size := f.layout("(x, y *float32, n int, c, top float32) (s, t float32)")
	var b bytes.Buffer
	for _, name := range []string{"x", "y", "n", "c", "top", "s", "t"} {
		fmt.Fprint(&b, f.offsets[name], " ")
	}
	if b.String() != "0 8 16 24 28 32 36 " || size != 40 || len(f.results) != 2 {
		t.Error(b.String(), size, f.results)
	}
}
