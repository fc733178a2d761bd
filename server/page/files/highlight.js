// Highlighting of code: comments, texts, numbers and the commonest words of programs.

// Languages by the kind of their comments; others stay plain.
const comments = [[/^(py|python\d?|sh|bash|zsh|shell|console|ya?ml|toml|rb|ruby|r|perl|make|makefile|dockerfile|ini|julia)$/i, "#[^\\n]*"], [/^(sql|lua|haskell)$/i, "--[^\\n]*"],
	[/^(m?js|jsx|tsx?|javascript|typescript|go|golang|rust|rs|c|h|cc|cpp|c\+\+|cs|csharp|java|kotlin|swift|scala|php|dart|jsonc?|s?css|zig)$/i, "//[^\\n]*|/\\*[^]*?(?:\\*/|$)"]];
const keywords = new Set(`and as async await bool break case catch char chan class const continue def default defer del do done double elif else enum esac except export extends false fi final
finally float fn for from func function go goto if impl implements import in int interface is lambda let loop map match mut new nil none not null or package pass private protected pub public raise
range return select self static string struct super switch then this throw trait true try type typeof undefined use using var void where while with yield True False None create delete drop group insert into join
on order by set table update values`.split(/\s+/));

/** tokens yields what has a kind, in its order: { from, to, kind } of a text. */
export function* tokens(text, language) {
	const comment = comments.find(([names]) => names.test(language))?.[1];
	if (!comment) return;
	const token = new RegExp(`(${comment})|("(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\[^]|[^\`\\\\])*\`?)|(\\d[\\w.]*)|[A-Za-z_]\\w*`, "g");
	for (const m of text.matchAll(token)) {
		const word = language === "sql" ? m[0].toLowerCase() : m[0];
		const kind = m[1] ? "comment" : m[2] ? "quoted" : m[3] ? "number" : keywords.has(word) ? "keyword" : "";
		if (kind) yield { from: m.index, to: m.index + m[0].length, kind };
	}
}
