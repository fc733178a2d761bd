// What opened when: the lines of a trace, and the state after any step.

/** Trace is one sample's run; its steps are added as they come. */
export class Trace {
	constructor(header) {
		this.header = header;
		const cells = Array.from({ length: header.shape.reduce((a, b) => a * b) }, () => []);
		for (const p of header.known) cells[p.position].push({ ...entry(p, 0), known: true });
		this.cells = [cells]; // after step i: of each position, what was there, by step; holes may grow and shrink
		this.steps = 0; // at most
		this.known = header.known.length;
		this.open = [this.known]; // how many are open after step i
	}

	/** last is the last step that has come. */
	get last() { return this.open.length - 1; }

	/** length is the number of positions after the last step that has come. */
	get length() { return this.cells.at(-1).length; }

	add(line) {
		const n = this.last + 1;
		let open = this.open[n - 1], cells = this.cells[n - 1];
		if (line.resized) cells = [...cells];
		for (const r of line.resized || []) cells.splice(r.position, 1, ...Array.from({ length: r.into }, () => []));
		for (const p of line.opened) {
			const h = cells[p.position];
			if (!h.length || h.at(-1).closed) open++;
			h.push(entry(p, n));
		}
		for (const position of line.closed || []) {
			open--;
			cells[position].push({ step: n, closed: true });
		}
		this.cells.push(cells);
		this.open.push(open);
		this.steps = Math.max(line.steps, n);
	}

	/** at returns what is open at a position after step k, or null. */
	at(position, k = this.last) {
		const e = this.cells[k][position].findLast((e) => e.step <= k);
		return e && !e.closed ? e : null;
	}

	entries(k = this.last) { return this.cells[k].map((_, i) => this.at(i, k)); }

	/** firstShown is the first step after which a position from `from` on shows that was a hole, and stands before the first of ends; the last one as long as there is none. */
	firstShown(from = 0, ends = []) {
		for (this.seen ??= 0; this.seen < this.last; this.seen++) {
			const entries = this.entries(this.seen).slice(from), end = entries.findIndex((e) => e && ends.includes(e.token));
			if (entries.slice(0, end < 0 ? entries.length : end).some((e) => e && !e.known)) break;
		}
		return this.seen;
	}

	/** tokens are null where masked. */
	tokens(k) { return this.entries(k).map((e) => e ? e.token : null); }

	/** share is the part of the holes that is open after step k. */
	share(k) {
		const holes = this.cells[k].length - this.known;
		return holes ? (this.open[k] - this.known) / holes : 1;
	}

	/** stepOf is the first step after which a share of the holes is open. */
	stepOf(share) {
		const k = share < 1 ? this.open.findIndex((_, k) => this.share(k) >= share - 1e-9) : -1;
		return k < 0 ? this.last : k;
	}
}

function entry(p, step) {
	const e = { step, token: p.token, text: p.piece || "", p: p.p, stage: p.stage };
	if (p.bytes) e.bytes = Uint8Array.from(atob(p.bytes), (c) => c.charCodeAt(0));
	return e;
}

/** texts shows entries; a rune that is spread over several positions belongs to the first. */
export function texts(entries) {
	const out = entries.map((e) => e ? e.text : "");
	for (let i = 0; i < entries.length; i++) {
		const bytes = [], owner = [];
		for (; entries[i]?.bytes; i++) for (const b of entries[i].bytes) { bytes.push(b); owner.push(i); }
		for (let at = 0, broken = false; at < bytes.length;) {
			const b = bytes[at], n = b >> 5 === 6 ? 2 : b >> 4 === 14 ? 3 : b >> 3 === 30 ? 4 : 1;
			const rune = new TextDecoder().decode(Uint8Array.from(bytes.slice(at, at + n)));
			const whole = [...rune].length === 1 && rune !== "\uFFFD";
			if (whole || !broken) out[owner[at]] += whole ? rune : "\uFFFD"; // one mark for a broken run
			broken = !whole;
			at += whole ? n : 1;
		}
	}
	return out;
}

/** calm matches where motion is unwanted. */
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** look has the hue of an entry's step, from blue over violet and rose to orange, and how sure it was. */
export const look = ({ step, p = 0 }, steps) => `--h: ${Math.round(255 + 145 * Math.min(1, steps > 1 ? (step - 1) / (steps - 1) : 0)) % 360}; --p: ${Math.sqrt(p).toFixed(3)}`;

/** words says when and how surely an entry opened. */
export function words(e, steps) {
	if (!e) return "masked";
	if (e.known) return `given · token ${e.token}`;
	const p = e.p === undefined ? "" : ` · p ${e.p < 0.001 ? e.p.toExponential(1) : e.p.toFixed(3)}`;
	return `step ${e.step} of ${steps}${p} · token ${e.token}${e.stage ? ` · stage ${e.stage}` : ""}`;
}
