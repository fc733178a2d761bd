// The page: its modes, what runs, and the link that has all settings.
import { Failure, send, sleep } from "./api.js";
import { $, button, el, local, stays, tip } from "./dom.js";
import { Chat } from "./chat.js";
import { Decide } from "./decide.js";
import { Image } from "./image.js";
import { Settings } from "./settings.js";
import { Speech } from "./speech.js";
import { Compare, Text } from "./text.js";

const modes = { // button, help, and the first prompt
	text: ["Generate", "May be empty. [20] is a hole of 20 tokens, anywhere in the text.", "Once upon a time"],
	compare: ["Compare", "Both samplers get this text and the same seed.", "Once upon a time"],
	image: ["Generate", "", ""],
	chat: ["Send", "Enter sends, Shift and Enter begins a line.", ""],
	decide: ["Ask", "What the question is about.", ""],
	speech: ["Speak", "Words in brackets such as [laughter] or [sigh] are sounds.", "Good morning."],
};
const shared = { compare: "text" }; // modes with the settings of another one
const labels = { chat: "Message", decide: "State", speech: "Text" };
const rank = (u) => u.kind === "vectors" ? 2 : u.chat ? 1 : 0; // for questions
const narrow = matchMedia("(max-width: 60rem)");
const examples = ["Once upon a time", "Lily was a brave girl.", "Ben found a [3] in the garden.[30] They were happy."];

class Page {
	constructor(models, samplers, voices) {
		this.models = models;
		this.prompts = {};
		this.chosen = {}; // the settings of each mode
		this.said = "";
		this.fresh = location.hash.length < 2;
		this.settings = new Settings(models, samplers, voices, () => this.remember());
		$("examples").append(...examples.map((text) => button(text, () => { $("prompt").value = text; $("compose").requestSubmit(); })));
		this.panels = { text: new Text(this), compare: new Compare(this), image: new Image(this), chat: new Chat(this), decide: new Decide(this), speech: new Speech(this) };
		$("modes").append(...Object.keys(modes).filter((m) => this.able(m).length)
			.map((m) => button(m[0].toUpperCase() + m.slice(1), () => { history.pushState(null, "", location.href); this.show(m); this.visit(); }, { value: m })));
		$("compose").onsubmit = (e) => { e.preventDefault(); this.start(() => this.panels[this.mode].make($("prompt").value)); };
		$("prompt").onkeydown = (e) => {
			if (e.key !== "Enter" || e.isComposing || !(e.ctrlKey || e.metaKey || this.mode === "chat" && !e.shiftKey)) return;
			e.preventDefault();
			$("compose").requestSubmit();
		};
		$("prompt").oninput = () => { clear($("prompt")); this.remember(); };
		$("settings").addEventListener("input", (e) => clear(e.target));
		$("cancel").onclick = () => this.abort.abort();
		$("retry").onclick = () => this.start(this.again, true);
		addEventListener("keydown", (e) => this.key(e));
		addEventListener("hashchange", () => this.open());
		addEventListener("scroll", () => tip(), { passive: true });
		narrow.addEventListener("change", () => this.drawers());
		addEventListener("pagehide", () => this.abort?.abort());
		this.open();
		this.announce();
		$("run").disabled = false;
		this.status("");
		if (this.fresh) this.visit();
	}

	/** seen is kept once something was made in a mode. */
	get seen() { return this.mode === "text" ? "unmaskSeen" : "unmaskSeen-" + this.mode; }

	/** visit shows something at once when a mode is seen for the first time; who came by a link sees what that says. */
	visit() {
		const panel = this.panels[this.mode];
		if (local[this.seen] || !this.fresh && !local.unmaskSeen || !["text", "compare", "image", "decide"].includes(this.mode)) return;
		this.start(() => panel.first ? panel.first() : panel.make($("prompt").value));
	}

	/** able returns the models that can do a mode; of those that answer questions, the one that the server would ask is first. */
	able(mode) {
		return this.models.filter(({ unmask: u }) => mode === "chat" ? u.chat : mode === "decide" ? u.decides : mode === "speech" ? u.kind === "speech"
			: !["vectors", "speech"].includes(u.kind) && (u.kind === "image") === (mode === "image"))
			.sort(({ unmask: a }, { unmask: b }) => mode === "decide" ? rank(b) - rank(a) : 0);
	}

	get model() { return this.settings.model.id; }
	get info() { return this.settings.model.unmask; }
	get signal() { return this.abort.signal; }
	get samplers() { return [this.settings.a.text, this.settings.b.text]; }

	/** values are the settings of a run, with a seed that the page knows. */
	values() { return { seed: this.seed, ...this.settings.values() }; }

	/** leave keeps prompt and settings of a mode for when it is shown again. */
	leave() {
		if (!this.mode) return;
		for (const e of document.querySelectorAll("[aria-invalid]")) clear(e);
		if (!document.body.classList.contains("busy")) this.status(""); // it was about what is left
		this.prompts[this.mode] = $("prompt").value;
		this.chosen[shared[this.mode] || this.mode] = this.settings.link();
	}

	show(mode) {
		this.leave();
		this.mode = document.body.dataset.mode = mode;
		$("intro").hidden = !this.fresh || mode !== "text";
		$("cancel").textContent = mode === "chat" ? "Stop" : "Cancel";
		this.drawers();
		const [run, , first] = modes[mode];
		for (const b of $("modes").children) b.ariaPressed = b.value === mode;
		for (const p of document.querySelectorAll("[data-panel]")) p.hidden = p.dataset.panel !== mode;
		$("run").textContent = run;
		document.querySelector("[for=prompt]").textContent = labels[mode] || "Prompt";
		this.settings.show(mode, this.able(mode));
		this.settings.restore(this.chosen[shared[mode] || mode] || {});
		const field = $("prompt").parentNode;
		field.hidden = mode === "image" && !this.info.prompt;
		$("prompt").value = field.hidden ? "" : this.prompts[mode] || mode === "chat" && this.panels?.chat.draft || (this.prompts[mode] ?? first);
		this.remember();
		if (mode === "chat") this.panels?.chat.scroll(true);
	}

	/** drawers makes the settings of conversations a drawer and, on a narrow screen, the list of them. */
	drawers() {
		$("side").popover = this.mode === "chat" ? "auto" : null;
		$("chat-list").popover = narrow.matches ? "auto" : null;
	}

	/** open takes mode and settings from the address. */
	open() {
		const hash = location.hash.slice(1), { mode, prompt, run, tokens, ...given } = Object.fromEntries(new URLSearchParams(hash));
		if (this.mode && hash === this.written) return;
		const able = [...$("modes").children].map((b) => b.value), wanted = able.includes(mode) ? mode : able[0];
		this.leave();
		this.mode = null;
		if (mode) this.prompts[wanted] = prompt || "";
		this.show(wanted);
		const missing = this.settings.restore(given);
		if (mode && wanted !== mode) missing.unshift(`mode ${mode}`);
		this.remember();
		notice(missing.length ? `This server does not have ${missing.join(" or ")}, which the link names. The model's own is used instead.` : "", true);
		if (missing.length || !run) return;
		const panel = this.panels[this.mode], known = tokens?.split(".").map((t) => t === "_" ? null : +t);
		this.start(() => known && panel.refill ? panel.refill(known) : panel.make($("prompt").value));
	}

	/** remember writes all settings behind the # of the address, which is never sent. */
	remember() {
		if (this.mode === "image") this.panels.image.arrive();
		$("chat-model").textContent = this.model;
		$("system-box").hidden = !this.info.system && !$("system").value; // a template that leaves it out
		$("prompt-help").textContent = modes[this.mode][1] + (this.info.grows && this.mode === "text" ? " [?] is a hole whose length the model finds." : "");
		const set = Object.entries({ mode: this.mode, ...this.settings.link(), prompt: $("prompt").value }).filter(([, v]) => v);
		this.written = new URLSearchParams(set).toString();
		history.replaceState(null, "", "#" + this.written);
	}

	/** start runs one thing at a time; with same by the seed of the last. */
	async start(make, same) {
		this.abort?.abort();
		const abort = this.abort = new AbortController();
		this.again = make;
		stays(this.seen, 1);
		if (!same) this.seed = String(crypto.getRandomValues(new Uint32Array(1))[0]);
		const busy = (on) => {
			const held = document.activeElement;
			$("cancel").hidden = !document.body.classList.toggle("busy", on);
			if ([$("run"), $("cancel")].includes(held) && !held.checkVisibility()) $(on ? "cancel" : "run").focus();
		};
		busy(true);
		notice();
		for (const e of document.querySelectorAll("[aria-invalid]")) clear(e);
		this.status("sent");
		let failure, word = "done";
		const { timeline } = this.panels[this.mode];
		await Promise.resolve().then(make).catch((e) => { if (e.name === "AbortError") word = this.mode === "chat" ? "stopped" : "cancelled"; else failure = e; });
		if (abort !== this.abort) return;
		busy(false);
		if (failure || word !== "done") timeline.pause();
		this.status(failure ? "" : word);
		if (word === "done" && !failure) { // it is done when it is shown
			this.status("showing");
			await timeline.settled();
			if (abort === this.abort) this.status(word);
		}
		if (failure) this.fail(failure);
	}

	/** wrong makes an error of a field. */
	wrong(param, message) { return new Failure(400, message, "", 0, param); }

	/** fieldOf is the input of a request's field, null where none is shown. */
	fieldOf(param = "") {
		if (this.mode === "decide") return $({ ask: "ask", questions: "options", state: "prompt", model: "set-model" }[param]);
		const name = /^(prompt|text|parts|messages|input$)/.test(param) ? "prompt" : param === "max_tokens" ? "set-length" : param === "sampler" || param === "model" ? { sampler: "sampler", model: "set-model" }[param] : "set-" + param.replaceAll("_", "-");
		const input = param && $(name);
		return input && !input.closest("[hidden]") ? input : null;
	}

	fail(e) {
		if (!(e instanceof Failure)) console.error(e);
		const input = this.fieldOf(e.param);
		if (input) {
			const details = input.closest("details");
			if (details) details.open = true;
			input.closest("[popover]:not(:popover-open)")?.showPopover();
			input.ariaInvalid = true;
			input.after(el("p", { className: "error", id: input.id + "-error", textContent: this.said = e.message }));
			input.focus();
			return;
		}
		notice(e.status ? e.message : e.message + " The same seed gives the same result again.");
		this.said = $("notice-text").textContent;
	}

	note(words) { notice(words, true); }

	say(words) { this.said = words; }

	status(words) {
		$("status").textContent = this.said = words;
	}

	/** announce tells screen readers what was said last, every two seconds. */
	announce() {
		if ($("live").textContent !== this.said) $("live").textContent = this.said;
		setTimeout(() => this.announce(), 2000);
	}

	/** key plays and steps wherever a key has no use of its own. */
	key(e) {
		if (e.key === "Escape") tip();
		if (e.key.toLowerCase() === "o" && e.shiftKey && (e.ctrlKey || e.metaKey) && this.mode === "chat") { e.preventDefault(); return $("chat-new").click(); }
		const t = this.panels[this.mode].timeline;
		if (e.ctrlKey || e.metaKey || e.altKey || !t.max || e.target.closest("input, textarea, select, button, summary, dialog, [tabindex='0']")) return;
		if (e.key === " ") t.toggle();
		else if (e.key === "ArrowRight" || e.key === "ArrowLeft") t.move(e.key === "ArrowRight" ? 1 : -1);
		else return;
		e.preventDefault();
	}
}

function notice(words = "", final) {
	$("notice-text").textContent = words;
	$("notice").hidden = !words;
	$("retry").hidden = !!final;
}

/** clear takes an error from a field. */
function clear(input) {
	if (!input.ariaInvalid) return;
	input.ariaInvalid = null;
	$(input.id + "-error")?.remove();
}

const root = document.documentElement.dataset, systemDark = matchMedia("(prefers-color-scheme: dark)");
if (local.theme) root.theme = local.theme;
$("theme").onclick = () => {
	root.theme = (root.theme || (systemDark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
	stays("theme", root.theme);
};

const coloured = (on) => { $("colours").ariaPressed = document.body.classList.toggle("coloured", on); };
coloured(local.unmaskColours === "1");
$("colours").onclick = () => { coloured(!document.body.classList.contains("coloured")); stays("unmaskColours", +document.body.classList.contains("coloured")); };

for (const load = async (path) => (await send(path)).json(); !window.page;) {
	try {
		const [models, samplers] = await Promise.all([load("/v1/models"), load("/v1/samplers")]);
		if (!models.data.length) throw new Failure(0, "The models are still loading.");
		if (models.data.every(({ unmask: u }) => u.kind === "vectors" && !u.decides && !u.chat)) throw new Failure(0, "None of the served models has a panel here; the API has them.");
		notice();
		const { voices } = models.data.some((m) => m.unmask.kind === "speech") ? await load("/v1/audio/voices") : {};
		window.page = new Page(models.data, samplers, voices?.map((v) => v.id));
		document.body.classList.add("ready");
	} catch (e) {
		notice(e.message);
		if (!(e instanceof Failure)) throw e;
		await Promise.race([sleep(e.status === 401 ? 1e9 : 1500), new Promise((r) => { $("retry").onclick = r; })]);
	}
}
