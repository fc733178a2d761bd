# lm-evaluation-harness against a server: a task of each type, and likelihoods that are those of unmask score.
import json, math, os, pathlib, subprocess, tempfile

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

url = os.environ["UNMASK_URL"]
os.chdir(pathlib.Path(__file__).parent / "tasks")
manager = TaskManager(include_path=".", include_defaults=False)


def evaluate(kind, route, model, tasks, **more):
    args = {"model": model, "base_url": url + route, "max_length": 256, "max_retries": 1}
    return simple_evaluate(kind, model_args=args, tasks=tasks, task_manager=manager, **more)


def scored(method):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for line in open("questions.jsonl"):
            q = json.loads(line)
            f.write(json.dumps({"prompt": q["prompt"], "answers": q["answers"]}) + "\n")
        f.flush()
        out = subprocess.run([os.environ["UNMASK"], "score", "--inputs", f.name, "--method", method, "--json"],
                             check=True, capture_output=True, text=True).stdout
    return [json.loads(line)["answers"] for line in out.splitlines()]


found = evaluate("local-completions", "/v1/completions", "demo", ["unmask_choice", "unmask_answer", "unmask_story"])
want, seen = scored("left-to-right"), 0
assert found["results"]["unmask_choice"]["acc,none"] == 1, found["results"]
for task in "unmask_choice", "unmask_answer":
    for s in found["samples"][task]:
        answers = want[s["doc_id"]]
        if task == "unmask_answer":
            answers = [answers[s["doc"]["best"]]]
        assert len(answers) == len(s["filtered_resps"]), s
        for a, got in zip(answers, s["filtered_resps"]):
            assert math.isclose(a["log_prob"], got[0], rel_tol=1e-5, abs_tol=1e-5), (a, got)
            assert a["greedy"] == got[1], (a, got)
            seen += 1
assert seen == 11, seen
for s in found["samples"]["unmask_story"]:
    text = s["filtered_resps"][0]
    assert text.strip() and "." not in text, s

talk = evaluate("local-chat-completions", "/v1/chat/completions", "talk", ["unmask_story"], apply_chat_template=True)
texts = [s["filtered_resps"][0] for s in talk["samples"]["unmask_story"]]
assert any(text.strip() for text in texts) and not any("." in text for text in texts), texts  # one may begin with its stop
print("ok lm-evaluation-harness")
