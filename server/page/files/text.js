// Text, two samplers side by side, and conversations.
import { followJobs } from "./api.js";
import { $, el } from "./dom.js";
import { actions, facts, finish, heard, play, stepLabel } from "./run.js";
import { TextView } from "./textview.js";
import { Timeline } from "./timeline.js";

/** request returns a run of a prompt, in which [20] is a hole of 20 tokens. */
function request(page, prompt, sampler) {
	const { length, ...body } = { model: page.model, ...page.values() };
	if (sampler) body.sampler = sampler;
	if (length) body.max_tokens = length;
	if (!/\[\d+\]/.test(prompt)) return { kind: "text", path: "/v1/completions", body: { ...body, prompt } };
	delete body.max_tokens;
	return { kind: "text", path: "/v1/infill", body: { ...body, text: prompt } };
}

export class Text {
	constructor(page) {
		this.page = page;
		this.view = new TextView($("text"), (n) => {
			$("fill").hidden = !n;
			$("fill-count").textContent = `${n} ${n === 1 ? "piece becomes a hole" : "pieces become holes"}, the rest stays`;
		});
		this.timeline = new Timeline($("text-time"), (k, playing) => this.view.show(k, playing), stepLabel(() => this.current));
		$("fill-clear").onclick = () => this.view.clear();
		$("fill-run").onclick = () => page.start(() => this.fill());
	}

	make(prompt) { return this.run(request(this.page, prompt)); }

	/** fill asks for the text again with the marked pieces as holes. */
	fill() {
		const tokens = this.current.trace.tokens();
		for (const i of this.view.marked) tokens[i] = null;
		const { length, ...values } = this.page.values();
		if (values.steps) values.steps = Math.min(values.steps, this.view.marked.size);
		return this.run({ kind: "text", path: "/v1/infill", body: { model: this.page.model, ...values, tokens } });
	}

	run(run) {
		this.current = run;
		this.timeline.reset();
		$("fill").hidden = true;
		return play(this.page, run, this.timeline, {
			start: () => { this.view.load(run.trace); facts($("text-facts"), run); },
			done: () => finish("text", this.page, run, () => this.view.text),
		});
	}
}

/** Compare shows two samplers, with one slider by the share of positions that are open. */
export class Compare {
	constructor(page) {
		this.page = page;
		this.sides = ["first", "second"].map((name) => {
			const text = el("div", { className: "text", role: "listbox", ariaLabel: `Text of the ${name} sampler` });
			const s = { title: el("h2"), at: el("p", { className: "help" }), list: el("dl", { className: "facts" }), row: el("div", { className: "facts" }) };
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
		});
		timeline.reset();
		$("compare-note").textContent = "";
		const both = () => {
			const traces = sides.map((s) => s.run.trace);
			if (!traces.every(Boolean)) return;
			timeline.extend(Math.floor(100 * Math.min(...traces.map((t) => t.done ? 1 : t.share(t.last)))), 100);
			page.status(traces.map((t) => `step ${t.last} of ${t.steps || "…"}`).join(" and "));
		};
		const jobs = sides.map(({ run }) => ({ kind: run.path.slice(4), request: run.body }));
		await followJobs(jobs, page.signal, sides.map((s) => heard(page, s.run, timeline, {
			start: () => { s.title.textContent = s.run.trace.header.sampler; s.view.load(s.run.trace); both(); },
			step: both,
			done: () => { facts(s.list, s.run); actions(s.row, page, s.run, () => s.view.text); both(); },
		})));
		const [a, b] = sides.map((s) => s.run.trace.tokens()), n = sides[0].view.differ(b);
		sides[1].view.differ(a);
		$("compare-note").textContent = n ? `${n} of ${a.length} positions differ; they have dots above.` : "Both texts are the same.";
		timeline.finish(100);
	}
}

export class Chat {
	constructor(page) {
		this.page = page;
		this.messages = [];
		this.timeline = new Timeline($("chat-time"), (k, playing) => this.view?.show(k, playing), stepLabel(() => this.current));
	}

	async make(prompt) {
		const { length, ...values } = this.page.values(), { page } = this;
		const messages = [...this.messages, { role: "user", content: prompt }];
		const run = this.current = { kind: "text", path: "/v1/chat/completions", body: { model: page.model, messages, ...values } };
		if (length) run.body.max_tokens = length;
		const mine = el("p", { className: "bubble mine", textContent: prompt });
		const text = el("div", { className: "bubble text", role: "listbox", ariaLabel: "Answer" });
		$("talk").append(mine, text);
		this.view = null;
		this.timeline.reset();
		$("chat-bar").hidden = false;
		try {
			await play(page, run, this.timeline, {
				start: () => {
					const t = run.trace, from = t.entries(0).findIndex((e) => !e);
					this.view = new TextView(text);
					this.view.load(t, from);
				},
				done: () => {
					const { content } = run.answer.choices[0].message;
					this.messages = [...messages, { role: "assistant", content }];
					finish("chat", page, run, () => content);
					$("prompt").value = "";
				},
			});
		} catch (e) {
			mine.remove();
			text.remove();
			throw e;
		}
	}
}
