// The form of settings, made of what the server has.
import { $, el } from "./dom.js";

const own = [
	{ name: "length", label: "New tokens", kind: "whole", help: "at most; empty for all that there is room for", mode: "text" },
	{ name: "class", help: "what the picture is of, by name or number", mode: "image" },
	{ name: "seed", help: "empty for another one each time" },
];

/** field makes a label, an input and a line of help. */
function field({ name, label = name[0].toUpperCase() + name.slice(1).replaceAll("-", " "), help = "", words, default: usual = "" }, id = "set-" + name) {
	const about = { id, "aria-describedby": id + "-help" };
	const input = words ? el("select", about, new Option("default", ""), ...words.map((w) => new Option(w))) : el("input", { ...about, placeholder: usual });
	return el("div", { className: "field" }, el("label", { htmlFor: id, textContent: label }), input, el("p", { className: "help", id: id + "-help", textContent: help.replace(/--/g, "") }));
}

/** Picker chooses a sampler, its parameters and what is inside it. */
class Picker {
	constructor(id, samplers, label) {
		const root = field({ name: id, label, words: samplers.map((s) => s.name) }, id);
		Object.assign(this, { id, samplers, params: el("div", { className: "params" }) });
		[this.label, this.select, this.line] = root.children;
		this.select.onchange = () => this.fill();
		this.root = el("div", {}, root, this.params);
		this.fill();
	}

	fill() {
		const s = this.samplers.find((s) => s.name === this.select.value), list = [...s?.parameters || []];
		if (s?.inside) list.unshift({ name: "inside", help: s.inside + ", by name" });
		this.line.replaceChildren(s ? s.line + ". " : "What the model runs with when nothing is chosen.", el("div", { textContent: s?.paper || "" }));
		this.params.replaceChildren(...list.map((p) => field(p, this.id + "-" + p.name)));
		this.inputs = new Map(list.map((p, i) => [p.name, this.params.children[i].children[1]]));
	}

	/** text is the sampler as the command reads it: semi-ar(hybrid,block=16). */
	get text() {
		const given = [...this.inputs].filter(([, i]) => i.value).map(([k, i]) => k === "inside" ? i.value : `${k}=${i.value}`);
		return this.select.value + (given.length ? `(${given})` : "");
	}

	set text(text) {
		const [, name, args = ""] = /^([^(]*)(?:\((.*)\))?$/s.exec(text) || [], inside = [];
		this.select.value = name;
		if (this.select.selectedIndex < 0) this.select.value = "";
		this.fill();
		for (const part of args.match(/(?:[^,()]|\([^)]*\)+)+/g) || []) {
			const [k, v] = part.split("="), input = this.inputs.get(k);
			if (v && input) input.value = v;
			else inside.push(part);
		}
		if (this.inputs.has("inside")) this.inputs.get("inside").value = inside;
	}
}

export class Settings {
	constructor(models, { data, schedules, parameters }, changed) {
		const form = $("settings"), seen = ["sampler", "steps", "ban", "bias"];
		this.fields = [parameters.find((p) => p.name === "steps"), ...own, ...parameters.filter((p) => !seen.includes(p.name)).map((p) => p.name === "schedule" ? { ...p, words: schedules } : p)];
		this.models = models;
		this.a = new Picker("sampler", data, "Sampler");
		this.b = new Picker("other", data, "Second sampler");
		const model = field({ name: "model", words: [] });
		this.select = model.children[1];
		const [first, rest] = [this.fields.slice(0, 4), this.fields.slice(4)].map((list) => list.map((f) => field(f)));
		form.append(model, this.a.root, this.b.root, ...first, el("details", {}, el("summary", { textContent: "More settings" }), ...rest));
		form.oninput = () => { this.describe(); changed(); };
		form.onsubmit = (e) => e.preventDefault();
		this.b.text = "random";
	}

	/** show arranges the form for a mode with the models that can do it. */
	show(mode, models) {
		const kept = this.select.value;
		this.mode = mode;
		this.select.replaceChildren(...models.map((m) => new Option(m.id, m.id, false, m.id === kept)));
		this.b.root.hidden = mode !== "compare";
		this.a.label.textContent = mode === "compare" ? "First sampler" : "Sampler";
		this.describe();
	}

	get model() { return this.models.find((m) => m.id === this.select.value); }

	/** describe shows what the model is and runs with. */
	describe() {
		const { kind, shape, precision, device, recipe = "", class_count: classes, classes: names } = this.model?.unmask || {};
		$("set-model-help").textContent = [shape?.join(" × ") + (kind === "image" ? " cells" : " tokens"), precision, device].join(" · ");
		for (const part of recipe.split(" ")) {
			const [k, v] = part.split(/=(.*)/), input = $(k === "sampler" ? k : "set-" + k);
			if (input?.options) input.options[0].text = `default (${v})`;
			else if (input) input.placeholder = v;
		}
		for (const f of own) $("set-" + f.name).parentNode.hidden = f.mode && (f.mode === "image") !== (kind === "image") || f.name === "class" && !classes;
		$("set-class").placeholder = names?.slice(0, 4).join(", ") || "";
	}

	/** values are the fields that are set, as the server takes them. */
	values() {
		const out = this.a.text ? { sampler: this.a.text } : {};
		for (const f of this.fields) {
			const input = $("set-" + f.name), v = input.value.trim();
			if (v && !input.parentNode.hidden) out[f.name.replace("-", "_")] = /whole|number/.test(f.kind) && +v === +v ? +v : v; // what is no number the server names
		}
		return out;
	}

	/** link is all that is set, for an address; restore takes it. */
	link() {
		const out = { model: this.select.value, sampler: this.a.text, other: this.mode === "compare" && this.b.text };
		for (const f of this.fields) out[f.name] = $("set-" + f.name).value;
		return out;
	}

	restore({ model, sampler, other, ...given }) {
		if (this.models.some((m) => m.id === model)) this.select.value = model;
		if (sampler) this.a.text = sampler;
		if (other) this.b.text = other;
		this.fields.forEach((f, i) => {
			if (!given[f.name]) return;
			$("set-" + f.name).value = given[f.name];
			if (i > 3) $("settings").querySelector("details").open = true;
		});
		this.describe();
	}
}
