"""Typed decisions and embeddings by the clients that have them: openai, typesafe-sdk, langchain-typesafe, pydantic-ai.
Each asks Laya, a chat model and the demo."""
import asyncio
import math
import os
from typing import Literal

from langchain_typesafe import Choice as LangChoice, Noul as LangNoul, Score as LangScore, TypeSafeClassifier
from openai import BadRequestError, OpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.models.openai_decisions import OpenAIDecisionsModel
from pydantic_ai.models.typesafe import TypeSafeModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.typesafe import TypeSafeProvider
from typesafe_sdk import Choice, Noul, Score, TypeSafeAPIError, TypeSafeClient

url = os.environ["UNMASK_URL"]
os.environ["TYPESAFE_API_KEY"] = "none"
mail = "Hot now."
openai = OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
typesafe = TypeSafeClient(base_url=url, api_key="none")
assert {"laya", "talk", "demo"} <= {m.name for m in typesafe.models.list().models}

for model in "laya", "talk", "demo", "jev-latest":
    r = typesafe.system_one(mail, {"hot": Noul(instructions="Hot?"), "who": Choice(criteria={"a": "b", "c": None}),
                                   "how": Score(instructions="How?", criteria=["low", "high"])}, model=model)
    assert r.model == ("laya" if model == "jev-latest" else model) and r.request_id, r
    assert 0 <= r.nouls["hot"].noul <= 1 and r.usage.input_tokens > 0, r
    who, how = r.choices["who"], r.scores["how"]
    assert math.isclose(sum(who.probabilities.values()), 1, abs_tol=1e-9), who
    assert who.choice == max(who.probabilities, key=who.probabilities.get), who
    assert how.legend == {0: "low", 1: "high"} and math.isclose(how.score, how.probabilities[1]), how
try:
    typesafe.system_one(mail, {"one": {"type": "choice", "criteria": {"only": None}}})
    raise AssertionError("a choice of one was taken")
except TypeSafeAPIError as e:
    assert e.status == 422 and "options is 1" in str(e), e

classifier = TypeSafeClassifier(base_url=url)
r = classifier.invoke({"state": [{"role": "user", "content": mail}], "questions": {
    "hot": LangNoul(instructions="Hot?"), "who": LangChoice(instructions="Who?", criteria={"a": "b", "c": "d"}),
    "how": LangScore(instructions="How?", criteria=["low", "high"])}})
assert r.choices["who"].choice in "ac" and 0 <= r.nouls["hot"].noul <= 1 and 0 <= r.scores["how"].score <= 1, r

for model in "laya", "talk", "demo":
    d = openai.decisions.create(model=model, input=mail, questions=[
        {"type": "predicate", "instructions": "Hot?"},
        {"type": "choice", "instructions": "Who?", "name": "who", "choices": [{"value": "a"}, {"value": True}]},
        {"type": "score", "instructions": "How?", "levels": [{"label": "low"}, {"label": "high", "description": "x"}]}])
    assert [a.type for a in d.answers] == ["predicate", "choice", "score"] and d.usage.total_tokens > 0, d
    assert d.answers[1].name == "who" and d.answers[1].choice in ("a", True), d
    assert math.isclose(sum(p.probability for p in d.answers[2].probabilities), 1, abs_tol=1e-9), d


class Handling(BaseModel):
    verdict: Literal["run", "ask"] = Field(description="How?")
    hot: bool = Field(description="Hot?")


for model in (TypeSafeModel("laya", provider=TypeSafeProvider(base_url=url, api_key="none")),
              OpenAIDecisionsModel("laya", provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))):
    made = asyncio.run(Agent(model, output_type=Handling).run(mail)).output
    assert made.verdict in ("run", "ask") and isinstance(made.hot, bool), made

one = openai.embeddings.create(model="vectors", input="the dog")  # asks for base64
two = openai.embeddings.create(model="vectors", input=["a cat", "the dog"], encoding_format="float")
assert [d.index for d in two.data] == [0, 1] and two.usage.prompt_tokens > 0
assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(one.data[0].embedding, two.data[1].embedding, strict=True))
assert math.isclose(sum(x * x for x in one.data[0].embedding), 1, abs_tol=1e-5)
assert len(openai.embeddings.create(model="vectors", input="a", dimensions=3).data[0].embedding) == 3
assert len(openai.embeddings.create(model="demo", input=[[5, 6], [7]]).data) == 2
try:
    openai.embeddings.create(model="vectors", input="a", dimensions=99)
    raise AssertionError("99 dimensions were taken")
except BadRequestError as e:
    assert e.param == "dimensions", e
print("ok decisions")
