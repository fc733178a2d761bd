// A run: its request, its trace as it comes, and what it can be taken along as.
import { follow, hasKey } from "./api.js";
import { $, button, el, save } from "./dom.js";
import { Trace } from "./trace.js";

/** heard takes in the events of a run, and shows them by a timeline or by on.step; on has start and done. */
export const heard = (page, run, timeline, on) => ({
	wait: (seconds, code) => page.status(`${code === "loading" ? "The model is loading" : "The server is busy"}. Trying again in ${seconds} s`),
	start: (header, text) => {
		run.trace = new Trace(header);
		run.lines = [text];
		page.status(header.ahead ? `${header.ahead} ahead, about ${header.wait_seconds.toFixed(1)} s` : "starting");
		on.start();
	},
	step: (line, text) => {
		const t = run.trace;
		t.add(line);
		run.lines.push(text);
		if (on.step) return on.step();
		timeline.extend(t.last, t.steps);
		page.status(`step ${t.last} of ${t.steps}, ${t.open[t.last]} of ${t.length} open`);
	},
	done: (answer) => {
		run.answer = answer;
		run.trace.done = true;
		on.done();
		if (!on.step) timeline.finish(run.trace.last);
	},
});

/** play follows a run. */
export const play = (page, run, timeline, on) => follow(run.path, run.form || run.body, page.signal, heard(page, run, timeline, on));

export const stepLabel = (get) => (k) => {
	const t = get()?.trace;
	return t ? `step ${k} of ${t.done ? t.last : t.steps || "…"}` : "";
};

const quote = (s) => /^[\w.,:=/-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'";
const json = (body) => JSON.stringify(body).replace(/"seed":"(\d+)"/, '"seed":$1'); // the digits of a seed that JavaScript has no number for

/** command writes a run as unmask's command, "" where there is none. */
export function command(run) {
	const { model, messages, text, tokens, prompt, max_tokens, ...rest } = run.body, image = run.kind === "image";
	const out = ["unmask", image ? "image" : "text", "--model", model], add = (flag, v) => v === undefined || v === "" || out.push("--" + flag, quote(String(v)));
	if (tokens || run.form || messages?.length > 1) return "";
	add("chat", messages?.[0].content);
	add("infill", text);
	add("prompt", prompt);
	if (image) out.push("-n", 1);
	else if (!text) add("length", run.trace.length);
	for (const [k, v] of Object.entries(rest)) add(k.replace("_", "-"), v);
	return out.join(" ");
}

const curl = (run) => `curl -s ${location.origin}${run.path} -H 'Content-Type: application/json'${hasKey() ? ' -H "Authorization: Bearer $UNMASK_KEY"' : ""} -d ${
	quote(json(run.body.prompt && run.kind === "text" ? { ...run.body, echo: true } : run.body))}`;

const python = (run) => `import os
from openai import OpenAI

client = OpenAI(base_url="${location.origin}/v1", api_key=os.environ.get("UNMASK_KEY", "none"))
print(client.post("${run.path.slice(3)}", body=${json(run.body).replace(/\bnull\b/g, "None")}, cast_to=object))
`;

async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
	} catch { // plain http from elsewhere has no clipboard
		const area = document.body.appendChild(el("textarea", { value: text }));
		area.select();
		document.execCommand("copy");
		area.remove();
	}
}

/** actions fills a row of buttons; files are pairs of a name and what is saved. */
export function actions(root, page, run, text, files = []) {
	const row = (label, list, act) => el("div", { className: "group" }, label, ...list.map(([what, get]) => button(what, async () => {
		try {
			await act(what, await get());
			page.status(`${label}: ${what}`);
		} catch (e) {
			page.fail(e);
		}
	}, { ariaLabel: `${label} ${what}` })));
	const copies = [["link", () => location.href]], line = command(run);
	if (!run.form) copies.unshift(["curl", () => curl(run)], ["Python", () => python(run)]);
	if (line) copies.unshift(["command", () => line]);
	if (text) copies.unshift(["text", text]);
	root.replaceChildren(row("Copy", copies, (_, it) => copy(it)), row("Save", [...files,
		["trace", () => run.lines.join("\n") + "\n"], ["JSON", () => JSON.stringify(run.answer, null, 1)],
	], (what, it) => save(`unmask-${run.body.seed}.${what === "trace" ? "jsonl" : what.toLowerCase()}`, it)));
}

export function facts(root, run) {
	const u = run.answer?.unmask || {}, e = u.evaluated || {}, t = run.trace;
	const list = { seed: run.body.seed, sampler: u.sampler || t.header.sampler, steps: t.last || "…", "full passes": e.full_passes, "partial rows": e.partial_rows,
		"head rows": e.head_rows, seconds: u.seconds?.toFixed(2) };
	root.replaceChildren(...Object.entries(list).filter(([, v]) => v !== undefined)
		.map(([k, v]) => el("div", {}, el("dt", { textContent: k }), el("dd", { textContent: v }))));
}

export function finish(name, page, run, text, files) {
	facts($(name + "-facts"), run);
	actions($(name + "-actions"), page, run, text, files);
}
