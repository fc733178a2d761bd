package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"unmask/weights/hub"
)

// say writes a line to standard error.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// count is a number of things: 1 image, 2 images.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// progress shows how far work has come: a bar on a terminal, elsewhere a line every few
// seconds.
type progress struct {
	bar   *progressbar.ProgressBar
	label string
	total int64
	done  int64
	last  time.Time
}

const progressEvery = 3 * time.Second

func newProgress(label string, total int64, options ...progressbar.Option) *progress {
	p := &progress{label: label, total: total, last: time.Now()}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		options = append([]progressbar.Option{
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(label),
			progressbar.OptionClearOnFinish(), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionFullWidth(),
		}, options...)
		p.bar = progressbar.NewOptions64(total, options...)
	}
	return p
}

func (p *progress) add(n int64) { p.set(p.done + n) }

func (p *progress) set(done int64) {
	p.done = done
	if p.bar != nil {
		p.bar.Set64(done)
		return
	}
	if time.Since(p.last) >= progressEvery {
		p.last = time.Now()
		say("%s: %d of %d", p.label, p.done, p.total)
	}
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}

// laterProgress is a progress whose total is known when it begins.
type laterProgress struct {
	label string
	*progress
}

func (p *laterProgress) set(done, total int) {
	if p.progress == nil {
		p.progress = newProgress(p.label, int64(total))
	}
	p.progress.set(int64(done))
}

func (p *laterProgress) close() {
	if p.progress != nil {
		p.progress.close()
	}
}

// downloadProgress shows the bytes of each file of a download.
func downloadProgress() func(hub.Progress) {
	var p *progress
	var file string
	return func(h hub.Progress) {
		if h.Note != "" {
			say("%s", h.Note)
			return
		}
		if p == nil || h.File != file {
			if p != nil {
				p.close()
			}
			file = h.File
			p = newProgress(file, h.Total, progressbar.OptionShowBytes(true))
		}
		p.set(h.Done)
		if h.Done == h.Total {
			p.close()
			p = nil
		}
	}
}
