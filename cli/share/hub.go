//go:build !nofleet

package share

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"unmask/backend/cpu"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/fleet"
	"unmask/internal/buildinfo"
	"unmask/param"
	"unmask/runs/outputs"
)

// Hub lets other machines join a run.
type Hub struct {
	hub  string
	nats string
	log  string

	// keepOpen says that another run follows this one, for which the hub stays open.
	keepOpen bool

	// open is the hub between two runs, nil before the first and after the last.
	open *fleet.Hub

	// watch shows the state of the current run.
	watch func(fleet.Status)
}

// Register adds the flags.
func (h *Hub) Register(f *pflag.FlagSet) {
	f.StringVar(&h.hub, "hub", "",
		"let workers join at this `ADDRESS`, such as 10.0.0.5:4333, and share the run with them")
	f.StringVar(&h.nats, "nats", "", "like --hub, through your own NATS server at this `URL`")
	f.StringVar(&h.log, "log", "text", "a hub's progress as text or json")
}

// Enabled reports whether other machines may join.
func (h *Hub) Enabled() bool { return h.hub != "" || h.nats != "" }

// KeepOpen sets whether another run follows the next one. The hub then stays open after it, so that
// workers need not join again.
func (h *Hub) KeepOpen(another bool) { h.keepOpen = another }

// Close closes a hub that was kept for another run.
func (h *Hub) Close() error {
	if h.open == nil {
		return nil
	}
	err := h.open.Close(true)
	h.open = nil
	return err
}

// Check reads the flags. out reports whether the run has an output, which want describes in errors.
func (h *Hub) Check(f *pflag.FlagSet, s *Shard, out bool, want string) error {
	flag := "--hub"
	if h.hub == "" {
		flag = "--nats"
	}
	switch {
	case h.hub != "" && h.nats != "":
		return flags.Usagef("--hub and --nats together, want one of them")
	case h.log != "text" && h.log != "json":
		return flags.Usagef("--log is %s, want text or json", param.Quote(h.log))
	case !h.Enabled():
		if f.Changed("log") {
			return flags.Usagef("--log without --hub, want it with one")
		}
		return nil
	case s != nil && !s.Whole():
		return flags.Usagef("--shard with %s, want one of them", flag)
	case !out:
		return flags.Usagef("%s, want %s with it", flag, want)
	}
	alone := []string{"gif", "watch", "trace"} // which show the steps of this machine
	if f.Lookup("sheet") != nil {
		alone = append(alone, "json") // an image that another machine made has no line here
	}
	for _, name := range alone {
		if g := f.Lookup(name); g != nil && g.Changed {
			return flags.Usagef("--%s with %s, want it without", name, flag)
		}
	}
	return nil
}

// machineInfo describes this machine.
func machineInfo(device string) fleet.Info {
	return fleet.Info{
		Build:    buildinfo.Version(),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Device:   device,
	}
}

// processorName returns the name of this machine's processor as a device.
func processorName(threads int) string { return cpu.New(cpu.Options{Threads: threads}).Name() }

// runHub makes a run with all workers that join. what names its outputs, in the plural; secrets is
// the file in which the hub keeps its identity.
func (h *Hub) runHub(ctx context.Context, secrets, what string, e Spec, r fleet.Run) (err error) {
	r.Trees, err = e.fileTrees()
	if err != nil {
		return err
	}
	r.Spec, err = json.Marshal(e)
	if err != nil {
		return err
	}

	p := terminal.NewProgress(what, int64(r.N))
	defer p.Close()
	h.watch = h.progressWatcher(p)
	if h.open == nil {
		h.open, err = fleet.OpenHub(fleet.HubOptions{
			Listen:  h.hub,
			URL:     h.nats,
			Secrets: secrets,
			Info:    machineInfo(cmp.Or(r.Device, processorName(0))),
			Say:     terminal.Log,
			Watch:   func(s fleet.Status) { h.watch(s) },
		})
		if err != nil {
			return err
		}
		terminal.Logf("workers join by: unmask worker --join %q", h.open.JoinLine())
	}

	err = h.open.Run(ctx, r)
	if err != nil || !h.keepOpen {
		// Workers end with a hub that is finished, and wait for one that will begin again. Nobody
		// begins a run again whose time is over.
		finished := err == nil || errors.Is(err, context.DeadlineExceeded)
		closeErr := h.open.Close(finished)
		err = cmp.Or(err, closeErr)
		h.open = nil
	}
	if errors.Is(err, context.Canceled) {
		terminal.Logf("interrupted: run the same command again to continue")
		return outputs.ErrStopped
	}
	return err
}

// progressWatcher returns a function that shows a hub's state. The hub calls it each second.
func (h *Hub) progressWatcher(p *terminal.Progress) func(fleet.Status) {
	shownAt := time.Now()
	return func(s fleet.Status) {
		switch {
		case h.log == "json":
			if line, err := json.Marshal(s); err == nil {
				terminal.Log(string(line))
			}
		case !p.HasBar() && time.Since(shownAt) > 10*time.Second:
			shownAt = time.Now()
			terminal.Log(s.String())
		default:
			p.Set(int64(s.Done))
		}
	}
}
