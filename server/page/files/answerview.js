// An answer as it opens: its pieces stand in Markdown up to the first hole.
import { el } from "./dom.js";
import { build, parse } from "./markdown.js";
import { TextView, write } from "./textview.js";

/** AnswerView lays the pieces of a trace into the elements of their Markdown. What may still change is plain. */
export class AnswerView extends TextView {
	piece(cell) {
		if (!this.all.has(cell)) this.all.set(cell, Object.assign(el("span"), { cell }));
		return this.all.get(cell);
	}

	lay(cells) {
		super.lay(cells);
		this.key = "";
	}

	show(k, playing) {
		super.show(k, playing);
		if (!this.trace) return;
		const tree = this.tree(), key = JSON.stringify(tree);
		if (key === this.key) return;
		this.key = key;
		const held = this.root.contains(document.activeElement) && document.activeElement;
		this.placed = new Set();
		this.root.replaceChildren(...build(tree, (parts) => parts.map((part) => this.node(part))));
		if (held && held.isConnected) held.focus({ preventScroll: true });
	}

	/** settled is the text as Markdown is read of it, where what may change has no marks; piece i stands at spans[i]. */
	settled() {
		const spans = [];
		let text = "", open = false;
		for (const s of this.pieces.slice(this.from)) {
			if (!open && (!s.entry || this.ends.includes(s.entry.token))) {
				open = true;
				const line = text.slice(text.lastIndexOf("\n") + 1);
				if (s.entry) text += "\n\n"; // what follows an end is folded away
				else if (/^ *[#|]/.test(line)) text = text.slice(0, text.length - line.length) + "x".repeat(line.length);
			}
			const from = text.length;
			text += open ? "x".repeat(s.now.length || 1) : s.now;
			spans.push([from, text.length]);
		}
		return { text, spans };
	}

	/** tree is the Markdown with pieces for leaves: [piece, whether it is syntax], and of a part its text and step. */
	tree() {
		const { text, spans } = this.settled(), seen = new Set();
		let at = 0, i = 0;
		const upto = (to, syntax) => {
			const out = [];
			for (; i < spans.length && (spans[i][0] < to || spans[i][1] <= to); i++) {
				const [from, end] = spans[i], stop = Math.min(end, to), begin = Math.max(at, from), s = this.pieces[this.from + i];
				const part = begin > from || stop < end ? s.now.slice(begin - from, stop - from) : null;
				if (!syntax) seen.add(i);
				out.push(part === null ? [i, syntax] : [i, syntax, part, s.entry?.step]);
				at = stop;
				if (stop < end) break;
			}
			return out;
		};
		const walk = (nodes) => nodes.map((n) => Array.isArray(n) ? [...upto(n[0], true), ...upto(n[1], false)] : { ...n, children: walk(n.children) });
		const tree = [...walk(parse(text)), upto(text.length, true)];
		this.seen = seen; // pieces of which a part is no syntax
		return tree;
	}

	/** node is the element of a part of a piece; a piece that several elements have a part of has its own in the first. */
	node([i, syntax, part]) {
		const s = this.pieces[this.from + i], text = part ?? s.now;
		let own = s;
		if (this.placed.has(i) || syntax && this.seen.has(i)) {
			own = Object.assign(el("span", { className: s.className }), { at: s.at, entry: s.entry });
			own.style.cssText = s.style.cssText;
			own.hidden = s.hidden;
			write(own, text);
		} else {
			this.placed.add(i);
			if (s.textContent !== text) write(s, text);
		}
		return syntax ? el("span", { className: "syntax" }, own) : own;
	}
}
