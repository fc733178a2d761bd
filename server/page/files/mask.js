// Cells over a picture, and a mask that is painted on them.
import { $, el, on, rove, used } from "./dom.js";

/** Mask is the grid; changed is told how many cells are marked. */
export class Mask {
	constructor(root, changed) {
		Object.assign(this, { root, changed, marked: new Set(), past: [], enabled: false, cells: [] });
		on(root, "pointerdown", (e) => this.down(e));
		on(root, "pointermove", (e) => this.moved(e));
		on(root, "pointerup pointercancel", () => { this.from = null; });
		on(root, "keydown", (e) => this.key(e));
	}

	layout(rows, columns) {
		if (this.rows === rows && this.columns === columns) return;
		Object.assign(this, { rows, columns, past: [], focus: 0 });
		this.marked.clear();
		this.root.style.setProperty("--columns", columns);
		this.cells = Array.from({ length: rows * columns }, (_, i) => {
			const c = el("div", { role: "gridcell", ariaSelected: false, className: "masked", tabIndex: i ? -1 : 0, ariaLabel: `row ${Math.floor(i / columns) + 1}, column ${i % columns + 1}` });
			return Object.assign(c, { at: i });
		});
		this.root.replaceChildren(...Array.from({ length: rows }, (_, y) => el("div", { role: "row" }, ...this.cells.slice(y * columns, (y + 1) * columns))));
	}

	keep() { this.past.push(new Set(this.marked)); }
	undo() { if (this.past.length) this.assign(this.past.pop()); }
	clear() { this.keep(); this.assign([]); }

	assign(marked) {
		this.marked = new Set(marked);
		this.cells.forEach((c, i) => { c.ariaSelected = c.classList.toggle("marked", this.marked.has(i)); });
		this.changed(this.marked.size);
	}

	where(e) {
		const box = this.root.getBoundingClientRect(), at = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v * n)));
		return [at((e.clientX - box.left) / box.width, this.columns), at((e.clientY - box.top) / box.height, this.rows)];
	}

	down(e) {
		if (e.button || !this.enabled) return;
		e.preventDefault();
		this.root.setPointerCapture(e.pointerId);
		this.keep();
		this.from = this.to = this.where(e);
		this.base = this.marked;
		this.stroke();
	}

	moved(e) {
		if (!this.from) return;
		// A quick stroke has few events: the cells on the line between them are part of it.
		const to = this.where(e), [x, y] = this.to, n = Math.max(Math.abs(to[0] - x), Math.abs(to[1] - y));
		for (let i = 1; i <= n; i++) {
			this.to = [Math.round(x + (to[0] - x) * i / n), Math.round(y + (to[1] - y) * i / n)];
			this.stroke();
		}
	}

	stroke() {
		const box = $("tool").value === "rectangle", next = new Set(box ? this.base : this.marked), from = box ? this.from : this.to;
		const [low, high] = [Math.min, Math.max].map((f) => [0, 1].map((d) => f(from[d], this.to[d])));
		for (let y = low[1]; y <= high[1]; y++) for (let x = low[0]; x <= high[0]; x++) next[$("tool").value === "eraser" ? "delete" : "add"](y * this.columns + x);
		this.assign(next);
	}

	key(e) {
		const at = e.target.at, to = at + { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns }[e.key];
		if (e.key === " ") {
			if (!this.enabled) return;
			this.keep();
			const next = new Set(this.marked);
			if (!next.delete(at)) next.add(at);
			this.assign(next);
		} else if (this.cells[to]) {
			this.focus = rove(this.cells, this.focus, to);
		} else if (!e.key.startsWith("Arrow")) return;
		used(e);
	}

	/** png is the mask as a picture: what is marked is white. */
	png(width, height) {
		const c = el("canvas", { width, height }), g = c.getContext("2d"), w = width / this.columns, h = height / this.rows;
		g.fillRect(0, 0, width, height);
		g.fillStyle = "#fff";
		for (const i of this.marked) g.fillRect(i % this.columns * w, Math.floor(i / this.columns) * h, w, h);
		return new Promise((resolve) => c.toBlob(resolve));
	}
}
