"""Writes table.json: every filter, test, method and statement of jinja2 3.1 on values of all kinds, and what it gives
(null for an error). Needs transformers and jinja2==3.1.6.

    python3 table.py
"""
import json

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

VALUES = ["x", "none", "false", "true", "0", "-3", "2.5", "''", "'a b'", "' Hello  w_1 o. '", "'3'", "' -2.5e1 '",
    "'b\\n\\nc d\\r\\ne'", "[]", "[3, 1, 2]", "['b', 'A', 'a']", "{}", "{'b': 1, 'a': 2}", "D", "(1, 2)", "range(3)",
    "([1, 0] | select)", "[none, x, 0]", "'<&\\'\"'"]
SETUP = "{% set D = [{'k': 1, 'n': 'x'}, {'k': 'B', 'm': 2}, {'n': 'b', 'k': 1}] %}"
ARGUMENTS = {
    "attr": ["'k'"], "batch": ["2"], "center": ["9"], "default": ["'d'", "'d', true"], "d": ["1", "boolean=true"],
    "dictsort": ["", "by='value'", "true", "reverse=true"], "float": ["", "7", "default='n'"], "format": ["1"],
    "groupby": ["'k'", "'n'", "'m', default=0", "attribute='n', case_sensitive=true"],
    "indent": ["", "2", "'>'", "2, true", "width=1, blank=true", "first=true"],
    "int": ["", "7", "default='n'"], "join": ["", "','", "'-', attribute='k'", "d='+'"],
    "map": ["'string'", "'int'", "'upper'", "attribute='k'", "attribute='m', default='-'", "'nothing'", ""],
    "max": ["", "attribute='n'", "case_sensitive=true"], "min": ["", "attribute='n'", "true"],
    "reject": ["", "'string'", "'none'", "'nothing'"], "select": ["", "'string'", "'odd'", "'nothing'", "'in', [1, 'a']"],
    "rejectattr": ["'m'", "'k', 'equalto', 1"], "selectattr": ["'m'", "'k', 'equalto', 1", "'k.z'", ""],
    "replace": ["'a', 'b'", "' ', '', 1", "'', '-'"], "round": ["", "1", "0, 'floor'"], "slice": ["2"],
    "sort": ["", "true", "attribute='k'", "attribute='n'", "case_sensitive=true"],
    "sum": ["", "start=1", "attribute='k'"], "tojson": ["", "indent=2", "sort_keys=true"],
    "trim": ["", "'3'"], "truncate": ["", "4", "4, true", "3, false, '!', 0", "2"],
    "unique": ["", "true", "attribute='k'"], "wordwrap": ["3"],
}
GENERATORS = ["batch", "items", "map", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "unique"]
TEST_ARGUMENTS = {"divisibleby": ["2", "0"], "in": ["[1, 'a b']", "'a b'", "none"], "sameas": ["none", "false"]}
COMPARING = ["!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "le", "lessthan", "lt", "ne"]
METHODS = {
    "'ab,c, a'": {"split": ["", "','", "',', 1", "None, 1", "sep='a'", "','  , maxsplit=1", "''"],
        "rsplit": ["", "','", "',', 1", "None, 1", "sep='a'", "',', maxsplit=1", "', ', 0"], "format": ["1", ""],
        "removeprefix": ["'ab'"], "removesuffix": ["'a'"], "count": ["'a'"], "startswith": ["'ab'", "('x', 'a')"],
        "endswith": ["'a'"], "find": ["'c'"], "index": ["'c'"], "join": ["['x', 'y']"], "replace": ["'a', 'b'"],
        "strip": ["", "'a'"], "lstrip": ["", "'a'"], "rstrip": ["", "'a'"], "splitlines": ["", "true"], "rfind": ["'a'"],
        "center": ["9"], "ljust": ["9"], "rjust": ["9"], "zfill": ["9"], "partition": ["','"], "rpartition": ["','"]},
    "'{} {1}'": {"format": ["1, 2"]}, "'{0}{1}{0}'": {"format": ["1, none", "1"]}, "'<{}>{{}}'": {"format": ["1", "x", "none"]},
    "'{a!r}{}'": {"format": ["'q', a='w'", "a=1"]}, "'{:>4}'": {"format": ["1"]}, "'{a.b}'": {"format": ["a=1"]},
    "'}'": {"format": [""]}, "'{'": {"format": ["1"]}, "'{0}{}'": {"format": ["1, 2"]}, "'{}{}'": {"format": ["[1], {'a': 2}"]},
    "' a  b '": {"rsplit": ["", "None, 0", "None, 1", "None, 2", "' '", "'  ', 1"], "split": ["None, 0", "' '"]},
    "'a\\nb\\r\\nc\\x0bd'": {"splitlines": ["", "true"]},
    "[1, 2, 1]": {"index": ["2", "3"], "count": ["1"]}, "{'a': 1}": {"get": ["'a'", "'b'", "'b', 2"]},
    "5": {}, "2.5": {}, "True": {}, "(1, 2)": {"index": ["2"], "count": ["1"]},
}
STATEMENTS = [
    "{% call f(1) %}b{% endcall %}", "{% call(u, v='w') f() %}{{ u }}{{ v }}{% endcall %}", "{% call f %}{% endcall %}",
    "{% call g() %}b{% endcall %}", "{{ f(1) }}", "{% for i in [1, 2] %}{% call f(i) %}{{ i }}{{ loop.index }}{% endcall %}{% endfor %}",
    "{% filter upper %}a{{ 1 }}b{% endfilter %}", "{% filter replace('a', 'b') | trim %} aa {% endfilter %}",
    "{% filter nothing %}a{% endfilter %}", "{% with %}a{% endwith %}", "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with a=1 %}{% set c = 2 %}{% endwith %}{{ c }}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% block q %}a{% endblock %}", "{% block q %}a{% endblock q %}", "{% include 'q' %}", "{% import 'q' as q %}",
    "{% from 'q' import r %}", "{% extends 'q' %}", "{% autoescape true %}{{ '<' }}{% endautoescape %}", "{% print 1, 2 %}",
    "{% do x %}", "{% if false %}{% include 'q' %}{% endif %}a", "{% raw %}{{ a }}{% endraw %}", "{# a #}b",
    "{% for i in [1, [2]] recursive %}{% if i is iterable %}{{ loop(i) }}{% else %}{{ i }}{% endif %}{% endfor %}",
    "{% for i in [1, 2] %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.changed(1) }}{% endfor %}",
    "{% if false %}{{ 1 | nothing }}{% endif %}a", "{{ 1 if true else 2 | nothing }}", "{% if true %}{{ 1 | nothing }}{% endif %}",
    "{% if false %}{{ 1 is nothing }}{% endif %}a", "{{ 'upper' is filter }}{{ 'slice' is filter }}{{ 'nothing' is filter }}",
    "{{ 'in' is test }}{{ 'nothing' is test }}{{ 'escaped' is test }}", "{{ '<' | safe is escaped }}{{ '<' is escaped }}",
    "{{ '<a>' | safe + '<' }}{{ '<' + '<a>' | safe }}{{ '<' ~ ('<a>' | safe) }}{{ ('<' | safe)[:1] + '&' }}{{ '\\'\"' | e + '>' }}",
    "{{ {'a': 1}[x] }}{{ {x: 2}[y] }}{{ x in {x: 1} }}", "{{ cycler(1, 2) }}", "{{ joiner(',') }}", "{{ lipsum() }}",
    "{% for g, l in D | groupby('k') %}{{ g }}:{{ l | length }};{% endfor %}{{ (D | groupby('k'))[0].grouper }}",
    "{{ (D | groupby('n') | first).list | length }}{{ (D | groupby('k')) | tojson }}", "{{ namespace(a=1).a }}",
    "{% break %}", "{% for i in [1, 2, 3] %}{% filter upper %}a{% endfilter %}{% if i == 2 %}{% break %}{% endif %}{% endfor %}",
    "{{ (none | map('upper')) is iterable }}{{ (none | select) is sequence }}{% if none | select %}y{% endif %}",
    "{% generation %}a{% endgeneration %}", "{{ 1 in ([1, 2] | map('int')) }}", "{{ '%s' % 1 }}", "{{ '%s' | format(1) }}",
    "{% set a %}b{% endset %}{{ a }}", "{% set a | upper %}b{% endset %}{{ a }}", "{{ 12345678901234567890123 }}",
]
MACROS = "{% macro f(a=0) %}({{ a }}{{ caller(5) if caller and not a else caller() }}){% endmacro %}{% macro g() %}{% endmacro %}"


def expressions():
    for name in sorted(jinja2.filters.FILTERS):
        if name == "random":
            continue
        for value in VALUES:
            for arguments in ARGUMENTS.get(name, [""]):
                call = f"{value} | {name}" + (f"({arguments})" if arguments else "")
                yield "{{ (" + call + ")" + (" | list" if name in GENERATORS else "") + " }}"
    for name in sorted(jinja2.tests.TESTS):
        arguments = ["1", "'a b'"] if name in COMPARING else TEST_ARGUMENTS.get(name, [""])
        for value in VALUES:
            for a in arguments:
                if name[0].isalpha():
                    yield "{{ " + value + " is " + name + (f"({a})" if a else "") + " }}"
    for value, known in METHODS.items():
        for name in sorted(n for n in dir(eval(value)) if n[0] != "_"):
            for a in known.get(name, [""] if len(known) != 1 else []):
                yield "{{ " + f"{value}.{name}({a})" + " }}"
    for s in STATEMENTS:
        yield MACROS + s


def render(source):
    try:
        return _compile_jinja_template(SETUP + source).render(messages=[])
    except Exception:
        return None


if __name__ == "__main__":
    results = [(e, render(e)) for e in dict.fromkeys(expressions())]
    lines = [json.dumps(r, ensure_ascii=False) for r in results if "enerator" not in (r[1] or "").lower()]
    with open("table.json", "w") as f:
        f.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(len(lines))
