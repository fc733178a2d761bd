//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"

	"unmask/backend"
)

// tracer times every command between two events and keeps a table of the times in a file. Lists
// then never become graphs, and each is waited for: the times are those of kernels, not of steps.
type tracer struct {
	path string

	// header is the first lines of the file; empty while the ceilings are measured.
	header string

	// events are the CUevents before and after each command of a list.
	events []uintptr

	// lastSeconds are the times of the last list's commands.
	lastSeconds []float64

	rows map[traceKey]*traceRow
	ceilings
}

// traceKey identifies a row of the table.
type traceKey struct {
	name    string
	x, y, z uint32
	threads uint32
}

type traceRow struct {
	calls   int
	seconds float64

	// ops and bytes are those of all calls; 0 if a command's parameters do not show them.
	ops   float64
	bytes float64

	precision backend.Precision
}

// openTrace starts a trace if the environment names a file. It first measures the ceilings.
func (b *Backend) openTrace() error {
	path := os.Getenv(TraceVariable)
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	t := &tracer{path: path, rows: map[traceKey]*traceRow{}}
	b.trace = t
	b.graphs.disabled = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	var err error
	func() {
		defer backend.Recover(&err)
		c := b.measureCeilings(func() float64 {
			b.flush()
			return t.lastSeconds[len(t.lastSeconds)-1]
		})
		t.ceilings = c
		t.empty, err = t.measureEmptyPair(b.device)
	}()
	clear(t.rows)
	t.header = fmt.Sprintf("# %s, %d multiprocessors\n# ceilings: f32 %.3g, bf16 %.3g, int8 %.3g "+
		"TFLOP/s, memory %.4g GB/s; an empty pair of events takes %.2g us\n",
		b.Name(), b.Multiprocessors, t.ops[backend.F32]/1e12, t.ops[backend.BF16]/1e12,
		t.ops[backend.Int8]/1e12, t.memory/1e9, 1e6*t.empty)
	return err
}

// measureEmptyPair returns the least seconds between two events with no command between them.
func (t *tracer) measureEmptyPair(v *device) (shortest float64, err error) {
	for i := range 8 {
		for _, e := range t.events[:2] {
			if err := v.call(cuEventRecord, e, v.stream); err != nil {
				return 0, err
			}
		}
		if err := v.call(cuStreamSynchronize, v.stream); err != nil {
			return 0, err
		}
		s, err := v.elapsedSeconds(t.events[0], t.events[1])
		if err != nil {
			return 0, err
		}
		if i == 0 || s < shortest {
			shortest = s
		}
	}
	return shortest, nil
}

// elapsedSeconds returns the seconds between two events that both have come.
func (v *device) elapsedSeconds(from, to uintptr) (float64, error) {
	ms := onHeap[float32]()
	err := v.call(cuEventElapsedTime, uintptr(unsafe.Pointer(ms)), from, to)
	return float64(*ms) / 1e3, err
}

// runTraced sends the list command by command, waits for it, and adds its times to the table.
func (t *tracer) runTraced(b *Backend) error {
	commands := b.list.commands
	for len(t.events) < len(commands)+1 {
		e, err := b.newEvent(0)
		if err != nil {
			return err
		}
		t.events = append(t.events, e)
	}
	for i := range commands {
		if err := b.device.call(cuEventRecord, t.events[i], b.stream); err != nil {
			return err
		}
		if err := b.sendCommand(&commands[i]); err != nil {
			return err
		}
	}
	if err := b.device.call(cuEventRecord, t.events[len(commands)], b.stream); err != nil {
		return err
	}
	if err := b.device.call(cuStreamSynchronize, b.stream); err != nil {
		return err
	}
	t.lastSeconds = t.lastSeconds[:0]
	for i := range commands {
		s, err := b.elapsedSeconds(t.events[i], t.events[i+1])
		if err != nil {
			return err
		}
		t.lastSeconds = append(t.lastSeconds, s)
		t.addCommand(&commands[i], b.list.params[commands[i].first:][:commands[i].params], s)
	}
	return t.writeTable()
}

// addCommand adds a command to the table.
func (t *tracer) addCommand(c *command, p []uint64, seconds float64) {
	names := [...]string{copyWithin: "copy", copyBack: "copy to the host", fill: "fill"}
	key := traceKey{name: names[c.op]}
	if c.op == launch {
		key = traceKey{kernels[c.kernel].name, c.x, c.y, c.z, c.threads}
	}
	row := t.rows[key]
	if row == nil {
		row = &traceRow{}
		t.rows[key] = row
	}
	row.calls++
	row.seconds += seconds
	ops, bytes, precision := commandTraffic(c, p)
	row.ops += ops
	row.bytes += bytes
	row.precision = precision
}

// commandTraffic returns a command's number of operations, or else the bytes it moves, as far as
// its parameters show them.
func commandTraffic(c *command, p []uint64) (ops, bytes float64, precision backend.Precision) {
	n := func(i int) float64 { return float64(int32(p[i])) }
	product := func(rows, depth, out float64) (float64, float64, backend.Precision) {
		return 2 * rows * depth * out, 0, precision
	}
	written := func(wide, narrow int) float64 { // bytes of each number
		var n float64
		if p[wide] != 0 {
			n += 4
		}
		if p[narrow] != 0 {
			n += 2
		}
		return n
	}
	if c.op != launch {
		return 0, bytesMoved(c, p), precision
	}
	name := strings.TrimPrefix(kernels[c.kernel].name, "unmask_")
	perByte := 1.0 // numbers of a factor
	switch {
	case strings.Contains(name, "bf16"), strings.Contains(name, "tensor"),
		strings.Contains(name, "narrow"):
		precision = backend.BF16
		perByte = 0.5
	case strings.Contains(name, "int8"):
		precision = backend.Int8
	}
	switch {
	case strings.HasPrefix(name, "linear_f32"):
		return product(n(3), n(4), n(6))
	case strings.HasPrefix(name, "linear_"):
		return product(n(5), n(6)*perByte, n(7))
	case strings.HasPrefix(name, "head_f32"):
		return product(n(11), n(12), n(14))
	case strings.HasPrefix(name, "head_bf16"), strings.HasPrefix(name, "head_int8"):
		return product(n(13), n(14)*perByte, n(15))
	case strings.HasPrefix(name, "attention_"):
		rows := 64.0 // of a block, including unused ones
		if precision == backend.BF16 {
			rows = float64(c.threads) / 2
			if !strings.HasSuffix(name, "x1") {
				rows *= 2
			}
		}
		return 2 * rows * float64(c.x) * n(4) * 2 * n(5) * n(7), 0, precision
	case name == "layer_norm":
		return 0, n(3) * n(4) * (4 + written(6, 7)), backend.F32
	case name == "rms_norm":
		return 0, n(2) * n(3) * (4 + written(5, 6)), backend.F32
	case name == "bf16_rows":
		return 0, n(2) * (4*n(3) + n(4)), backend.F32
	case name == "gather", name == "scatter":
		return 0, 8 * n(3) * n(4), backend.F32
	}
	return 0, 0, precision
}

// bytesMoved returns the bytes that a command which is no kernel of ours reads and writes.
func bytesMoved(c *command, p []uint64) float64 {
	switch c.op {
	case copyWithin:
		return 2 * float64(p[2])
	case copyBack:
		return float64(p[2])
	case fill:
		return float64(p[1])
	}
	return 0
}

// writeTable writes the table, the longest times first.
func (t *tracer) writeTable() error {
	if t.header == "" { // the ceilings are being measured
		return nil
	}
	var s strings.Builder
	s.WriteString(t.header)
	s.WriteString("kernel,grid,threads,calls,total_us,mean_us,rate,unit,share\n")
	keys := slices.SortedFunc(maps.Keys(t.rows), func(a, b traceKey) int {
		return cmp.Or(cmp.Compare(t.rows[b].seconds, t.rows[a].seconds), cmp.Compare(a.name, b.name),
			cmp.Compare(a.x, b.x))
	})
	for _, k := range keys {
		r := t.rows[k]
		unit := "TFLOP/s"
		amount := r.ops / 1e12
		ceiling := t.ops[r.precision] / 1e12
		if r.ops == 0 {
			unit = "GB/s"
			amount = r.bytes / 1e9
			ceiling = t.memory / 1e9
		}
		fmt.Fprintf(&s, "%s,%dx%dx%d,%d,%d,%.1f,%.2f,", k.name, k.x, k.y, k.z, k.threads, r.calls,
			1e6*r.seconds, 1e6*r.seconds/float64(r.calls))
		if amount == 0 || r.seconds == 0 || ceiling == 0 {
			s.WriteString(",,\n")
		} else {
			fmt.Fprintf(&s, "%.4g,%s,%.2f\n", amount/r.seconds, unit, amount/r.seconds/ceiling)
		}
	}
	return os.WriteFile(t.path, []byte(s.String()), 0o644)
}

// close destroys the events, writes the table, and calls record with the result of each call.
func (t *tracer) close(v *device, record func(error)) {
	if t == nil {
		return
	}
	for _, e := range t.events {
		record(v.call(cuEventDestroy, e))
	}
	record(t.writeTable())
}
