// The conversations at the side, and what is done with the one that is open.
import { titleOf } from "./conversations.js";
import { $, button, el, lasting, save } from "./dom.js";

const many = 8; // with fewer there is nothing to search

/** age is the group of a time in the list. */
function age(time) {
	const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 864e5);
	return days < 1 ? "Today" : days < 2 ? "Yesterday" : days < 7 ? "This week" : "Earlier";
}

export class ChatList {
	/** panel is the Chat whose conversations these are. */
	constructor(panel) {
		this.panel = panel;
		$("chat-new").onclick = () => { panel.begin(); this.close(); $("prompt").focus(); };
		$("chat-search").oninput = () => this.show();
		$("chat-rename").onclick = () => this.rename();
		$("chat-delete").onclick = () => panel.delete();
		$("chat-undo").onclick = () => panel.restore();
		$("chat-save-all").onclick = () => save("unmask-chats.json", JSON.stringify(panel.kept.listed, null, 1));
		$("chat-markdown").onclick = () => save("unmask-chat.md", panel.markdown());
	}

	/** close shuts the drawer that the list is on a narrow screen. */
	close() { if ($("chat-list").matches(":popover-open")) $("chat-list").hidePopover(); }

	show() {
		const { kept, chat } = this.panel, all = kept.listed, words = $("chat-search").value.toLowerCase().split(/\s+/);
		const found = all.filter((c) => {
			const text = [titleOf(c), ...c.messages.map((m) => m.content)].join("\n").toLowerCase();
			return words.every((w) => text.includes(w));
		});
		const held = $("chats").contains(document.activeElement);
		$("chat-search").hidden = all.length < many && !words[0];
		let group = "";
		$("chats").replaceChildren(...found.map((c) => el("li", {}, ...age(c.changed) === group ? [] : [el("span", { className: "help", textContent: group = age(c.changed) })], button(titleOf(c), () => { this.panel.open(c); this.close(); }, { ariaCurrent: c === chat ? "true" : null }))));
		if (held) $("chats").querySelector("[aria-current]")?.focus();
		$("chat-none").textContent = found.length ? "" : all.length ? "No conversation has these words." : lasting ? "Conversations stay in this browser." : "This browser keeps nothing: save the conversations that you need.";
		if (!this.naming) $("chat-title").textContent = titleOf(chat);
		for (const id of ["chat-rename", "chat-delete"]) $(id).disabled = !all.includes(chat);
		$("chat-save-all").hidden = !all.length;
		$("chat-markdown").disabled = !chat.messages.length;
		const gone = kept.deleted.at(-1);
		$("chat-gone").hidden = !gone;
		if (gone) $("chat-gone-name").textContent = `“${titleOf(gone)}” is deleted.`;
	}

	/** rename makes the title a field: Enter takes the name, Escape leaves it. */
	rename() {
		const { chat, kept } = this.panel, title = $("chat-title"), field = el("input", { value: titleOf(chat), maxLength: 80, ariaLabel: "Name of the conversation" });
		const end = (taken) => {
			if (!this.naming) return;
			this.naming = false;
			title.hidden = false;
			field.remove();
			if (taken) {
				chat.title = field.value.trim();
				kept.keep(chat);
			}
			this.show();
		};
		this.naming = title.hidden = true;
		title.after(field);
		field.onblur = () => end(true);
		field.onkeydown = (e) => {
			if (e.key !== "Enter" && e.key !== "Escape" || e.isComposing) return;
			end(e.key === "Enter");
			$("chat-rename").focus();
		};
		field.select();
	}
}
