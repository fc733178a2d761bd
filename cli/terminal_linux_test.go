package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"unmask/internal/screen"
)

// TestTerminal runs commands on a terminal; testdata/terminal has the scripts.
func TestTerminal(t *testing.T) {
	if f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		t.Skip("no pseudoterminals here")
	} else {
		f.Close()
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/terminal",
		Setup: func(e *testscript.Env) error { e.Setenv("TERM", "xterm"); return nil },
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"terminal": onTerminal}})
}

// onTerminal runs a command on a terminal of this size and writes what the screen shows at the end
// to a file: terminal COLUMNS ROWS FILE COMMAND...
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	var size unix.Winsize
	if _, err := fmt.Sscan(args[0]+" "+args[1], &size.Col, &size.Row); err != nil {
		ts.Fatalf("terminal: %v", err)
	}
	master, slave, err := pseudoterminal(size)
	ts.Check(err)
	defer master.Close()
	path, err := lookPath(ts.Getenv("PATH"), args[3])
	ts.Check(err)
	cmd := exec.Command(path, args[4:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = slave, slave, slave, ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"), "TERM="+ts.Getenv("TERM"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(cmd.Start())
	slave.Close()
	s := screen.New(int(size.Col), int(size.Row))
	if _, err := io.Copy(s, master); !errors.Is(err, syscall.EIO) { // the terminal was closed
		ts.Check(err)
	}
	if err := cmd.Wait(); (err != nil) != neg {
		ts.Fatalf("%v: %v: %s", args[3:], err, s.Text())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(s.Text()+"\n"), 0o644))
}

func lookPath(paths, name string) (string, error) {
	for _, dir := range filepath.SplitList(paths) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func pseudoterminal(size unix.Winsize) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size))
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	return master, slave, err
}
