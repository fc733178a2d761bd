// The panel of typed questions: the prompt is what they are about, and each option has a bar.
import { $, el } from "./dom.js";
import { send } from "./api.js";

// A first visit asks these, in the sentences that the demo answers with.
const story = "Once upon a time there was a brave girl named Lily. She lived by the sea. She had a red kite. One day she met a fox.";
const questions = [
	["What color is the kite?", ["The kite is red.", "The kite is blue.", "The kite is green."]],
	["Which animal is in the story?", ["It is a fox.", "It is an owl.", "It is a bear."]],
	["What is the girl called?", ["The girl is called Lily.", "The girl is called Anna.", "The girl is called Rosa."]],
];

export class Decide {
	timeline = { max: 0, pause() {}, settled() {} };

	constructor(page) { this.page = page; }

	/** first asks the questions of a first visit. */
	first() {
		const { page } = this;
		$("prompt").value = story;
		$("ask").value = questions[0][0];
		$("options").value = questions[0][1].join("\n");
		page.remember();
		return this.show(story, questions.map(([instructions, lines]) => this.question(instructions, lines)));
	}

	/** make asks the question of the fields about a state. */
	make(state) {
		const lines = $("options").value.split("\n").map((line) => line.trim()).filter((line) => line);
		const instructions = $("ask").value.trim();
		if (!instructions) throw this.page.wrong("ask", "The question is missing.");
		return this.show(state, [this.question(instructions, lines)]);
	}

	/** question is one with the options of lines, or one of yes or no without them. */
	question(instructions, lines) {
		return lines.length ? { type: "choice", instructions, criteria: Object.fromEntries(lines.map((line) => this.option(line))) } : { type: "noul", instructions };
	}

	/** show asks questions about a state, and draws their answers. */
	async show(state, list) {
		const { page } = this;
		const answer = await (await send("/v1/systemone", { model: page.model, state, questions: Object.fromEntries(list.entries()) }, page.signal)).json();
		const cards = list.map((question, i) => this.card(question, answer.answers[i]));
		$("bars").replaceChildren(...cards.map((c) => c.card));
		page.say(cards.map((c) => c.said).join(". "));
	}

	/** card draws the answer to a question, the most probable option first. */
	card({ instructions }, { noul, probabilities = { yes: noul, no: 1 - noul }, unmask }) {
		const rows = Object.entries(probabilities).sort(([, a], [, b]) => b - a);
		const { by, mass, act_probability: act, notes = [] } = unmask;
		if (act !== undefined) notes.push(`Probability that acting on this is right: ${act.toFixed(2)}.`);
		if (by === "answers") notes.push("Asked by whole answers.");
		if (mass < .1) notes.push(`All options together have ${mass.toPrecision(2)} of the probability: the model answers in other words.`);
		const list = el("dl", {}, ...rows.flatMap(([label, p]) => [el("dt", { textContent: label }), el("dd", {}, el("meter", { value: p, "aria-label": label }), " " + p.toFixed(3))]));
		return { card: el("div", { className: "card thin" }, el("h2", { textContent: instructions }), list, el("p", { className: "help", textContent: notes.join(" ") })), said: `${rows[0][0]}, ${rows[0][1].toFixed(2)}` };
	}

	/** option reads "label: description", where the description may be missing. */
	option(line) {
		const at = line.indexOf(":");
		return at < 1 ? [line, null] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
	}
}
