package cpu

// windowed reports whether the kernel can read windows where they stand. It then takes the
// margins between two rows of a band for pixels too, so that all pixels are equally far apart;
// packing costs less than that where rows are short and outputs many.
func (c *conv) windowed(m *matrix) bool {
	s := &c.s
	return m.k.ReadsWindows(s.KW*s.In) && c.stride == 1 && (s.KW-1)*s.Out <= worthWaste*c.width
}

// worthWaste is about what share of its work a kernel spends on packing, times its outputs.
const worthWaste = 12

// windows computes rows of the result from the band. `above` is the number of the batch's rows
// before them.
func (c *conv) windows(w *worker, rows []float32, above, n int) {
	p, s := &c.b.product, &c.s
	k, wide := p.w.k, c.pitch/s.In
	tile := w.tile.get(k.Rows * k.Columns)
	for j := range p.w.panels() {
		panel := p.w.panel(j)
		for first := 0; first < (n-1)*wide+c.width; first += k.Rows {
			k.Windows(tile, rows[first*s.In:], panel, s.In, s.KW*s.In, s.KH, c.pitch)
			count := min(k.Rows, n*wide-first)
			c.put(tile[:count*k.Columns], above, first, count, wide, j)
		}
	}
}
