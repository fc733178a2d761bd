// A run: its request, its trace as it comes, and what it can be taken along as.
import { follow, hasKey } from "./api.js";
import { $, button, copy, el, save } from "./dom.js";
import { Trace } from "./trace.js";

const waits = { loading: "The model is loading", shutting_down: "The server is shutting down", draining: "The server is shutting down" };

/** heard takes in the events of a run, and shows them by a timeline or by on.step; on has start and done. */
const heard = (page, run, timeline, on) => ({
	wait: (seconds, code) => page.status(`${waits[code] || "The server is busy"}. Trying again in ${seconds} s`),
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
		page.status("opening");
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
/** texts are the values of a run's settings as fields of the page, and so links, have them. */
const texts = (body) => Object.fromEntries(Object.entries(body).map(([k, v]) => [k, k === "schema" ? JSON.stringify(v) : k === "choice" ? v.join("\n") : v]));
/** csv is a list as flags have it. */
const csv = (list) => list.map((v) => /[",\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v).join(",");
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
	else if (!text) add("length", run.trace.length - (run.trace.header.around || 0));
	for (const [k, v] of Object.entries(rest)) if (k !== "schema") add(k.replace("_", "-"), k === "choice" ? csv(v) : v);
	return (rest.schema ? `printf '%s\\n' ${quote(JSON.stringify(rest.schema))} | ` : "") + out.join(" ") + (rest.schema ? " --schema /dev/stdin" : "");
}

export const curl = (run) => `curl -s ${location.origin}${run.path} -H 'Content-Type: application/json'${hasKey() ? ' -H "Authorization: Bearer $UNMASK_KEY"' : ""} -d ${
	quote(json(run.body.prompt && run.kind === "text" ? { ...run.body, echo: true } : run.body))}`;

/** py writes a value as Python does. */
const py = (v) => v === null ? "None" : v === true ? "True" : v === false ? "False"
	: Array.isArray(v) ? `[${v.map(py).join(", ")}]`
	: typeof v === "object" ? `{${Object.entries(v).map(([k, v]) => `${py(k)}: ${py(v)}`).join(", ")}}`
	: JSON.stringify(v);

const calls = { "/v1/completions": ["completions.create", "choices[0].text"], "/v1/chat/completions": ["chat.completions.create", "choices[0].message.content"],
	"/v1/images/generations": ["images.generate", "data[0].b64_json"] };
const openAIs = ["model", "prompt", "messages", "max_tokens", "temperature", "top_p", "n"];

/** python writes a run with the calls of OpenAI's package; what is not OpenAI's goes into extra_body. */
export function python(run) {
	const [call, result] = calls[run.path] || [], { seed, ...body } = run.body, own = {}, extra = { seed: Symbol.for(seed) };
	const write = (o) => Object.entries(o).map(([k, v]) => `${py(k)}: ${typeof v === "symbol" ? v.description : py(v)}`).join(", ");
	for (const [k, v] of Object.entries(body)) (call && openAIs.includes(k) && (k !== "temperature" && k !== "top_p" && k !== "max_tokens" || run.kind === "text") ? own : extra)[k] = v;
	const lines = call ? [...Object.entries(own).map(([k, v]) => `${k}=${py(v)}`), `extra_body={${write(extra)}}`] : [`"${run.path.slice(3)}"`, `body={${write(extra)}}`, "cast_to=object"];
	return `import os
from openai import OpenAI

client = OpenAI(base_url="${location.origin}/v1", api_key=os.environ.get("UNMASK_KEY", "none"))
answer = client.${call || "post"}(
    ${lines.join(",\n    ")},
)
print(${result ? "answer." + result : 'answer["choices"][0]["text"]'})
`;
}

/** linkOf is the address of a run, with its seed, "" where an address cannot carry it. */
function linkOf(page, run) {
	const { model, messages, text, tokens, prompt, max_tokens, ...rest } = run.body;
	if (run.form || messages?.length > 1) return "";
	const given = Object.fromEntries(Object.entries(texts(rest)).map(([k, v]) => [k.replaceAll("_", "-"), v]));
	const out = { mode: page.mode, run: 1, model, ...given, other: page.mode === "compare" && page.samplers[1], prompt: prompt ?? text ?? messages?.[0].content };
	if (page.mode === "compare") out.sampler = page.samplers[0];
	if (max_tokens) out.length = max_tokens;
	if (tokens) out.tokens = tokens.map((t) => t ?? "_").join(".");
	return location.href.split("#")[0] + "#" + new URLSearchParams(Object.entries(out).filter(([, v]) => v !== undefined && v !== false && v !== ""));
}

/** actions fills a row of buttons; files are pairs of a name and what is saved. */
export function actions(root, page, run, text, files = []) {
	const row = (label, past, list, act) => el("div", { className: "group" }, label, ...list.map(([what, get]) => {
		const b = button(what, async () => {
			try {
				await act(what, await get());
				b.textContent = past;
				page.say(`${what} ${past}`);
				setTimeout(() => { b.textContent = what; }, 1500);
			} catch (e) {
				page.fail(e);
			}
		}, { ariaLabel: `${label} ${what}` });
		return b;
	}));
	const copies = [], line = command(run), link = linkOf(page, run);
	if (text) copies.push(["text", text]);
	if (line) copies.push(["command", () => line]);
	if (!run.form) copies.push(["curl", () => curl(run)], ["Python", () => python(run)]);
	if (link) copies.push(["link", () => link]);
	root.replaceChildren(row("Copy", "copied", copies, (_, it) => copy(it)), row("Save", "saved", [...files,
		["trace", () => run.lines.join("\n") + "\n"], ["JSON", () => JSON.stringify(run.answer, null, 1)],
	], (what, it) => save(`unmask-${run.body.seed}.${what === "trace" ? "jsonl" : what.toLowerCase()}`, it)));
	if (!link) root.append(el("p", { className: "help", textContent: run.form ? "A link cannot carry a picture of yours or what is painted on it." : "A link cannot carry a conversation; save it instead." }));
}

/** perSecond is how many tokens of an answer came in a second of its run, undefined of what has none. */
function perSecond(answer) {
	const rate = answer?.usage?.completion_tokens / answer?.unmask?.seconds;
	return Number.isFinite(rate) ? rate.toFixed(rate < 10 ? 1 : 0) : undefined;
}

export function facts(root, run) {
	const u = run.answer?.unmask || {}, e = u.evaluated || {}, t = run.trace, list = (of) => el("dl", { className: "facts" },
		...Object.entries(of).filter(([, v]) => v !== undefined).map(([k, v]) => el("div", {}, el("dt", { textContent: k }), el("dd", { textContent: v }))));
	const open = root.querySelector("details")?.open, choices = run.answer?.choices?.[0].choices || [];
	root.replaceChildren(list({ seed: run.body.seed, sampler: u.sampler || t.header.sampler, steps: t.done ? t.last : undefined, seconds: u.seconds?.toFixed(2), "tokens a second": perSecond(run.answer) }));
	if (choices.length) root.append(el("p", { className: "facts help", textContent: "Probability of each choice" }), list(Object.fromEntries(choices.map((c) => [c.text.trim(), c.probability.toPrecision(3)]))));
	if (!run.answer) return;
	const more = el("details", { open }, el("summary", { textContent: "Details" }), list({ "passes over all positions": e.full_passes, "positions in partial passes": e.partial_rows,
		"rows of the output head": e.head_rows, "drafted tokens that were right": e.drafted ? `${e.accepted} of ${e.drafted}` : undefined,
		"positions known from an earlier request": e.recalled, "seconds in the queue": u.queue_seconds?.toFixed(2), settings: u.recipe }));
	root.append(more);
}

/** begin shows a run that has just started, without what could be done with the one before. */
export function begin(name, run) {
	facts($(name + "-facts"), run);
	$(name + "-actions").replaceChildren();
}

export function finish(name, page, run, text, files) {
	facts($(name + "-facts"), run);
	actions($(name + "-actions"), page, run, text, files);
}
