// A text whose pieces appear where they open.
import { el, on, tips, used } from "./dom.js";
import { calm, hue, texts, words } from "./trace.js";

/** TextView shows a trace. marked are positions that the reader has made holes. */
export class TextView {
	constructor(root, onMark) {
		Object.assign(this, { root, onMark, marked: new Set(), from: 0 });
		tips(root, (s) => words(this.shown[s.at], this.trace.steps));
		on(root, "keydown", (e) => this.key(e));
		if (onMark) this.drag();
	}

	/** load begins a trace; positions before from, of a chat, are not shown. */
	load(trace, from = 0) {
		Object.assign(this, { trace, from, shown: [], now: [], final: null, focus: from });
		this.marked.clear();
		this.pieces = trace.history.map((_, at) => el("span", { role: "option", "aria-selected": "false", tabIndex: at === from ? 0 : -1 }));
		this.pieces.forEach((s, at) => { s.at = at; });
		this.root.replaceChildren(...this.pieces.slice(from));
		this.show(0);
	}

	/** show shows what is open after step k, and touches only what has changed. */
	show(k, playing) {
		const t = this.trace;
		if (!t) return;
		const entries = t.entries(k), now = texts(entries), soft = playing && !calm.matches && t.changed[k] < 65;
		for (let i = this.from; i < t.length; i++) {
			const e = entries[i], s = this.pieces[i], ahead = e ? "" : this.final?.[i] || "";
			if (e === this.shown[i] && now[i] === this.now[i] && s.ahead === ahead) continue;
			s.ahead = s.dataset.t = ahead;
			s.textContent = now[i];
			s.className = `p ${!e ? "hole" : e.known ? "known" : "open"}${this.marked.has(i) ? " marked" : ""}${s.differs ? " differs" : ""}${
				/^\n+$/.test(now[i]) ? " break" : ""}`;
			if (soft && e?.step === k) s.animate([{ opacity: 0.15 }, {}], 450);
			const label = !e ? "hole" : now[i].trim() ? null : now[i].includes("\n") ? "line break" : "space";
			if (s.ariaLabel !== label) s.ariaLabel = label;
			s.style.cssText = e && !e.known ? `--h: ${hue(e.step, t.steps)}; --p: ${Math.sqrt(e.p || 0).toFixed(3)}` : "";
		}
		this.shown = entries;
		this.now = now;
	}

	/** settle keeps the room of the finished text, so that the slider moves no line. */
	settle() { this.final ||= this.trace && texts(this.trace.entries()); }

	get text() { return texts(this.trace.entries()).slice(this.from).join(""); }

	/** differ marks where the finished text is not another's. */
	differ(tokens) {
		const mine = this.trace.tokens();
		return this.pieces.filter((s, i) => {
			s.differs = mine[i] !== tokens[i];
			return s.classList.toggle("differs", s.differs);
		}).length;
	}

	mark(i, on) {
		if (!this.onMark || this.marked.has(i) === on || !this.trace.done) return;
		this.marked[on ? "add" : "delete"](i);
		this.pieces[i].classList.toggle("marked", on);
		this.pieces[i].setAttribute("aria-selected", on);
		this.onMark(this.marked.size);
	}

	clear() { for (const i of [...this.marked]) this.mark(i, false); }

	key(e) {
		const at = e.target.at, last = this.pieces.length - 1;
		const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + 8, ArrowUp: at - 8, Home: 0, End: last }[e.key];
		if (e.key === " " && this.onMark) this.mark(at, !this.marked.has(at));
		else if (to === undefined) return;
		else {
			if (e.shiftKey) this.mark(at, true);
			this.pieces[this.focus].tabIndex = -1;
			const s = this.pieces[this.focus = Math.max(this.from, Math.min(last, to))];
			s.tabIndex = 0;
			s.focus();
			if (e.shiftKey) this.mark(this.focus, true);
		}
		used(e);
	}

	/** drag marks what the pointer passes, or clears it from a marked piece on; a finger taps. */
	drag() {
		let set = null, touched;
		const over = (e) => {
			const s = document.elementFromPoint(e.clientX, e.clientY);
			return s?.parentNode === this.root ? s : null;
		};
		on(this.root, "pointerdown", (e) => {
			const s = e.button ? null : over(e);
			if (!s) return;
			if (e.pointerType === "touch") touched = s;
			else this.mark(s.at, set = !this.marked.has(s.at));
		});
		on(this.root, "pointermove", (e) => {
			const s = set === null ? null : over(e);
			if (s) this.mark(s.at, set);
		});
		on(window, "pointerup pointercancel", (e) => {
			if (touched && e.type === "pointerup" && over(e) === touched) this.mark(touched.at, !this.marked.has(touched.at));
			set = touched = null;
		});
	}
}
