// Package fakecuda builds a driver library for tests of package cuda without a GPU. It runs the
// kernels' sources on the processor, counts calls, and fails on command; see library/driver.cpp.
package fakecuda

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
)

// TestGPU is an environment variable: with 1, tests that can use a GPU use the first one; with 0
// they use an emulated one. By default they use a GPU if the system has one.
const TestGPU = "UNMASK_TEST_GPU"

// UsesGPU reports whether tests that can use a GPU should use one.
func UsesGPU() bool {
	switch os.Getenv(TestGPU) {
	case "1":
		return true
	case "0":
		return false
	}
	// the devices of Linux, and of Linux under Windows
	for _, device := range []string{"/dev/nvidiactl", "/dev/dxg"} {
		if _, err := os.Stat(device); err == nil {
			return true
		}
	}
	return false
}

// DriverPath returns the path of the driver library for a test: "" means the system's, if UsesGPU,
// and otherwise it is BuildLibrary's.
func DriverPath(t testing.TB) string {
	t.Helper()
	if UsesGPU() {
		return ""
	}
	return BuildLibrary(t)
}

// BuildLibrary returns the path of a driver library that only this test uses, so that no other test
// sees its calls, failures or memory. It skips the test if there is no C++ compiler, or if the
// kernels' sources are missing.
func BuildLibrary(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("package cuda is for Linux on amd64 and arm64")
	}
	compiler := findCompiler()
	if compiler == "" {
		t.Skip("no C++ compiler: the driver library that stands for a GPU's is C++")
	}
	root := findRoot()
	if root == "" {
		t.Skip("the kernels' sources are not here")
	}
	data, err := os.ReadFile(compileLibrary(t, compiler, root))
	require.NoError(t, err)
	library := filepath.Join(t.TempDir(), "libcuda.so.1") // a copy is loaded separately
	require.NoError(t, os.WriteFile(library, data, 0o755))
	return library
}

// findCompiler returns the path of $CXX, c++ or g++, "" if there is none.
func findCompiler() string {
	for _, name := range []string{os.Getenv("CXX"), "c++", "g++"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// flags are the compiler's. Kernels are nearly as fast as with -O3, and compiled in half the time;
// products and sums are fused only where the kernels say so, as nvcc does for them; warnings about
// kernels are left to nvcc; only the API's symbols are exported, so that several libraries do not
// share variables.
var flags = []string{"-std=c++17", "-O1", "-fpeel-loops", "-ftree-slp-vectorize", "-march=native",
	"-fno-strict-aliasing", "-ffp-contract=off", "-fPIC", "-shared", "-pthread",
	"-fvisibility=hidden", "-fvisibility-inlines-hidden", "-U_FORTIFY_SOURCE", "-w"}

// findRoot returns the root of the module, above the working directory, which is a test's package.
// It is "" if there is none.
func findRoot() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "internal", "fakecuda", "library",
			"driver.cpp")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return ""
}

// compileLibrary compiles the library, unless that was done for the same sources, compiler and
// processor, and returns its path.
func compileLibrary(t testing.TB, compiler, root string) string {
	t.Helper()
	driver := filepath.Join(root, "internal", "fakecuda", "library")
	kernels := filepath.Join(root, "backend", "cuda", "kernels")
	sum := sha256.New()
	fmt.Fprintln(sum, compiler, flags, processorFlags())
	for _, pattern := range []string{filepath.Join(kernels, "*.cu"), filepath.Join(kernels, "*.cuh"),
		filepath.Join(kernels, "*.h"), filepath.Join(driver, "*.cpp")} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(data), data)
		}
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "unmask-fakecuda")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	// tests of other packages may compile the same library
	lock := flock.New(filepath.Join(dir, "lock"))
	require.NoError(t, lock.Lock())
	defer lock.Close()
	target := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)[:12])+".so")
	if _, err := os.Stat(target); err == nil {
		return target
	}
	removeOld(dir)
	args := append(slices.Clone(flags), "-I", kernels, "-o", target+".part",
		filepath.Join(driver, "driver.cpp"))
	out, err := exec.Command(compiler, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", compiler, args, out)
	require.NoError(t, os.Rename(target+".part", target))
	return target
}

// processorFlags returns the processor's abilities, on which -march=native depends: several
// machines may share a home directory.
func processorFlags() string {
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

// removeOld removes libraries that were compiled more than a week ago, of earlier sources.
func removeOld(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*.so*"))
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.Remove(name) // another test may have removed it
		}
	}
}
