// Conversations: kept in the browser, shown above the field in which the next message is written.
import { $, button, el, save } from "./dom.js";
import { finish, play, stepLabel, copy } from "./run.js";
import { TextView } from "./textview.js";
import { Timeline } from "./timeline.js";
import { texts } from "./trace.js";

const store = "unmask-chats", mostKept = 100;
const suggestions = ["Hello!", "Tell me a story.", "What can you do?"];

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2);

/** sound reports whether a thing from the store is a conversation. */
const sound = (c) => c && typeof c.id === "string" && Array.isArray(c.messages) && c.messages.every((m) => m && typeof m.role === "string" && typeof m.content === "string");

/** stored reads the conversations of all windows; what is none of ours is put aside. */
function stored() {
	const text = localStorage[store] || "[]";
	try {
		const all = JSON.parse(text);
		for (const c of all) c.id ??= newId(); // of an earlier page
		if (all.every(sound)) return all;
	} catch { /* as below */ }
	localStorage[store + "-unreadable"] = text;
	localStorage.removeItem(store);
	return [];
}

const fresh = () => ({ id: newId(), changed: 0, system: "", messages: [], branches: {} });

// A conversation is a tree, of which one path is shown: messages. Where an answer was made again or a message was
// edited, branches[i].list has what followed in its other versions, and at is the one that is shown.
const tail = (c, i) => ({ messages: c.messages.slice(i), branches: Object.fromEntries(Object.entries(c.branches || {}).filter(([k]) => k > i)) });

/** grow makes message i and what follows a version beside a new one. */
function grow(c, i) {
	c.branches ??= {};
	const b = c.branches[i] ||= { list: [null], at: 0 };
	b.list[b.at] = tail(c, i);
	b.at = b.list.push(null) - 1;
	for (const k of Object.keys(c.branches)) if (k > i) delete c.branches[k];
}

/** turn shows another version of message i. */
function turn(c, i, by) {
	const b = c.branches[i], to = b.at + by;
	b.list[b.at] = tail(c, i);
	const { messages, branches } = b.list[to];
	for (const k of Object.keys(c.branches)) if (k > i) delete c.branches[k];
	Object.assign(c.branches, branches);
	c.messages = [...c.messages.slice(0, i), ...messages];
	b.at = to;
}

export class Chat {
	constructor(page) {
		this.page = page;
		this.all = stored();
		this.timeline = new Timeline($("chat-time"), (k, playing) => { this.view?.show(k, playing); this.scroll(); }, stepLabel(() => this.current));
		$("chat-new").onclick = () => { this.begin(); $("prompt").focus(); };
		$("chat-delete").onclick = () => this.delete();
		$("chat-undo").onclick = () => {
			const chat = this.deleted;
			this.deleted = null;
			this.all.unshift(chat);
			this.open(chat);
			this.changed();
		};
		$("chats").onchange = () => this.open(this.all[$("chats").selectedIndex]);
		$("chat-markdown").onclick = () => save("unmask-chat.md", this.markdown());
		$("system").oninput = () => { this.chat.system = $("system").value; this.changed(); };
		addEventListener("storage", (e) => e.key === store && this.meet());
		this.open(this.all[0]);
	}

	get messages() { return this.chat.messages; }

	/** begin opens a conversation without a message; one is enough. */
	begin() { this.open(this.all.find((c) => !c.messages.length && !c.system)); }

	open(chat = fresh()) {
		if (this.page.mode === "chat") this.page.abort?.abort();
		if (!this.all.includes(chat)) this.all.unshift(chat);
		this.chat = chat;
		this.asked = this.edited = null;
		$("chat-undo").hidden = !this.deleted;
		$("system").value = chat.system;
		$("system-box").open = !!chat.system;
		this.view = this.current = null;
		$("about-chat").hidden = $("chat-time").hidden = true;
		this.render();
	}

	delete() {
		this.deleted = this.chat;
		this.all = this.all.filter((c) => c !== this.chat);
		this.open(this.all[0]);
		this.keep();
	}

	/** meet takes in what other windows have kept: of two the later, and what they deleted goes. */
	meet() {
		const kept = stored(), here = new Map(this.all.map((c) => [c.id, c]));
		for (const c of kept) {
			const own = here.get(c.id);
			if (own) { if (c.changed > own.changed && !this.asked) Object.assign(own, c); } else if (c.id !== this.deleted?.id) this.all.push(c);
		}
		this.all = this.all.filter((c) => c === this.chat || !c.kept || kept.some((k) => k.id === c.id));
		for (const c of kept) if (here.has(c.id)) here.get(c.id).kept = true;
		if (this.asked) this.list();
		else this.render();
	}

	/** changed keeps a conversation that has changed here. */
	changed() {
		this.chat.changed = Date.now();
		this.keep();
	}

	/** keep writes what is here over what other windows have kept before. */
	keep() {
		const here = new Map(this.all.map((c) => [c.id, c]));
		for (const c of stored()) {
			const own = here.get(c.id);
			if (!own && c.id !== this.deleted?.id) this.all.push(c);
			else if (own && own !== this.chat && c.changed > own.changed) Object.assign(own, c);
		}
		try {
			const kept = this.all.filter((c) => c.messages.length || c.system || c.draft).slice(0, mostKept);
			for (const c of kept) c.kept = true;
			if (kept.length) localStorage[store] = JSON.stringify(kept);
			else localStorage.removeItem(store);
		} catch { /* a browser without room keeps what it has */ }
		this.list();
	}

	list() {
		const title = (c) => c.messages[0]?.content.slice(0, 40) || "New chat";
		$("chats").replaceChildren(...this.all.map((c) => new Option(title(c), "", false, c === this.chat)));
		$("chat-markdown").disabled = !this.messages.length;
	}

	/** render shows all messages as text, with what can be done with each. */
	render() {
		const list = this.asked || this.messages;
		$("talk").replaceChildren(...list.flatMap((m, i) => this.bubble(m, i)));
		if (!list.length) {
			$("talk").append(el("p", { className: "help", textContent: "Write a message below. The model's answer opens all at once, in the sampler's order." }),
				el("div", { className: "group" }, ...suggestions.map((text) => button(text, () => this.page.start(() => this.make(text))))));
		}
		this.list();
		this.scroll(true);
	}

	bubble(m, i) {
		if (m.role === "user") return [el("div", { className: "bubble mine" }, ...this.edited === i ? this.editor(m, i) : [el("p", { textContent: m.content }), this.acts(...this.versions(i), ["Edit", () => this.edit(i)])])];
		const text = el("div", { className: "text" }, m.content.trim());
		const note = m.stopped ? "stopped" : !m.content.trim() ? "The answer is empty. Ask in other words, make it again or begin a new chat." : m.of && m.shown < m.of ? `ended after ${m.shown} of ${m.of} tokens` : m.cut ? `cut off at ${m.of} tokens: a larger length has room for more` : "";
		return [el("div", { className: "bubble" }, text, el("p", { className: "help", textContent: note }), this.answerActs(m, i))];
	}

	answerActs(m, i) {
		const list = [...this.versions(i), ["Copy", async (b) => { await copy(m.content); b.textContent = "Copied"; setTimeout(() => { b.textContent = "Copy"; }, 1500); }]];
		if (i === this.messages.length - 1) list.push(["Regenerate", () => this.again()]);
		return this.acts(...list);
	}

	/** versions are the buttons to other versions of a message. */
	versions(i) {
		const b = this.chat.branches?.[i];
		if (!b || this.asked) return [];
		const to = (by) => () => { turn(this.chat, i, by); this.changed(); this.open(this.chat); };
		return [["\u2039", to(-1), { disabled: !b.at, ariaLabel: "Version before" }], [`${b.at + 1}/${b.list.length}`, null, { disabled: true }],
			["\u203A", to(1), { disabled: b.at === b.list.length - 1, ariaLabel: "Next version" }]];
	}

	acts(...list) { return el("div", { className: "group acts" }, ...list.map(([name, act, props]) => { const b = button(name, () => act(b), props); return b; })); }

	/** editor is a message as a field; what was sent stays until another answer is there. */
	editor(m, i) {
		const field = el("textarea", { value: m.content, rows: 2, ariaLabel: "Edited message" });
		setTimeout(() => field.focus());
		return [field, this.acts(["Send", () => this.page.start(() => this.make(field.value, { seed: this.page.seed }, i))], ["Cancel", () => { this.edited = null; this.render(); }])];
	}

	edit(i) {
		this.page.abort?.abort();
		this.asked = null;
		this.edited = i;
		this.render();
	}

	/** again asks for the last answer with another seed than that of the settings. */
	again() {
		const last = this.messages.findLastIndex((m) => m.role === "user");
		this.page.start(() => this.make(this.messages[last].content, { seed: this.page.seed }, last + 1));
	}

	scroll(force) {
		const t = $("talk");
		if (force || t.scrollHeight - t.scrollTop - t.clientHeight < 160) t.scrollTop = t.scrollHeight;
	}

	/** make asks for an answer. The message is a new one or, with at, takes the place of message at, or of the answer there. */
	async make(prompt, other = {}, at) {
		prompt = prompt.trim();
		if (!prompt) throw this.page.wrong("prompt", "The message is empty.");
		const { page, chat } = this;
		if (at === undefined && chat.draft) prompt = chat.draft + "\n" + prompt; // which has no answer yet
		const fresh = at === undefined, edits = chat.messages[at]?.role === "user", from = fresh ? chat.messages.length : edits ? at : at - 1;
		const asked = this.asked = [...chat.messages.slice(0, from), { role: "user", content: prompt }];
		this.edited = null;
		if (fresh) {
			chat.draft = prompt; // until it has an answer
			$("prompt").value = "";
			page.remember();
			this.changed();
		}
		try {
			await this.answer(asked, other, (content, more) => {
				if (!fresh) grow(chat, at);
				chat.messages = [...asked, { role: "assistant", content, ...more }];
				delete chat.draft;
				this.asked = null;
				this.changed();
			});
		} finally {
			if (this.asked === asked) { // there is no answer: all is as before
				this.asked = null;
				if (fresh && chat.draft === prompt) {
					delete chat.draft;
					if (!$("prompt").value.trim()) $("prompt").value = prompt;
				}
				this.changed();
				this.render();
			}
		}
	}

	/** answer follows a run, and hands over what the model says. */
	async answer(asked, other, done) {
		const { length, ...values } = this.page.values(), { page, chat } = this;
		const messages = asked.slice(Math.min(chat.left || 0, asked.length - 1)).map(({ role, content }) => ({ role, content }));
		if (chat.system.trim()) messages.unshift({ role: "system", content: chat.system });
		const run = this.current = { kind: "text", path: "/v1/chat/completions", body: { model: page.model, messages, ...values, ...other } };
		if (length) run.body.max_tokens = length;
		const text = el("div", { className: "text", role: "listbox", ariaLabel: "Answer" }), bubble = el("div", { className: "bubble" }, text);
		this.view = null;
		this.render(); // an earlier answer is complete, however far its playback was
		if (chat.left) $("talk").prepend(el("p", { className: "help", textContent: `The oldest ${chat.left} messages are not sent any more: the model has no room for them.` }));
		$("talk").append(bubble);
		this.timeline.reset();
		$("chat-time").hidden = false;
		this.scroll(true);
		const answer = (content, more) => {
			done(content, { seed: run.body.seed, ...more });
			bubble.append(this.answerActs(chat.messages.at(-1), chat.messages.length - 1));
		};
		try {
			await play(page, run, this.timeline, {
				start: () => {
					const t = run.trace;
					this.from = t.entries(0).findIndex((e) => !e);
					this.view = new TextView(text);
					this.view.load(t, this.from, page.info.ends);
				},
				done: () => {
					const [{ message, finish_reason }] = run.answer.choices, content = message.content || "";
					answer(content, { shown: run.answer.usage.completion_tokens, of: run.trace.length - this.from, cut: finish_reason === "length" });
					if (!content.trim()) this.render();
					$("about-chat").hidden = false;
					finish("chat", page, run, () => content);
				},
			});
		} catch (e) {
			const t = run.trace, so = t ? this.settled(t) : "";
			if (e.code === "context_length_exceeded" && messages.length > 2 && this.asked === asked) { // go on without the oldest turns
				chat.left = (chat.left || 0) + 2;
				return this.answer(asked, other, done);
			}
			if (e.name === "AbortError" && so && this.asked === asked) { // stopped: what cannot change any more is the answer
				answer(so, { stopped: true });
				this.render();
			}
			throw e;
		}
	}

	/** settled is the text up to the first hole or end. */
	settled(t) {
		const entries = t.entries().slice(this.from), end = entries.findIndex((e) => !e || this.page.info.ends?.includes(e.token));
		return texts(end < 0 ? entries : entries.slice(0, end)).join("");
	}

	markdown() {
		const parts = this.messages.map((m) => `## ${m.role === "user" ? "You" : "Model"}\n\n${m.content}\n`);
		if (this.chat.system) parts.unshift(`## System\n\n${this.chat.system}\n`);
		return `# ${this.page.model}\n\n${parts.join("\n")}`;
	}
}
