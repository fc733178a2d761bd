// Text, and two samplers side by side.
import { $, button, el } from "./dom.js";
import { actions, begin, facts, finish, play, stepLabel } from "./run.js";
import { TextView } from "./textview.js";
import { Timeline } from "./timeline.js";
import { differences } from "./words.js";

/** request returns a run of a prompt, in which [20] is a hole of 20 tokens and [?] one of unknown length. */
function request(page, prompt, sampler) {
	const { length, ...body } = { model: page.model, ...page.values() };
	if (sampler) body.sampler = sampler;
	if (length) body.max_tokens = length;
	if (!/\[(\d+|\?)\]/.test(prompt)) return { kind: "text", path: "/v1/completions", body: { ...body, prompt } };
	delete body.max_tokens;
	return { kind: "text", path: "/v1/infill", body: { ...body, text: prompt } };
}

export class Text {
	constructor(page) {
		this.page = page;
		this.versions = []; // finished runs, the oldest first
		this.view = new TextView($("text"), (n) => {
			$("fill").hidden = !n;
			$("fill-count").textContent = `${n} ${n === 1 ? "piece becomes a hole" : "pieces become holes"}, the rest stays`;
		});
		this.timeline = new Timeline($("text-time"), (k, playing) => this.view.show(k, playing), stepLabel(() => this.current));
		this.timeline.first = () => this.current.trace?.firstShown() || 0;
		$("fill-clear").onclick = () => this.view.clear();
		$("fill-run").onclick = () => page.start(() => this.fill());
		$("text-undo").onclick = () => this.choose(this.versions.indexOf(this.current) - 1);
	}

	make(prompt) { return this.run(request(this.page, prompt)); }

	/** fill asks for the text again with the marked pieces as holes. */
	fill() {
		const tokens = this.current.trace.tokens();
		for (const i of this.view.holes) tokens[i] = null;
		return this.refill(tokens);
	}

	/** refill fills the nulls of tokens. */
	refill(tokens) {
		const { length, ...values } = this.page.values(), holes = tokens.filter((t) => t === null).length;
		if (values.steps) values.steps = Math.min(values.steps, holes);
		return this.run({ kind: "text", path: "/v1/infill", body: { model: this.page.model, ...values, tokens }, name: `${holes} ${holes === 1 ? "piece" : "pieces"} anew` });
	}

	run(run) {
		return play(this.page, run, this.timeline, {
			start: () => { this.load(run); begin("text", run); },
			done: () => {
				this.versions = [...this.versions.slice(-19), run];
				this.list();
				finish("text", this.page, run, () => this.view.text);
			},
		});
	}

	load(run) {
		this.current = run;
		this.timeline.reset();
		$("fill").hidden = true;
		$("text").classList.toggle("refill", !!run.body.tokens);
		this.view.load(run.trace);
	}

	/** choose shows an earlier version; marks and refills then are of it. */
	choose(i) {
		const run = this.versions[i];
		if (!run) return;
		this.page.abort?.abort();
		this.load(run);
		this.timeline.finish(run.trace.last, true);
		finish("text", this.page, run, () => this.view.text);
		this.list();
	}

	list() {
		const at = this.versions.indexOf(this.current);
		$("versions").hidden = this.versions.length < 2;
		$("text-undo").disabled = at < 1;
		$("version-list").replaceChildren(...this.versions.map((run, i) => button(`${i + 1}: ${run.name || "seed " + run.body.seed}`, () => this.choose(i), { ariaPressed: i === at })));
	}
}

/** Compare shows two samplers, with one slider by the share of positions that are open. */
export class Compare {
	constructor(page) {
		this.page = page;
		this.sides = ["first", "second"].map((name) => {
			const text = el("div", { className: "text", role: "listbox", ariaLabel: `Text of the ${name} sampler` });
			const s = { title: el("h2", { textContent: `The ${name} sampler` }), at: el("p", { className: "help" }), list: el("div"), row: el("div", { className: "facts" }) };
			$("pair").append(el("div", { className: "card" }, s.title, text, s.at, s.list, s.row));
			return Object.assign(s, { view: new TextView(text) });
		});
		this.timeline = new Timeline($("compare-time"), (share, playing) => this.show(share, playing), (v) => `${v} % open`);
	}

	show(share, playing) {
		for (const s of this.sides) {
			const t = s.run?.trace;
			if (!t) continue;
			const k = t.stepOf(share / 100);
			s.view.show(k, playing);
			s.at.textContent = stepLabel(() => s.run)(k);
		}
	}

	async make(prompt) {
		const { page, timeline, sides } = this;
		sides.forEach((s, i) => {
			s.run = request(page, prompt, page.samplers[i]);
			for (const part of [s.list, s.row]) part.replaceChildren(); // of the run before
		});
		timeline.reset();
		$("compare-note").textContent = "";
		const both = () => {
			const traces = sides.map((s) => s.run.trace);
			if (!traces.every(Boolean)) return;
			timeline.extend(Math.floor(100 * Math.min(...traces.map((t) => t.done ? 1 : t.share(t.last)))), 100);
			page.status("opening");
		};
		await Promise.all(sides.map((s) => play(page, s.run, timeline, {
			start: () => { s.title.textContent = s.run.trace.header.sampler; s.view.load(s.run.trace); both(); },
			step: both,
			done: () => { facts(s.list, s.run); actions(s.row, page, s.run, () => s.view.text); both(); },
		}))).catch((e) => { page.abort.abort(); throw e; }); // the other one would go on
		const { ranges, words } = differences(...sides.map((s) => s.view.text));
		sides.forEach((s, i) => s.view.differ(ranges[i]));
		const n = ranges.map((r) => r.length);
		$("compare-note").textContent = n[0] + n[1] ? `${n[0]} of ${words[0]} words and ${n[1]} of ${words[1]} differ; they are underlined with dots.` : "Both texts are the same.";
		timeline.finish(100);
	}
}
