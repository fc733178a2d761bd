// Package terminal shows what commands do while they work: progress and a watched sample on
// standard error. It also handles the signals that stop them.
package terminal

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"unmask/weights/hub"
)

// Logf writes a line to standard error, without control characters: names of files and messages of
// servers must not be able to command the terminal.
func Logf(format string, args ...any) {
	fmt.Fprintln(os.Stderr, EscapeControls(fmt.Sprintf(format, args...)))
}

// LogWrappedf is Logf in lines that fit the terminal, if standard error is one.
func LogWrappedf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err == nil && width > 0 {
		text = WrapText(text, width)
	}
	Log(text)
}

// FormatCount returns a number with its noun: 1 image, 2 images.
func FormatCount(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Progress shows the progress of work: a bar on a terminal, and elsewhere a line every few seconds.
// One goroutine at a time may use one.
type Progress struct {
	bar   *progressbar.ProgressBar // nil where lines are written
	label string

	// total is -1 if it is unknown.
	total int64
	done  int64

	// loggedDone is the work in the last line.
	loggedDone int64

	startedAt time.Time

	// updatedAt is when the last line was written, or the bar's label last changed.
	updatedAt time.Time
}

// LineInterval is the time between lines of progress if there is no bar.
const LineInterval = 3 * time.Second

// CanRedraw reports whether f is a terminal on which a line can be drawn again: its cursor moves
// and it is wide enough.
func CanRedraw(f *os.File) bool {
	if !term.IsTerminal(int(f.Fd())) || isDumb(os.Getenv("TERM"), runtime.GOOS) {
		return false
	}
	const minColumns = 30
	width, _, err := term.GetSize(int(f.Fd()))
	return err != nil || width == 0 || width >= minColumns
}

// isDumb reports whether a terminal of this kind cannot move its cursor. One without a kind is
// taken for dumb, except on Windows, where TERM is not set.
func isDumb(kind, system string) bool {
	return kind == "dumb" || kind == "" && system != "windows"
}

// HasBar reports whether progress is shown as a bar.
func (p *Progress) HasBar() bool { return p.bar != nil }

// NewProgress returns a Progress at 0 of total; -1 means an unknown total.
func NewProgress(label string, total int64, options ...progressbar.Option) *Progress {
	p := &Progress{
		label:     label,
		total:     total,
		startedAt: time.Now(),
		updatedAt: time.Now(),
	}
	if CanRedraw(os.Stderr) {
		options = append([]progressbar.Option{
			progressbar.OptionSetWriter(os.Stderr),
			progressbar.OptionSetDescription(label),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(100 * time.Millisecond),
			progressbar.OptionFullWidth(),
		}, options...)
		p.bar = progressbar.NewOptions64(total, options...)
	}
	return p
}

// Add adds n to the work that is done.
func (p *Progress) Add(n int64) { p.Set(p.done + n) }

// Set sets how much work is done.
func (p *Progress) Set(count int64) {
	p.done = count
	const labelInterval = time.Second / 2 // more often, the time left is not readable
	switch {
	case p.bar != nil:
		if time.Since(p.updatedAt) >= labelInterval {
			p.updatedAt = time.Now()
			p.bar.Describe(p.label + timeLeft(p.done, p.total, time.Since(p.startedAt)))
		}
		p.bar.Set64(count)
		p.returnCursor()
	case count != p.loggedDone && time.Since(p.updatedAt) >= LineInterval:
		p.updatedAt = time.Now()
		p.loggedDone = count
		Log(progressLine(p.label, p.done, p.total, time.Since(p.startedAt)))
	}
}

// returnCursor moves to the start of the bar's line: the ^C that a terminal prints behind a bar of
// its whole width would go on to the next line, and Close would clear that one.
func (p *Progress) returnCursor() { fmt.Fprint(os.Stderr, "\r") }

// progressLine returns a line of progress: "steps: 3 of 32, 12s left".
func progressLine(label string, count, total int64, took time.Duration) string {
	if total < 0 {
		return fmt.Sprintf("%s: %d", label, count)
	}
	return fmt.Sprintf("%s: %d of %d%s", label, count, total, timeLeft(count, total, took))
}

// maxTimeLeft bounds the times that are shown: a guess of more than a year says nothing, and a
// hostile size could pass what a Duration holds.
const maxTimeLeft = 365 * 24 * time.Hour

// timeLeft returns the time left at the mean speed so far: ", 12s left", or "" if it is unknown or
// beyond maxTimeLeft.
func timeLeft(count, total int64, took time.Duration) string {
	if count <= 0 || total < count {
		return ""
	}
	nanoseconds := float64(took) * float64(total-count) / float64(count)
	if nanoseconds > float64(maxTimeLeft) {
		return ""
	}
	left := time.Duration(nanoseconds)
	return ", " + left.Round(time.Second).String() + " left"
}

// Close removes the bar. It does nothing for nil.
func (p *Progress) Close() {
	if p != nil && p.bar != nil {
		p.bar.Finish()
	}
}

// LazyProgress is a Progress whose total is known only when work begins. One goroutine at a time
// may use one.
type LazyProgress struct {
	Label string

	p *Progress // nil before the first Set
}

// Set sets how much of a total is done.
func (l *LazyProgress) Set(count, total int) {
	if l.p == nil {
		l.p = NewProgress(l.Label, int64(total))
	}
	l.p.Set(int64(count))
}

// Close removes the bar.
func (l *LazyProgress) Close() { l.p.Close() }

// DownloadProgress returns a function that shows the bytes of each file of a download.
func DownloadProgress() func(hub.Progress) {
	var p *Progress
	var file string
	return func(h hub.Progress) {
		if h.Note != "" {
			Log(h.Note)
			return
		}
		if p == nil || h.File != file {
			p.Close()
			file = h.File
			p = NewProgress(file, h.Total, progressbar.OptionShowBytes(true))
		}
		p.Set(h.Done)
		if h.Done == h.Total {
			p.Close()
			p = nil
		}
	}
}

// controlCharacters are the control characters except tabs and ends of lines: those of ASCII, and
// U+0080 to U+009F in UTF-8.
var controlCharacters = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x{9f}]`)

// EscapeControls returns a text in which control characters are written as in Go, such as \x1b: a
// terminal would obey them.
func EscapeControls(text string) string {
	return controlCharacters.ReplaceAllStringFunc(text, func(c string) string {
		if len(c) == 1 {
			return fmt.Sprintf(`\x%02x`, c)
		}
		return fmt.Sprintf(`\u%04x`, []rune(c)[0])
	})
}
