// A run: its request, its trace as it comes, and what it can be taken along as.
import { follow, hasKey } from "./api.js";
import { $, el, save, toast } from "./dom.js";
import { Trace } from "./trace.js";

/** play follows a run and shows it by a timeline, or by on.step; on has start and done. */
export function play(page, run, timeline, on) {
	return follow(run.path, run.form || run.body, page.signal, {
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
			timeline.extend(t.last, t.steps, t.changed);
			page.status(`step ${t.last} of ${t.steps}, ${t.open[t.last]} of ${t.length} open`);
		},
		done: (answer) => {
			run.answer = answer;
			run.trace.done = true;
			on.done();
			if (!on.step) timeline.finish(run.trace.last);
		},
	});
}

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

async function copy(what, text) {
	try {
		await navigator.clipboard.writeText(text);
	} catch { // plain http from elsewhere has no clipboard
		const area = document.body.appendChild(el("textarea", { value: text }));
		area.select();
		document.execCommand("copy");
		area.remove();
	}
	toast(`Copied the ${what}`);
}

/** actions fills a row of buttons; files are pairs of a name and what is saved. */
export function actions(root, run, text, files = []) {
	const row = (label, list) => el("div", { className: "group" }, el("span", { textContent: label }),
		...list.map(([name, onclick]) => el("button", { type: "button", textContent: name, "aria-label": `${label} ${name}`, onclick })));
	const copies = [["link", () => location.href]], line = command(run);
	if (!run.form) copies.unshift(["curl", () => curl(run)], ["Python", () => python(run)]);
	if (line) copies.unshift(["command", () => line]);
	if (text) copies.unshift(["text", text]);
	const name = "unmask-" + run.body.seed;
	root.replaceChildren(row("Copy", copies.map(([what, get]) => [what, () => copy(what, get())])), row("Save", [
		...files.map(([what, get]) => [what, () => save(`${name}.${what.toLowerCase()}`, get())]),
		["trace", () => save(name + ".jsonl", run.lines.join("\n") + "\n")],
		["JSON", () => save(name + ".json", JSON.stringify(run.answer, null, 1))],
	]));
}

export function facts(root, run) {
	const u = run.answer?.unmask || {}, e = u.evaluated || {}, t = run.trace;
	const list = { seed: run.body.seed, sampler: u.sampler || t.header.sampler, steps: t.last || "…", "full passes": e.full_passes, "partial rows": e.partial_rows,
		"head rows": e.head_rows, seconds: u.seconds?.toFixed(2), waited: u.queue_seconds >= 0.01 ? u.queue_seconds.toFixed(2) : undefined };
	root.replaceChildren(...Object.entries(list).filter(([, v]) => v !== undefined)
		.map(([k, v]) => el("div", {}, el("dt", { textContent: k }), el("dd", { textContent: v }))));
}

export function finish(name, run, text, files) {
	facts($(name + "-facts"), run);
	actions($(name + "-actions"), run, text, files);
}
