// The panel of speech: a text is heard from its first part on, and each sound stays to be played again.
import { lost, patient } from "./api.js";
import { $, button, copier, el, save } from "./dom.js";
import { curl } from "./run.js";

const header = 44, most = 20; // bytes before the sound of a WAV file, and sounds that stay

/** Player plays 16 bit sound as it comes. */
class Player {
	constructor(rate) {
		this.context = new AudioContext({ sampleRate: rate });
		this.until = this.added = 0;
	}

	/** position is how much was heard, in seconds. */
	get position() { return this.added - Math.max(0, this.until - this.context.currentTime); }

	/** play adds samples after those that were added before. */
	play(samples) {
		if (!samples.length || this.context.state === "closed") return;
		const buffer = this.context.createBuffer(1, samples.length, this.context.sampleRate), source = this.context.createBufferSource();
		buffer.copyToChannel(Float32Array.from(samples, (s) => s / 32768), 0);
		source.buffer = buffer;
		source.connect(this.context.destination);
		source.start(this.until = Math.max(this.until, this.context.currentTime));
		this.until += buffer.duration;
		this.added += buffer.duration;
	}

	stop() { if (this.context.state !== "closed") this.context.close(); }
}

/** whole is a WAV file of the bytes of a stream, whose header knows no length. */
function whole(parts, bytes) {
	const file = new Uint8Array(bytes), view = new DataView(file.buffer);
	let at = 0;
	for (const p of parts) {
		file.set(p, at);
		at += p.length;
	}
	view.setUint32(4, bytes - 8, true);
	view.setUint32(40, bytes - header, true);
	return file;
}

export class Speech {
	timeline = { max: 0, pause() {}, settled() {} };

	constructor(page) { this.page = page; }

	/** make speaks a text. */
	async make(input) {
		const { page } = this, run = { path: "/v1/audio/speech", body: { model: page.model, input, ...page.values(), response_format: "wav", stream_format: "audio" } };
		this.player?.stop();
		if (!input.trim()) throw page.wrong("prompt", "There is nothing to say.");
		const began = performance.now(), answer = await patient(run.path, run.body, page.signal, (seconds) => page.status(`The server is busy. Trying again in ${seconds} s`));
		const reader = answer.body.getReader(), parts = [];
		let bytes = 0, rate = 0, rest = new Uint8Array();
		page.signal.addEventListener("abort", () => this.player?.stop(), { once: true });
		for (;;) {
			const { done, value } = await reader.read().catch((e) => { throw e.name === "AbortError" ? e : lost(); });
			if (done) break;
			parts.push(value);
			bytes += value.length;
			rest = new Uint8Array([...rest, ...value]);
			if (!rate) {
				if (rest.length < header) continue;
				rate = new DataView(rest.buffer).getUint32(24, true);
				this.player = new Player(rate);
				rest = rest.slice(header);
			}
			const even = rest.length - rest.length % 2;
			this.player.play(new Int16Array(rest.slice(0, even).buffer));
			rest = rest.slice(even);
			page.status(`${((bytes - header) / 2 / rate).toFixed(1)} s spoken`);
		}
		if (bytes < header) throw lost();
		this.add(run, whole(parts, bytes), (bytes - header) / 2 / rate, (performance.now() - began) / 1000);
	}

	/** add shows a sound above the earlier ones; times are in seconds. */
	add(run, file, length, took) {
		const { input, seed, voice, instructions, language, speed } = run.body;
		const url = URL.createObjectURL(new Blob([file], { type: "audio/wav" })), about = { length: `${length.toFixed(1)} s`, "made in": `${took.toFixed(1)} s`, seed, voice, words: instructions, language, speed };
		const audio = el("audio", { controls: true, src: url, ariaLabel: "Sound", onplay: () => this.player?.stop() });
		audio.currentTime = this.player?.position || 0;
		if (audio.currentTime < length - .1) audio.play().catch(() => {}); // which has buttons to stop it; without a click a browser plays nothing
		$("sounds").prepend(el("div", { className: "card" }, el("p", { className: "text", textContent: input }), audio,
			el("dl", { className: "facts" }, ...Object.entries(about).filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", { textContent: k }), el("dd", { textContent: v })))),
			el("div", { className: "facts group" }, button("Download WAV", () => save(`unmask-${seed}.wav`, file)), copier(() => curl(run), "Copy curl"))));
		while ($("sounds").children.length > most) {
			URL.revokeObjectURL($("sounds").lastChild.querySelector("audio").src);
			$("sounds").lastChild.remove();
		}
	}
}
