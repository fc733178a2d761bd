package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// maxWait bounds what scripts wait for. Nothing takes as long unless it hangs.
const maxWait = 2 * time.Minute

// eventually returns when is reports true; after maxWait it ends the program with an error.
func eventually(what string, is func() bool) {
	for deadline := time.Now().Add(maxWait); time.Now().Before(deadline); {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(os.Stderr, "after %v there is no %s\n", maxWait, what)
	os.Exit(1)
}

// await returns once there is a file that matches all patterns: await GLOB|GLOB... PATTERN... A
// hidden file of an output shows that its run has begun, and so that it handles signals.
func await() {
	eventually(fmt.Sprintf("%s with %q", os.Args[1], os.Args[2:]), func() bool {
		for glob := range strings.SplitSeq(os.Args[1], "|") {
			names, _ := filepath.Glob(glob)
			for _, name := range names {
				if data, err := os.ReadFile(name); err == nil && matches(data, os.Args[2:]) {
					return true
				}
			}
		}
		return false
	})
}

func matches(data []byte, patterns []string) bool {
	for _, p := range patterns {
		if !regexp.MustCompile(p).Match(data) {
			return false
		}
	}
	return true
}

// holdVariable makes the sampler held known to the programs of a script. With N,FILE a program
// waits in it after N steps until the file is there; with any other value no program waits. So a
// hub leaves outputs to workers, however late they join.
const holdVariable = "UNMASK_TEST_HOLD"

// held opens positions in a random order, when it may.
type held struct{}

var (
	holdSteps atomic.Int64
	holdFile  string
)

// registerHeld makes held known if the variable is set.
func registerHeld() {
	value := os.Getenv(holdVariable)
	if value == "" {
		return
	}
	if steps, file, ok := strings.Cut(value, ","); ok {
		n, err := strconv.Atoi(steps)
		if err != nil {
			panic(err)
		}
		holdSteps.Store(int64(n))
		holdFile = file
	}
	samplers.Register(samplers.Rule{Prototype: held{}, Name: "held", Line: "random, when it may",
		Paper: "a test"})
}

// Needs implements samplers.Order.
func (held) Needs(int, int) samplers.Need { return samplers.Need{} }

// Rank implements samplers.Order.
func (held) Rank(v *samplers.View, k int) []int {
	if holdFile != "" && holdSteps.Add(-1) < 0 {
		eventually(holdFile, func() bool { _, err := os.Stat(holdFile); return err == nil })
	}
	return v.Top(k, v.Uniform)
}

// String returns the text that samplers.Parse reads.
func (h held) String() string { return samplers.Text(h) }

// freeAddress returns an address at which nobody listens. Its port is below those that systems
// choose themselves, so that no other program gets it by chance.
func freeAddress(t *testing.T, from int) string {
	for port := from + os.Getpid()%1000*10; ; port++ {
		require.Less(t, port, 32000, "no port is free")
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
}
