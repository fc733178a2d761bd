"""Renders a folder of chat templates with transformers and writes one pack of cases for each.

    python3 templates.py TEMPLATES PACKS
    UNMASK_CHAT_PACKS=PACKS go test ./tokenizers/chat -run TestPublished -v

Needs transformers and jinja2. A template is NAME.jinja; llama.cpp has 70 in models/templates.
"""
import datetime
import json
import pathlib
import sys
from unittest import mock

from transformers.utils import chat_template_utils

WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather in a city.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Its name"}, "days": {"type": "integer", "default": 1},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "places": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}}}}}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2, "x": [1.5, None, True]}}}]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": '{"sky": "clear"}'}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
ASK = {"role": "user", "content": "What's <2 & 3>? é\n"}
ANSWER = {"role": "assistant", "content": " Six.\n"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSix.", "reasoning_content": "hm"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": "here"}]}
CONVERSATIONS = {
    "ask": [ASK], "system": [SYSTEM, ASK], "turns": [ASK, ANSWER, ASK], "done": [SYSTEM, ASK, {**ANSWER, "reasoning": "hm"}],
    "thought": [ASK, THOUGHT, ASK], "parts": [PARTS], "call": [ASK, CALL], "called": [SYSTEM, ASK, CALL, RESULT],
    "after": [ASK, CALL, RESULT, {**ANSWER, "thinking": "hm"}, ASK], "text-call": [ASK, {**CALL, "content": None}, RESULT],
    "two": [ASK, {**CALL, "tool_calls": CALL["tool_calls"] * 2}, RESULT, RESULT],
    "string-call": [ASK, {**CALL, "tool_calls": [{"id": "call00001", "type": "function", "function":
        {"name": "weather", "arguments": '{"city": "Rome"}'}}]}, RESULT],
    "odd": [{"role": "developer", "content": "x"}, ASK], "empty": [{"role": "user", "content": ""}],
    "wrong": [ANSWER, ASK, ASK],
}
NOW = datetime.datetime(2026, 3, 4)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def cases(template):
    for name, messages in CONVERSATIONS.items():
        given = chat_template_utils._normalize_chat_messages(messages)  # as apply_chat_template does
        for tools in (None, [WEATHER], [WEATHER, WEATHER]):
            for prompt, thinking in ((True, None), (False, None), (True, False), (True, True)):
                one = {"name": f"{name} {tools and len(tools)} {prompt} {thinking}", "messages": messages,
                    "tools": tools, "add_generation_prompt": prompt, "enable_thinking": thinking}
                more = {} if thinking is None else {"enable_thinking": thinking}
                try:
                    with mock.patch.object(chat_template_utils, "datetime", Clock):
                        (one["expected"],), _ = chat_template_utils.render_jinja_template([given], tools=tools,
                            chat_template=template, add_generation_prompt=prompt, bos_token="<s>",
                            eos_token="</s>", **more)
                except Exception as e:
                    one["error"] = f"{type(e).__name__}: {e}"
                yield one


def main(folder, packs):
    pathlib.Path(packs).mkdir(parents=True, exist_ok=True)
    for file in sorted(pathlib.Path(folder).rglob("*.jinja")):
        template = file.read_text()
        pack = {"template": template, "bos_token": "<s>", "eos_token": "</s>", "now": NOW.isoformat(),
            "cases": list(cases(template))}
        (pathlib.Path(packs) / f"{file.stem}.json").write_text(json.dumps(pack))


if __name__ == "__main__":
    main(*sys.argv[1:])
