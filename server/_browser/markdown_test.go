package browser

import (
	"encoding/json"
	"strings"
	"testing"
)

// rendered returns the HTML that a text becomes, without what all links and blocks of code have.
func rendered(x *tab, text string) string {
	x.Helper()
	source, err := json.Marshal(text)
	x.ok(err)
	return strings.NewReplacer(` target="_blank"`, "", ` rel="noopener noreferrer"`, "",
		` tabindex="0"`, "", ` aria-label="Code"`, "", `<button type="button">Copy</button>`, "").Replace(
		eval[string](x, `
			const { markdown } = await import("/page/markdown.js"), root = document.createElement("div");
			root.append(...markdown(JSON.parse(%q)));
			return root.innerHTML`, source))
}

func TestMarkdown(t *testing.T) {
	x := open(t, shared, "mode=chat")
	for name, c := range map[string]struct{ text, want string }{
		"emphasis": {"*a* **b** ***c*** ~~d~~ _e_ `f*g*`",
			"<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <del>d</del> <em>e</em> <code>f*g*</code></p>"},
		"no emphasis":  {"2 * 3 * 4, a_b_c, **open, \\*not\\*", "<p>2 * 3 * 4, a_b_c, **open, *not*</p>"},
		"headings":     {"# A #\n### B\n#c", `<h3 class="h1">A</h3><h3 class="h3">B</h3><p>#c</p>`},
		"lines":        {"a\r\nb\n\nc", "<p>a\r\nb</p><p>c</p>"},
		"lists":        {"- a\n  1. b\n\n     c\n- d\n\ne", `<ul><li><p>a</p><ol start="1"><li><p>b</p><p>c</p></li></ol></li><li><p>d</p></li></ul><p>e</p>`},
		"numbers":      {"3. a\n4. b", `<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>`},
		"quote":        {"> a\n> - b\nc", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote><p>c</p>"},
		"rule":         {"a\n\n---\nb", "<p>a</p><hr><p>b</p>"},
		"table":        {"T:\n|a|b|\n|-|:-:|\n|1 \\| 2|*3*|", "<p>T:</p><table><tbody><tr><th>a</th><th>b</th></tr><tr><td>1 | 2</td><td><em>3</em></td></tr></tbody></table>"},
		"code":         {"```\n<b>*x*</b>\n```", `<div class="code"><div class="row help"></div><pre><code>&lt;b&gt;*x*&lt;/b&gt;</code></pre></div>`},
		"highlighting": {"~~~go\nreturn \"a\" // b", `<div class="code"><div class="row help">go</div><pre><code><span class="keyword">return</span> <span class="quoted">"a"</span> <span class="comment">// b</span></code></pre></div>`},
		"links":        {"[a *b*](https://x.y/z_(w) \"t\") <mailto:a@b> see http://c.d/e.", `<p><a href="https://x.y/z_(w)">a <em>b</em></a> <a href="mailto:a@b">mailto:a@b</a> see <a href="http://c.d/e">http://c.d/e</a>.</p>`},
		"picture":      {"![a](https://x.y/p.png)", `<p><a href="https://x.y/p.png">a</a></p>`},

		"elements":     {"<script>alert(1)</script><img src=x onerror=alert(1)>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</p>"},
		"entities":     {"&lt;b&gt; &#60;", "<p>&amp;lt;b&amp;gt; &amp;#60;</p>"},
		"language":     {"```\"><img/onerror=x>\n```", `<div class="code"><div class="row help">"&gt;&lt;img/onerror=x&gt;</div><pre><code></code></pre></div>`},
		"scripts":      {"[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](\x01javascript:x)", "<p>[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](\x01javascript:x)</p>"},
		"other places": {"[a](data:text/html,x) [b](vbscript:x) [c](//e.f) [d](/v1/models) [e](file:///x)", "<p>[a](data:text/html,x) [b](vbscript:x) [c](//e.f) [d](/v1/models) [e](file:///x)</p>"},
		"quoted mark":  {`[a](https://x"onclick="y)`, `<p>[a](<a href="https://x/">https://x</a>"onclick="y)</p>`},
		"link in link": {"[[a](http://b.c)](http://d.e)", `<p>[<a href="http://b.c/">a</a>](<a href="http://d.e/">http://d.e</a>)</p>`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rendered(x, c.text); got != c.want {
				t.Errorf("%q becomes %s, want %s", c.text, got, c.want)
			}
		})
	}
}

// Long texts of marks that never end take no time, and what is drawn at random keeps its order.
func TestMarkdownEnds(t *testing.T) {
	x := open(t, shared, "mode=chat")
	got := eval[string](x, `
		const { parse, markdown } = await import("/page/markdown.js"), bad = [];
		const n = 12000, marks = ["*", "*a ", "[", "[a](b", "_a", "%[1]s", "%[1]s%[1]sa", "%[1]s%[1]s%[1]s\n", ">", "- ", "1. ", "|", "#", "# ", "http://a", "<http://", "\\", "~~a ", "**a *b ~~c ", "a\n", "- a\n\n", " ", "\t- ", "|-", "!["];
		const texts = [...marks.map((m) => m.repeat(n / m.length)), Array.from({ length: 200 }, (_, i) => " ".repeat(i) + "- a").join("\n"),
			Array.from({ length: 150 }, (_, i) => "%[1]s".repeat(i)).join(" "), "# a" + " ".repeat(n) + "b", "%[1]s%[1]s%[1]s" + "a".repeat(n) + "%[1]s", "|a|\n|" + "-".repeat(n), "https://a" + ".".repeat(n) + "x",
			...["\"\\", "1 ", "/*", "'"].map((m) => "%[1]s%[1]s%[1]sjs\n" + m.repeat(n / 2))];
		const ordered = (text) => {
			let last = 0;
			const walk = (list) => { for (const m of list) if (Array.isArray(m)) { if (m[0] < last || m[1] <= m[0] || m[1] > text.length) bad.push("order of " + text.slice(0, 40)); last = m[1]; } else walk(m.children); };
			walk(parse(text));
		};
		for (const text of texts) {
			const began = performance.now();
			ordered(text);
			if (performance.now() - began > 2000) bad.push("time of " + text.slice(0, 20));
		}
		let seed = 1;
		const below = (n) => (seed = seed * 48271 %% 2147483647) %% n;
		const bits = [...marks, "\n", "\n\n", "](", ")", "a", "  ", "|-|\n", "\r\n", "**"];
		for (let i = 0; i < 4000; i++) ordered(Array.from({ length: below(30) }, () => bits[below(bits.length)]).join(""));
		markdown("x\n\n".repeat(9e4));
		return bad.join("; ")`, "`")
	if got != "" {
		t.Error(got)
	}
}

// An answer opens as pieces in their Markdown: what is settled has its form, what may change is
// plain, every hole is in sight, and no character is lost on the way.
func TestMarkdownOpens(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=1")
	got := eval[[]string](x, `
		const { AnswerView } = await import("/page/answerview.js"), { Trace } = await import("/page/trace.js");
		const root = document.getElementById("turns").appendChild(document.createElement("div"));
		root.className = "text";
		const pieces = ["# Ti", "tle", "\n\n", "- **b", "old** x", "\n", "- c\n\n%[1]s%[1]s%[1]s", "go\n", "func", "\n%[1]s%[1]s%[1]s", "\n\nEnd", "</s>", "rest"];
		const t = new Trace({ shape: [pieces.length], known: [] }), v = new AnswerView(root), out = [];
		for (const i of [0, 2, 3, 4, 6, 7, 8, 1, 9, 10, 11, 12, 5]) t.add({ steps: 13, opened: [{ position: i, token: i, piece: pieces[i] }] });
		v.load(t, 0, [11]);
		const clean = () => {
			const c = root.cloneNode(true);
			for (const s of c.querySelectorAll(".syntax, [hidden], button")) s.remove();
			for (const s of c.querySelectorAll(".w")) s.replaceWith(s.textContent);
			for (const s of c.querySelectorAll(".p")) s.replaceWith(s.matches(".hole") ? "▯" : s.textContent);
			return c.innerHTML.replace(/ (style|class|tabindex|aria-label)="[^"]*"/g, "");
		};
		for (const k of [0, 1, 8, 12, 13, 8, 13]) {
			v.show(k);
			const text = root.cloneNode(true);
			for (const b of text.querySelectorAll(".row")) b.remove();
			const all = t.entries(k).map((e) => e ? e.text : "").join("");
			if (text.textContent !== all) out.push("lost at " + k + ": " + JSON.stringify(text.textContent));
			out.push(clean());
		}
		return out`, "`")
	holes := func(n int) string { return strings.Repeat("▯", n) }
	title, list := "<h3>Title</h3>", "<ul><li><p><strong>bold</strong> x"
	end := title + list + "</p></li><li><p>c</p></li></ul><div><div>go</div><pre><code><span>func</span></code></pre></div><p>End</p><p></p>"
	want := []string{"<p>" + holes(13) + "</p>", "<p># Ti" + holes(12) + "</p>",
		title + list + "▯- c\n\n```go\nfunc" + holes(4) + "</p></li></ul>",
		title + list + "▯- c\n\n```go\nfunc\n```\n\nEnd</p></li></ul>", end}
	want = append(want, want[2], end)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("shown is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
