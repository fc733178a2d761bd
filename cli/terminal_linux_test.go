package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"terminal": onTerminal,
			"types": typing, "demo-model": demoModel}})
}

// onTerminal runs a command on a terminal of this size and writes what the screen shows at the end
// to a file: terminal COLUMNS ROWS FILE COMMAND...
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	var size unix.Winsize
	if _, err := fmt.Sscan(args[0]+" "+args[1], &size.Col, &size.Row); err != nil {
		ts.Fatalf("terminal: %v", err)
	}
	cmd, master := starts(ts, size, args[3:])
	defer master.Close()
	s := screen.New(int(size.Col), int(size.Row))
	if _, err := io.Copy(s, master); !errors.Is(err, syscall.EIO) { // the terminal was closed
		ts.Check(err)
	}
	if err := cmd.Wait(); (err != nil) != neg {
		ts.Fatalf("%v: %v: %s", args[3:], err, s.Text())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(s.Text()+"\n"), 0o644))
}

// starts starts a command on a terminal of this size.
func starts(ts *testscript.TestScript, size unix.Winsize, args []string) (*exec.Cmd, *os.File) {
	master, slave, err := pseudoterminal(size)
	ts.Check(err)
	path, err := lookPath(ts.Getenv("PATH"), args[0])
	ts.Check(err)
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = slave, slave, slave, ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"), "TERM="+ts.Getenv("TERM"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(cmd.Start())
	ts.Check(slave.Close())
	return cmd, master
}

// typing runs a command on a terminal of 80 columns and does what the lines of a file say, in which
// texts are Go strings: wait until the terminal has written a text after what was waited for
// before, type a text, make the terminal as many columns wide, or send the signal of this number,
// which must end the command. What was written goes to a file. In the end the terminal must be in
// its usual mode. types LINES FILE COMMAND...
func typing(ts *testscript.TestScript, _ bool, args []string) {
	cmd, master := starts(ts, unix.Winsize{Col: 80, Row: 24}, args[2:])
	defer master.Close()
	parts := make(chan string)
	go func() {
		defer close(parts)
		for p := make([]byte, 4096); ; {
			n, err := master.Read(p)
			if err != nil { // the terminal was closed
				return
			}
			parts <- string(p[:n])
		}
	}()
	all, seen, status := "", 0, 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		what, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		text, err := strconv.Unquote(text)
		ts.Check(err)
		switch what {
		case "wait":
			late := time.After(time.Minute)
			for !strings.Contains(all[seen:], text) {
				select {
				case part, ok := <-parts:
					if all += part; !ok {
						ts.Fatalf("%q never came after %q", text, all)
					}
				case <-late:
					ts.Fatalf("%q does not come after %q", text, all)
				}
			}
			seen += strings.Index(all[seen:], text) + len(text)
		case "type":
			_, err = master.WriteString(text)
		case "columns":
			columns, wrong := strconv.ParseUint(text, 10, 16)
			err = errors.Join(wrong, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ,
				&unix.Winsize{Col: uint16(columns), Row: 24}))
		case "signal":
			number, wrong := strconv.Atoi(text)
			status = 128 + number
			err = errors.Join(wrong, cmd.Process.Signal(syscall.Signal(number)))
		default:
			ts.Fatalf("unknown line %q", line)
		}
		ts.Check(err)
	}
	for part := range parts {
		all += part
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != status {
		ts.Fatalf("%v: %v: %s", args[2:], err, all)
	}
	mode, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
	ts.Check(err)
	if mode.Lflag&unix.ICANON == 0 || mode.Lflag&unix.ECHO == 0 {
		ts.Fatalf("%v leaves the terminal raw: %s", args[2:], all)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(all), 0o644))
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
