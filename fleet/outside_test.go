//go:build !nofleet && unix

package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// The same holds with a NATS server that is another process, which is built from its module.
func TestOutsideServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it repeats most tests")
	}
	address := freePort(t)
	_, port, _ := strings.Cut(address, ":")
	config := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(config, []byte("max_payload: 9MB\nhost: 127.0.0.1\nport: "+port+
		"\nauthorization: {user: lab, password: word}\n"), 0o666))
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), "FLEET_PROCESS=server", "FLEET_DIR="+config)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	url := "nats://lab:word@" + address
	for wait := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		conn, err := nats.Connect(url)
		if err == nil {
			conn.Close()
			break
		}
		require.Less(t, time.Since(wait), 5*time.Minute, "%v", err)
	}
	outside = url
	t.Cleanup(func() { outside = "" })
	for name, test := range map[string]func(*testing.T){"run": TestRun,
		"two machines differ": TestTwoMachinesDiffer, "queue": TestFullQueue,
		"disk": TestDiskFull, "refused": TestRefusedWorkers, "second hub": TestSecondHub,
		"slow": TestSlowWorker, "cut off": TestCutOff, "flipped": TestFlippedOnTheWay,
		"duplicates": TestDuplicatesAndReordered, "bad results": TestBadResults,
		"joins": TestJoinFlood, "processes": TestKilledProcesses, "stopped": TestStoppedWorker,
		"clocks": TestClocks, "500 workers": TestManyWorkers} {
		t.Run(name, test)
	}
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		var lanes sync.WaitGroup
		for k := int64(0); k < 40; k += 3 {
			lanes.Go(func() { killedAt(t, "both", k) })
		}
		lanes.Wait()
	})
}
