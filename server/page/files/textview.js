// A text whose pieces appear where they open.
import { button, el, on, rove, tips, used } from "./dom.js";
import { calm, look, texts, words } from "./trace.js";

/** TextView shows a trace, each of whose cells is a piece. marked are cells that the reader has made holes. */
export class TextView {
	constructor(root, onMark) {
		Object.assign(this, { root, onMark, marked: new Set(), from: 0, ends: [] });
		tips(root, (s) => words(s.entry, this.trace.steps));
		on(root, "keydown", (e) => this.key(e));
		if (onMark) this.drag();
	}

	/** load begins a trace; positions before from, of a chat, are not shown, and what follows one of ends is folded away. */
	load(trace, from = 0, ends = []) {
		Object.assign(this, { trace, from, ends, cells: null, all: new Map(), focus: from, whole: false });
		this.marked.clear();
		this.fold?.remove();
		this.fold = button("", () => { this.whole = !this.whole; this.cut(); }, { className: "fold", hidden: true });
		if (ends.length) this.root.after(this.fold);
		this.show(0);
	}

	/** piece is the element of a cell. */
	piece(cell) {
		if (!this.all.has(cell)) this.all.set(cell, Object.assign(el("span", { role: "option", ariaSelected: false }), { cell }));
		return this.all.get(cell);
	}

	/** lay puts the pieces of cells in their order. */
	lay(cells) {
		const held = this.root.contains(document.activeElement) && document.activeElement;
		this.cells = cells;
		this.pieces = cells.map((cell, at) => Object.assign(this.piece(cell), { at, tabIndex: -1 }));
		this.focus = Math.min(this.focus, this.pieces.length - 1);
		if (this.pieces.length) this.pieces[this.focus].tabIndex = 0;
		this.root.replaceChildren(...this.pieces.slice(this.from));
		if (held) (held.isConnected ? held : this.pieces[this.focus])?.focus({ preventScroll: true });
	}

	/** show shows what is open after step k, and touches only what has changed. */
	show(k, playing) {
		const t = this.trace;
		if (!t) return;
		if (t.cells[k] !== this.cells) this.lay(t.cells[k]);
		const entries = t.entries(k), now = texts(entries), soft = playing && !calm.matches && t.open[k] - t.open[k - 1] < 65;
		this.root.classList.toggle("lively", !(t.done && k === t.last)); // colours while it opens
		for (let i = this.from; i < entries.length; i++) {
			const e = entries[i], s = this.pieces[i];
			if (e === s.entry && now[i] === s.now) continue;
			write(s, s.now = now[i]);
			s.entry = e;
			s.className = `p ${!e ? "hole" : e.known ? "known" : "open"}${this.marked.has(s.cell) ? " marked" : ""}${s.differs ? " differs" : ""}${
				/^\n+$/.test(now[i]) ? " break" : ""}`;
			if (soft && e?.step === k) s.animate([{ opacity: 0.15 }, {}], 450);
			if (s.role) s.ariaLabel = !e ? "hole" : now[i].trim() ? null : now[i].includes("\n") ? "line break" : "space";
			s.style.cssText = e && !e.known ? look(e, t.steps) : "";
		}
		this.cut();
	}

	/** cut hides blanks after a text and, of an answer, before it; and what follows its end. */
	cut() {
		const blank = (s) => s.entry && !s.now.trim(), chat = this.ends.length > 0;
		const first = chat ? this.pieces.findIndex((s, i) => i >= this.from && !blank(s)) : 0, last = this.pieces.findLastIndex((s) => !blank(s));
		const end = chat ? this.pieces.findIndex((s, i) => i >= this.from && s.entry && this.ends.includes(s.entry.token)) : -1;
		for (let i = this.from; i < this.pieces.length; i++) this.pieces[i].hidden = i < first || !this.whole && (i > last || end >= 0 && i >= end);
		this.fold.hidden = end < 0;
		this.fold.textContent = `${end - this.from} tokens${this.whole ? ", hide the rest" : ""}`;
		this.fold.title = `The answer ended after ${end - this.from} of ${this.pieces.length - this.from} positions. A click shows what stands behind its end.`;
	}

	get text() { return texts(this.trace.entries()).slice(this.from).join(""); }

	/** differ marks the pieces that have a word in ranges, of characters of the finished text. */
	differ(ranges) {
		let at = 0, r = 0;
		const now = texts(this.trace.entries());
		this.trace.cells.at(-1).forEach((cell, i) => {
			const s = this.piece(cell), from = at + now[i].length - now[i].trimStart().length, to = at += now[i].length;
			while (r < ranges.length && ranges[r][1] <= from) r++;
			s.differs = r < ranges.length && ranges[r][0] < to && from < to;
			s.classList.toggle("differs", s.differs);
		});
	}

	mark(piece, on) {
		const { cell } = piece;
		if (this.marked.has(cell) === on || !this.trace?.done || !this.trace.cells.at(-1).includes(cell)) return;
		this.marked[on ? "add" : "delete"](cell);
		piece.classList.toggle("marked", on);
		piece.ariaSelected = on;
		this.onMark(this.marked.size);
	}

	clear() { for (const cell of [...this.marked]) this.mark(this.piece(cell), false); }

	/** holes are the positions of what is marked, in the finished text. */
	get holes() { return this.trace.cells.at(-1).flatMap((cell, i) => this.marked.has(cell) ? [i] : []); }

	key(e) {
		const at = e.target.at, last = this.pieces.findLastIndex((s) => !s.hidden);
		let to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: this.pieces.findIndex((s) => s.checkVisibility()), End: last }[e.key];
		while (this.pieces[to]?.checkVisibility() === false) to += to < at ? -1 : 1;
		if (e.key === " " && this.onMark) this.mark(e.target, !this.marked.has(e.target.cell));
		else if (to === undefined) return;
		else if (to >= this.from && to <= last) this.focus = rove(this.pieces, this.focus, to);
		used(e);
	}

	/** drag marks what the mouse passes, or clears it from a marked piece on; a finger taps. */
	drag() {
		let set = null;
		const turn = (piece) => this.mark(piece, set = !this.marked.has(piece.cell));
		on(this.root, "pointerdown", (e) => { if (!e.button && e.pointerType === "mouse") turn(e.target); });
		on(this.root, "pointerover", (e) => { if (set !== null) this.mark(e.target, set); });
		on(this.root, "click", (e) => { if (e.pointerType !== "mouse") turn(e.target); set = null; });
		on(window, "pointerup", () => { set = null; });
	}
}

/** write puts a text into a piece; colours are those of its letters alone, so that no blank at the end of a line has one. */
export function write(piece, text) {
	const [, before, word, after] = /^(\s*)(.*?)(\s*)$/s.exec(text);
	piece.replaceChildren(before, ...word ? [el("span", { className: "w", textContent: word })] : [], after);
}
