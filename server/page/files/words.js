// Where two texts differ, by words.

const split = (text) => [...text.matchAll(/\S+/g)].map((m) => ({ word: m[0], from: m.index, to: m.index + m[0].length }));

/** differences returns, for two texts, the ranges [from, to] of the words that the other has not at that place, by a longest common subsequence. */
export function differences(a, b) {
	const x = split(a), y = split(b), best = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
	for (let i = x.length - 1; i >= 0; i--) {
		for (let j = y.length - 1; j >= 0; j--) best[i][j] = x[i].word === y[j].word ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
	}
	const out = [[], []];
	let i = 0, j = 0;
	while (i < x.length || j < y.length) {
		if (i < x.length && j < y.length && x[i].word === y[j].word) { i++; j++; }
		else if (j >= y.length || i < x.length && best[i + 1][j] >= best[i][j + 1]) out[0].push([x[i].from, x[i++].to]);
		else out[1].push([y[j].from, y[j++].to]);
	}
	return { ranges: out, words: [x.length, y.length] };
}
