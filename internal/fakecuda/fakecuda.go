// Package fakecuda builds a driver library for tests of package cuda where there is no GPU. It
// computes what the kernels' sources say, on the processor, counts calls and fails where it is told
// to; see library/driver.cpp.
package fakecuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
)

// TestGPU is an environment variable: 1 has the tests that can use a GPU use the first one, 0 an
// emulated one. Without it they use a GPU where the system shows one.
const TestGPU = "UNMASK_TEST_GPU"

// OnGPU reports whether the tests that can use a GPU are to use one.
func OnGPU() bool {
	switch os.Getenv(TestGPU) {
	case "1":
		return true
	case "0":
		return false
	}
	// of Linux, and of Linux under Windows
	for _, device := range []string{"/dev/nvidiactl", "/dev/dxg"} {
		if _, err := os.Stat(device); err == nil {
			return true
		}
	}
	return false
}

// Driver returns the path of the driver library that a test is to use: "" for the system's where
// OnGPU, and else Build's.
func Driver(t testing.TB) string {
	t.Helper()
	if OnGPU() {
		return ""
	}
	return Build(t)
}

// Build returns the path of a driver library of the test's own: no other test sees its calls, its
// failures or its memory. The test is skipped where there is no C++ compiler, or not the kernels'
// sources.
func Build(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("package cuda is for Linux on amd64 and arm64")
	}
	compiler := compiler()
	if compiler == "" {
		t.Skip("no C++ compiler: the driver library that stands for a GPU's is C++")
	}
	root := sources()
	if root == "" {
		t.Skip("the kernels' sources are not here")
	}
	built, err := compile(compiler, root)
	require.NoError(t, err)
	data, err := os.ReadFile(built)
	require.NoError(t, err)
	own := filepath.Join(t.TempDir(), "libcuda.so.1") // a file of its own is loaded on its own
	require.NoError(t, os.WriteFile(own, data, 0o755))
	return own
}

// compiler returns $CXX, c++ or g++.
func compiler() string {
	for _, name := range []string{os.Getenv("CXX"), "c++", "g++"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// flags: products and sums are fused where the kernels say so and nowhere else, as nvcc does it for
// them; warnings of kernels are nvcc's to give; symbols that are not the API stay inside, so that
// several libraries do not share their variables.
var flags = []string{"-std=c++17", "-O3", "-march=native", "-fno-strict-aliasing",
	"-ffp-contract=off",
	"-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
	"-U_FORTIFY_SOURCE", "-w"}

// sources returns the root of the module, above the working directory, which is a test's package.
// It is "" if there is none.
func sources() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "internal", "fakecuda", "library",
			"driver.cpp")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

// compile compiles the library, unless it was for the same sources.
func compile(compiler, root string) (string, error) {
	here := filepath.Join(root, "internal", "fakecuda")
	kernels := filepath.Join(root, "backend", "cuda", "kernels")
	main := filepath.Join(here, "library", "driver.cpp")
	sum := sha256.New()
	fmt.Fprintln(sum, compiler, flags, processor())
	var parts []string
	for _, pattern := range []string{filepath.Join(kernels, "*.cu"), filepath.Join(kernels, "*.cuh"),
		filepath.Join(kernels, "*.h"),
		filepath.Join(here, "library", "*.cpp")} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		parts = append(parts, names...)
	}
	for _, name := range parts {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(data), data)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "unmask-fakecuda")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, "lock")) // tests of other packages want the same library
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer lock.Close()
	target := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)[:12])+".so")
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	prune(dir)
	args := append(append([]string{}, flags...), "-I", kernels, "-o", target+".part", main)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", compiler, args, err, out)
	}
	return target, os.Rename(target+".part", target)
}

// processor is what the compiler finds out for -march=native: libraries in a home that several
// machines share are not for all of them.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if strings.HasPrefix(line, "flags") || strings.HasPrefix(line, "Features") {
			return line
		}
	}
	return ""
}

// prune removes libraries of sources that have changed since.
func prune(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.so*"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.Remove(name) // or another test has
		}
	}
}
