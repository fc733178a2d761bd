"""Writes cases.json: small templates of ours and what Jinja makes of them (pip install jinja2==3.1.6).

    python3 make.py

Set up as Hugging Face's transformers does: sandboxed, trim_blocks, lstrip_blocks, loop controls.
"""
import datetime
import json

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

MESSAGES = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "What's <|end|> {{ x }}?\u2028\u00a0"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {"b": 1.5, "a": [True, None, 1e20, 7, "\"\\\n\u00e9\x01"]}}]},
    {"role": "user", "content": ["text", {"type": "image"}]},
]
TEMPLATES = r"""
{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}
{%- for m in messages -%} {{ m['role'] }} {%- endfor -%} x
{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ m.content[:3] }}{% endfor %}
{% for m in messages[::-1] %}{{ loop.revindex0 }}{{ loop.previtem.role if loop.previtem is defined else '-' }}{% endfor %}
{{ messages | map(attribute='role') | join(',') }}{{ messages | map(attribute='role') | unique | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('content', 'none') | list | length }}
{{ messages[2].tool_calls[0].arguments | tojson }}|{{ messages[2].tool_calls | tojson(indent=2) }}
{{ messages[2].tool_calls[0].arguments }}|{{ messages[3].content }}|{{ messages[1].content | string }}
{{ messages[2].tool_calls[0].arguments | tojson(ensure_ascii=True) }}
{{ messages[2].tool_calls[0].arguments | dictsort }}{{ messages[2].tool_calls[0].arguments.items() | list }}
{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + loop.index %}{% set ns.last = m.role %}{% endfor %}{{ ns.n }}{{ ns.last }}{{ ns.none is defined }}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% if messages[0]['role'] == 'system' %}{% set a = messages[0].content | trim %}{% set rest = messages[1:] %}{% endif %}[{{ a }}]{{ rest | length }}
{% macro f(a, b='y', c=a ~ b) %}({{ a }}{{ b }}{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, c=2) }}{{ f('x', 'z') | length }}{{ f() }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 5 % -3 }}
{{ 1 < 2 < 3 }}{{ 'a' in 'abc' }}{{ 'x' not in ['x'] }}{{ not none }}{{ 'a' ~ 1 ~ none ~ true }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ (1,) }}{{ () }}
{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a-b-c'.split('-', 1) }}{{ 'xxaxx'.strip('x') }}{{ '\ta\n'.lstrip() }}|{{ 'ab'.replace('a', 'cc') }}{{ 'abc'.startswith('ab') }}
{{ 'é\n\'"'|list }}{{ ["it's", 'a"b', "\x7f\u200b", '\\'] }}
{{ x is defined }}{{ x | default('d') }}{{ '' | default('d', true) }}{{ none | default('d') }}[{{ x }}]{{ x | length }}{% for i in x %}{% endfor %}
{{ messages[0].nothing }}{{ messages[0].nothing is defined }}{{ messages[9] is defined }}{{ messages[-1].role }}{{ messages[0]['get']('role') }}{{ messages[0].get('zz', 3) }}
{{ messages is iterable }}{{ messages[0] is mapping }}{{ messages[0].content is string }}{{ 1 is number }}{{ true is boolean }}{{ messages[2].content is none }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}
  {% if true %}
  kept
  {% endif %}
 tail
a {%- if true %} b {% endif -%} c {#- note -#} d {# note #}
  {%+ if true %}x{% endif %}
{{- '\n' -}} {{ "a" "b" }} {{ 'x' if false }}|{{ 'x' if true else 'y' }}|{{ (1 if false else 2) + 1 }}
{% set s %}a{{ 1 }}b{% endset %}{{ s }}{{ s | upper }}{{ 'AbC' | lower }}
{% for k, v in messages[2].tool_calls[0].arguments.items() %}{{ k }}={{ v }};{% endfor %}{% for k in messages[0] %}{{ k }}{% endfor %}{% for c in 'añ' %}{{ c }}-{% endfor %}
{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in [1] if i > 1 %}x{% else %}none{% endfor %}
{{ [3, 1, 2] | sort }}{{ ['b', 'A'] | sort }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ 'abc' | reverse }}{{ '3' | int + 1 }}
{{ {'a': 1, 'b': {'c': [1, 'x']}} }}{{ {'a': 1}.a }}{{ {'a': 1}['b'] }}{{ {1: 2}[1] }}{{ {'a': 1} == {'a': 1.0} }}
{{ bos_token + 'x' }}{{ eos_token }}{{ strftime_now('%Y-%m-%d %d %B %H:%M') }}
{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-2] }}{{ [1,2,3][-2:] }}{{ 'añb'[1] }}{{ [1,2,3][5:] }}{{ [1,2,3][:-5:-1] }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, %}{{ t }}
{{ range(3) | list }}{{ range(5, 1, -2) | list }}{{ dict(a=1) }}{{ messages | selectattr('content') | map(attribute='role') | list }}
{% if tools %}T{% elif messages %}M{% else %}N{% endif %}{% if not tools and messages is defined %}x{% endif %}
{{ true and 'x' }}{{ false or none }}{{ 1 == true }}{{ '1' == 1 }}{{ [1] < [2] }}{{ 'a' < 'b' }}{{ none is none }}
{{ messages[1].content | replace("{{", "[") | trim | tojson }}{{ ' x ' | trim | length }}{{ 12 | string | length }}
{{ ['a', ['b', {}]] | tojson(indent=1) }}{{ [] | tojson(indent=2) }}{{ {} | tojson }}{{ 1.0 | tojson }}{{ none | tojson }}
{% generation %}x{% endgeneration %}
{{ 'straße ŉ ﬁ ǆ İ ΑΣ' | upper }}|{{ 'straße ŉ ﬁ ǆ İ' | lower }}|{{ 'ßTRASSE' | upper }}
{{ 'ßa İI'.upper() }}{{ 'ÄÖ'.lower() }}
{{ '12' | int(base=10) }}{{ '8' | int(7) }}{{ '0x1F' | int }}{{ '_1' | int(5) }}{{ '1e3' | int }}{{ '-3.99' | int }}{{ '+7' | int }}{{ 'inf' | int }}{{ '.' | int }}{{ '0x1p3' | int }}{{ '007' | int }}
{{ none | int }} {{ [] | int(4) }} {{ true | int }} {{ 2.9 | int }}{{ '1.5' | float }}{{ 'x' | float(2.5) }}{{ none | float }}{{ 3 | float }}{{ '1e400' | float }}{{ '-.5' | float }}
{{ x | int }}
{{ x[1:] }}
{{ none[1:] }}
{{ 5[1:] }}
{{ {'a': 1}[:2] }}
{{ 'a,b,c'.split(sep=',') }}{{ 'a,b,c'.split(',', maxsplit=1) }}{{ 'a b  c '.split(maxsplit=1) }}{{ ' a  b c'.split(None, 1) }}
{{ 'aXbXc'.split(sep='X', maxsplit=1) }}
{{ 'a'.split(limit=1) }}
{{ strftime_now('%-H %-M %-d %Z|%z|%e %j %-j %y %%-d %I %p %-I') }}
{{ x }}|{{ bos_token }}
{{ 'a' if true }}
{{ 7 // -2 }} {{ 7 % -2 }} {{ 7.5 / 2 }} {{ 1e300 * 1e-10 }} {{ 0.3 - 0.1 }}
{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, b=4) }}{{ f() }}{{ f(a=1, c=2) }}
{% macro f() %}{{ varargs | length }}{% endmacro %}{{ f(1, 2) }}{{ f() }}
{% macro f() %}{{ kwargs.x }}{% endmacro %}{{ f(x=2) }}{{ f(y=1) }}
{% macro f() %}{{ kwargs.x }}{% endmacro %}{{ f(1) }}
{% set g = [1, 2, 3] | map('string') %}{{ g | first }}{{ g | join }}{{ g | join }}|{% set h = [1, 2, 3] | map('int') %}{{ 2 in h }}{{ h | list }}{{ h | list }}
{% set g = [1, 2] | select %}{% for i in g %}{{ i }}{% endfor %}{% for i in g %}{{ i }}{% else %}none{% endfor %}
{{ '\é' }}{{ '\€' }}{{ '\😀' }}{{ '\q' }}{{ '\x41\u00e9\U0001f600' }}
{{ range(3) }}{{ range(1, 3) }}{{ range(5, 0, -2) }}{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}{{ {'a': 'b'}.values() }}{{ {}.items() }}{{ [range(2)] }}
{{ range(3) | tojson }}
{{ {'a': 1}.keys() | tojson }}
{{ namespace is callable }}{{ range is callable }}{{ 'a' is callable }}{{ x is callable }}{{ 'a'.upper is callable }}{% for i in [1] %}{{ loop is callable }}{% endfor %}
{{ 007 }}
{{ 1__0 }}
{{ 1_0 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1_0.5 }} {{ 00 }} {{ 1e3 }} {{ 1_0e1_0 }}
{{ 1_ }}
{{ x +}}
{{ 1 +}}
{{ 0 ** -1 }}
{{ 0.0 ** -1 }}
{{ 10.0 ** 400 }}
{{ 2 ** 3 }} {{ 0 ** 0 }}
{{ 'aaa'.replace('a', 'b', count=1) }}
{{ 'aaa' | replace('a', 'b', 1) }}{{ 'aaa' | replace('a', 'b', count=2) }}{{ 'aaa'.replace('a', 'b', 1) }}
{{ {'a': 1}.get('b', default=2) }}
{{ {'b': [1, {'c': 2}], 'a': 1} | tojson(separators=(',', ':')) }}{{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }}{{ [1, {'a': 2}] | tojson(indent=1, separators=(' ,', ' : ')) }}{{ [1, 2] | tojson(indent='--') }}
{{ [] * 1000000000000000000 }}{{ [1] * -1 }}{{ 'a' * -1 }}
{{ ['b', 'A', 'c'] | sort(reverse=true) }}{{ ['b', 'A'] | sort(case_sensitive=true) }}{{ messages | sort(attribute='role') | map(attribute='role') | list }}{{ ['Straße', 'STRASSE', 'straße'] | unique | list }}
{{ 'xyxaxyx'.strip('xy') }}{{ 'ab' | trim('b') }}{{ ''.strip('x') }}
{{ x }}|{{ bos_token }}
{{ messages[0].content + 1 }}
{{ 1 + 'a' }}
{{ none.x }}
{{ x.y }}
{{ x.y.z }}
{{ messages[9].role }}
{{ x + 'a' }}
{{ none | length }}
{{ 1 | length }}
{% for i in none %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{{ raise_exception('no') }}
{{ messages | unknown }}
{{ messages is unknown }}
{{ undefined_function() }}
{{ 'a'() }}
{{ 1 in none }}
{{ 1 in 'a' }}
{{ 'a' < 1 }}
{{ 1 / 0 }}
{% set m = messages[0] %}{% set m.x = 1 %}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=2) }}
{{ x | tojson }}
{% for k, v in [1] | items %}{% endfor %}
{{ messages.append(1) }}
{{ range(100001) }}
{% if x
{{ 'a }}
{{ }}
{% endfor %}
{% for x in y %}
{{ 1 2 }}
{{ a b }}
{% set 1 = 2 %}
{% unknown %}
{% break %}
{# open
"""


def render(source):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2026, 3, 4, 5, 6, 7).strftime
    return env.from_string(source.replace("{% generation %}", "").replace("{% endgeneration %}", "")).render(
        messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")


cases, lines = [], []
for line in TEMPLATES.strip("\n").split("\n"):  # indented templates, and what follows them, go on for lines
    if line.startswith("  {% if true %}") or lines:
        lines.append(line)
        if line != " tail":
            continue
        line, lines = "\n".join(lines), []
    case = {"template": line}
    try:
        case["expected"] = render(line)
    except Exception as e:
        case["error"] = f"{type(e).__name__}: {e}".split("\n")[0]
    cases.append(case)
json.dump({"messages": MESSAGES, "cases": cases}, open("cases.json", "w"), indent=1)
print(len(cases), sum("error" in c for c in cases))
