// The panel of typed questions: the prompt is what they are about, and each option has a bar.
import { $, el } from "./dom.js";
import { send } from "./api.js";

export class Decide {
	timeline = { max: 0, pause() {}, settled() {} };

	constructor(page) { this.page = page; }

	/** make asks the question about a state. */
	async make(state) {
		const { page } = this, lines = $("options").value.split("\n").map((line) => line.trim()).filter((line) => line);
		const instructions = $("ask").value.trim();
		if (!instructions) throw page.wrong("ask", "The question is missing.");
		const question = lines.length ? { type: "choice", instructions, criteria: Object.fromEntries(lines.map((line) => this.option(line))) } : { type: "noul", instructions };
		const answer = await (await send("/v1/systemone", { model: page.model, state, questions: { q: question } }, page.signal)).json();
		const { noul, probabilities = { yes: noul, no: 1 - noul }, unmask } = answer.answers.q;
		const rows = Object.entries(probabilities).sort(([, a], [, b]) => b - a);
		$("bars").replaceChildren(...rows.flatMap(([label, p]) => [el("dt", { textContent: label }),
			el("dd", {}, el("meter", { value: p, "aria-label": label }), " " + p.toFixed(3))]));
		const { mass, act_probability: act, notes = [] } = unmask;
		if (act !== undefined) notes.push(`Probability that acting on this is right: ${act.toFixed(2)}.`);
		if (mass < .1) notes.push(`All options together have ${mass.toPrecision(2)} of the probability: this model does not answer such questions.`);
		$("bars-note").textContent = notes.join(" ");
		page.say(`${rows[0][0]}, ${rows[0][1].toFixed(2)}`);
	}

	/** option reads "label: description", where the description may be missing. */
	option(line) {
		const at = line.indexOf(":");
		return at < 1 ? [line, null] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
	}
}
