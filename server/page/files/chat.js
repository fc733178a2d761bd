// The panel of conversations, above the field in which the next message is written.
import { ChatList } from "./chatlist.js";
import { Conversations, fresh, grow, turn } from "./conversations.js";
import { AnswerView } from "./answerview.js";
import { $, button, copier, el } from "./dom.js";
import { markdown } from "./markdown.js";
import { finish, play, stepLabel } from "./run.js";
import { Timeline } from "./timeline.js";
import { texts } from "./trace.js";

const suggestions = ["Hello!", "Tell me a story.", "What can you do?"];

export class Chat {
	constructor(page) {
		this.page = page;
		this.kept = new Conversations(() => this.meet(), () => page.note("This browser has no room for more conversations: delete some, or save them as Markdown."));
		this.side = new ChatList(this);
		this.timeline = new Timeline($("chat-time"), (k, playing) => { this.view?.show(k, playing); this.scroll(); }, stepLabel(() => this.current));
		this.timeline.first = () => this.current.trace?.firstShown(this.from, this.page.info.ends) || 0;
		$("system").oninput = () => { this.chat.system = $("system").value; this.changed(); };
		addEventListener("pagehide", () => this.chat.edit && this.kept.keep());
		this.open(this.kept.listed[0]);
	}

	get messages() { return this.chat.messages; }

	/** begin opens a conversation with nothing in it; one is enough. */
	begin() { this.open(this.kept.all.find((c) => !this.kept.listed.includes(c))); }

	open(chat = fresh()) {
		if (this.page.mode === "chat") this.page.abort?.abort();
		if (!this.kept.all.includes(chat)) this.kept.all.push(chat);
		this.chat = chat;
		this.asked = null;
		this.view = this.current = null;
		$("about-chat").hidden = $("chat-time").hidden = true;
		this.bringBack();
		this.render();
	}

	/** bringBack puts the draft into a field that is empty. */
	bringBack() { if (this.page.mode === "chat" && !$("prompt").value.trim()) $("prompt").value = this.draft; }

	/** draft is a message that was left without an answer, by a reload or by another conversation. */
	get draft() { return !this.asked && this.chat.draft || ""; }

	delete() {
		this.kept.delete(this.chat);
		this.open(this.kept.listed[0]);
		this.kept.keep();
		this.side.show();
	}

	restore() {
		this.open(this.kept.restore());
		this.changed();
	}

	/** meet takes in what other windows have kept. */
	meet() {
		const { chat, chat: { changed, edit } } = this, writing = () => $("turns").querySelector("textarea"), field = writing();
		this.kept.meet(chat, this.asked && chat);
		if (chat.changed === changed) return this.side.show();
		const held = field && field === document.activeElement;
		this.render();
		if (edit && !chat.edit) this.bringBack();
		if (!held || !writing()) return;
		writing().focus();
		writing().setSelectionRange(field.selectionStart, field.selectionEnd);
	}

	/** changed keeps a conversation that has changed here. */
	changed() {
		this.kept.keep(this.chat);
		this.side.show();
	}

	/** render shows all messages as Markdown, with what can be done with each; an answer that still opens in its bubble stays as it is. */
	render(opening) {
		const list = this.asked || this.messages, shown = list.flatMap((m, i) => this.bubble(m, i)), left = Math.min(this.chat.left || 0, list.length - 1);
		if (left > 0) shown.splice(left, 0, el("p", { className: "help left", textContent: "What is above is not sent any more: the model has no room for it." }));
		if (!list.length) {
			shown.push(el("div", { className: "empty" }, el("p", { textContent: "Write a message. The words of the answer appear where the sampler opens them." }),
				el("div", { className: "group" }, ...suggestions.map((text) => button(text, () => this.page.start(() => this.make(text)))))));
		}
		while (opening?.previousSibling) opening.previousSibling.remove();
		if (opening) opening.before(...shown.slice(0, -1));
		else $("turns").replaceChildren(...shown);
		if (document.activeElement !== $("system")) $("system").value = this.chat.system;
		this.side.show();
		this.scroll(!opening);
	}

	bubble(m, i) {
		if (m.role === "user") return [el("div", { className: "bubble mine" }, ...this.chat.edit?.at === i ? this.editor(m, i) : [el("p", { textContent: m.content }), this.acts(...this.versions(i), ["Edit", () => this.edit(i)])])];
		const text = el("div", { className: "text" }, ...markdown(m.content.trim()));
		return [el("div", { className: "bubble" }, text, this.note(m), ...this.without(m, i), this.answerActs(m, i))];
	}

	/** note says what became of an answer. */
	note(m) {
		const textContent = m.stopped ? "stopped" : !m.content.trim() ? "The answer is empty. Ask in other words, make it again or begin a new chat." : m.of && m.shown < m.of ? `${m.shown} tokens` : m.cut ? `cut off at ${m.of} tokens: a larger length has room for more` : "";
		return el("p", { className: "help", textContent });
	}

	/** without says what of the conversation had no effect on an answer; what is said above is not said again. */
	without({ notes = [] }, i) {
		const above = this.messages.slice(0, i).flatMap((m) => m.notes || []);
		return notes.filter((n) => !above.includes(n)).map((n) => el("p", { className: "help", textContent: n.slice(0, 1).toUpperCase() + n.slice(1) + "." }));
	}

	answerActs(m, i) {
		const list = [...this.versions(i), copier(() => m.content)];
		if (i === this.messages.length - 1) list.push(["Regenerate", () => this.again()]);
		return this.acts(...list);
	}

	/** versions are the buttons to other versions of a message. */
	versions(i) {
		const b = this.chat.branches?.[i];
		if (!b || this.asked) return [];
		const to = (by) => () => { turn(this.chat, i, by); delete this.chat.edit; this.changed(); this.open(this.chat); };
		return [["\u2039", to(-1), { disabled: !b.at, ariaLabel: "Version before" }], [`${b.at + 1}/${b.list.length}`, null, { disabled: true }],
			["\u203A", to(1), { disabled: b.at === b.list.length - 1, ariaLabel: "Next version" }]];
	}

	acts(...list) { return el("div", { className: "group acts" }, ...list.map((b) => b instanceof Element ? b : button(...b))); }

	/** editor is a message as a field; what was sent stays until another answer is there, and what is written until it is sent. */
	editor(m, i) {
		const { edit } = this.chat, field = el("textarea", { value: edit.text ?? m.content, rows: 2, ariaLabel: "Edited message", oninput: () => { edit.text = field.value; }, onchange: () => this.kept.keep() });
		const send = () => this.page.start(() => this.make(field.value, { seed: this.page.seed }, i)), leave = () => { delete this.chat.edit; this.kept.keep(); this.render(); };
		field.onkeydown = (e) => {
			if (e.isComposing || e.key !== "Escape" && (e.key !== "Enter" || e.shiftKey)) return;
			e.preventDefault();
			e.key === "Enter" ? send() : leave();
		};
		return [field, this.acts(["Send", send], ["Cancel", leave])];
	}

	edit(i) {
		this.page.abort?.abort();
		this.asked = null;
		this.chat.edit = { at: i };
		this.render();
		$("turns").querySelector("textarea").focus();
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
		if (at === undefined && this.asked && chat.draft) prompt = chat.draft + "\n" + prompt; // which has no answer yet
		const fresh = at === undefined, edits = chat.messages[at]?.role === "user", from = fresh ? chat.messages.length : edits ? at : at - 1;
		const asked = this.asked = [...chat.messages.slice(0, from), { role: "user", content: prompt }];
		delete chat.edit;
		if (!fresh && chat.left > from) chat.left = 0; // there may be room again
		this.kept.deleted = []; // there is no way back after this
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
			if (this.asked === asked) { // there is no answer: all is as before, and the message stays a draft
				this.asked = null;
				if (fresh && page.mode === "chat" && !$("prompt").value.trim()) $("prompt").value = prompt;
				if (edits) chat.edit = { at, text: prompt };
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
		const text = el("div", { className: "text", role: "group", ariaLabel: "Answer" }), bubble = el("div", { className: "bubble" }, text);
		this.view = null;
		this.render(); // an earlier answer is complete, however far its playback was
		$("turns").append(bubble);
		$("about-chat").hidden = true;
		this.timeline.reset();
		$("chat-time").hidden = false;
		this.scroll(true);
		const answer = (content, more) => {
			done(content, { seed: run.body.seed, ...more });
			this.render(bubble); // those above have their versions again
			const m = chat.messages.at(-1);
			if (m.cut) bubble.append(this.note(m)); // an end is told where the rest is folded
			bubble.append(...this.without(m, chat.messages.length - 1), this.answerActs(m, chat.messages.length - 1));
		};
		try {
			await play(page, run, this.timeline, {
				start: () => {
					const t = run.trace;
					this.from = t.entries(0).findIndex((e) => !e);
					this.view = new AnswerView(text);
					this.view.load(t, this.from, page.info.ends);
				},
				done: () => {
					const { choices: [{ message, finish_reason }], unmask: { notes } } = run.answer, content = message.content || "";
					answer(content, { shown: run.answer.usage.completion_tokens, of: run.trace.length - this.from, cut: finish_reason === "length", notes });
					if (!content.trim()) this.render();
					$("about-chat").hidden = false;
					finish("chat", page, run, () => content);
				},
			});
		} catch (e) {
			const t = run.trace, so = t ? this.standing(t) : "";
			if (e.code === "context_length_exceeded" && messages.length > 2 && this.asked === asked) { // go on without the oldest turns
				chat.left = (chat.left || 0) + 2;
				return this.answer(asked, other, done);
			}
			if (e.name === "AbortError" && so && this.asked === asked) { // stopped: what stands there is the answer
				answer(so, { stopped: true });
				this.render();
			}
			throw e;
		}
	}

	/** standing is the text up to the first end, with a mark for the holes in a row between two parts of it. */
	standing(t) {
		const entries = t.entries().slice(this.from), end = entries.findIndex((e) => e && this.page.info.ends?.includes(e.token));
		const open = end < 0 ? entries : entries.slice(0, end), last = open.findLastIndex((e) => e), now = texts(open);
		return now.slice(0, last + 1).map((s, i) => open[i] ? s : !i || open[i - 1] ? " \u2026" : "").join("").trim();
	}

	markdown() {
		const parts = this.messages.map((m) => `## ${m.role === "user" ? "You" : "Model"}\n\n${m.content}\n`);
		if (this.chat.system) parts.unshift(`## System\n\n${this.chat.system}\n`);
		return `# ${this.page.model}\n\n${parts.join("\n")}`;
	}
}
