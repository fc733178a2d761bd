"""Dialogues about the stories of stories.py: what the text demo answers in a chat.

    python3 dialogues.py COUNT SEED > dialogues.jsonl      one dialogue a line, to train on or to check
    python3 dialogues.py COUNT SEED first                  conversations of one turn
    python3 dialogues.py COUNT SEED later                  of two to six turns

Four kinds: a story that is asked for ("tell"), a question about a story that was told ("ask"), its
facts as JSON ("facts"), and everything else ("other"), which the model does not know. Conversations have "another"
story, thanks, greetings and farewells too, questions in freer words, and may begin with a system's message. `right`
and `fits` say whether an answer is right; demo/dialogues_test.go has the same rules in Go. Python only.
"""
import json, random, re, sys
import stories
from stories import ANIMALS, BOYS, COLOURS, GIRLS, PLACES, SMALL

USER, ASSISTANT, END, SYSTEM = "<|user|>", "<|assistant|>", "<|end|>", "<|system|>"
THINGS = SMALL + "boat lamp scarf seed".split()
NOUNS = {v.split()[-1]: k for k, v in PLACES.items()}  # "mill": "near the old mill"
KEYS = "name animal place object color".split()

# What JSON writes without a space before it: bpe.extend makes the marks single tokens and the words pairs.
# BETWEEN are marks with a space in them, as unmask and json.dumps write JSON.
BETWEEN = ['": "', '", "']
MARKS = ['{"', '"}'] + "name animal place color".split()
WORDS = COLOURS + THINGS + ANIMALS + list(NOUNS)

HERO = re.compile(r"(girl|boy) (?:named|whose name was) (\w+)|(\w+) was an? \w+ (girl|boy)\.")
TRAIT = re.compile(r"\b(\w+) (?:girl|boy)\b")
PLACE = re.compile(r"\bthe (?:old )?(%s)\b" % "|".join(NOUNS))
PAIR = re.compile(r"\b(%s) (%s)\b" % ("|".join(COLOURS), "|".join(THINGS)))
ANIMAL = re.compile(r"\b(%s)s?\b(?! named)" % "|".join(ANIMALS))


def facts(text):
    """A story's facts: the hero, the first animal that is no pet, the first place, the first thing with
    a colour; "" where it has none. And whether each is the only one of its kind."""
    m = HERO.search(text)
    found = [[m[2] or m[3]] if m else [], ANIMAL.findall(text), PLACE.findall(text),
             [t for _, t in PAIR.findall(text)], [c for c, _ in PAIR.findall(text)]]
    return dict(zip(KEYS, (f[0] if f else "" for f in found))), all(len(set(f)) == 1 for f in found)


TELL = [("Tell me about {a trait} {child} named {name}.", 4), ("Tell me a story about {a trait} {child} named {name}.", 2),
        ("Tell me about {a trait} {child} whose name is {name}.", 1), ("Write a story about {a trait} {child} named {name}.", 1),
        ("Tell me about {name}, {a trait} {child}.", 1), ("Tell me about a {child} named {name}.", 1),
        ("Tell me about {name} and {an animal}.", 1), ("Tell me a story about {name}.", 1),
        ("Tell me about {a trait} {child} named {name} and {a color} {object}.", 2),
        ("Tell me a story about {name} and {an animal}.", 1), ("Tell me a story about {an animal}.", 1),
        ("Tell me a story about {a color} {object}.", 1), ("Tell me a story.", 1), ("Write a story.", 1)]

ASK = [(("What is the name of the {child}?", "Who is the story about?", "What is the {child} called?"), "The {child} is called {name}."),
       (("Which animal is in the story?", "Which animal does {name} meet?", "What animal is it?"), "It is {an animal}."),
       (("Where does it happen?", "Where does the story happen?", "Where are they?"), "It happens {at}."),
       (("What color is the {object}?", "What colour is the {object}?", "What is the color of the {object}?"), "The {object} is {color}."),
       (("Which thing is in the story?", "What thing is the story about?"), "It is {a color} {object}."),
       (("What is {name} like?", "How is {name}?"), "{name} is {trait}."),
       (("Is the {object} {color}?", "Is it {a color} {object}?"), "Yes, the {object} is {color}."),
       (("Is the {object} {wrong}?", "Is it {a wrong} {object}?"), "No, the {object} is {color}.")]

FACTS = ["Give the facts as JSON.", "Give me the facts as JSON.", "The facts as JSON, please.", "Write the facts as JSON.",
         "Facts as JSON.", "Return the facts as JSON."]

HELLO = "Hello. Hello! Hi. Hi! Hey!".split() + ["Good morning!", "Good evening.", "How are you?", "Hello, who are you?", "Who are you?",
                                                              "What can you do?", "What are you?", "Help.", "Thank you.", "Thanks!"]
OTHER = ["What is {x}?", "Who was {x}?", "Where is {x}?", "What is the capital of {x}?", "Explain {x}.", "Write a poem about {x}.",
         "Tell me about {x}.", "How do I learn {x}?", "Translate {x}.", "Write a program about {x}.", "What do you think about {x}?",
         "A haiku about {x}.", "How old is {x}?", "Why is {x} so big?", "What is 2 + {n}?", "What is {n} times {m}?", "Is {x} good?"]
TOPICS = ("Rome Paris France Germany China London Berlin America Einstein Newton Shakespeare Caesar Python Go math physics music "
          "history love politics war money computers science art football chess coffee water rain winter philosophy diffusion "
          "chemistry biology economics cooking space time light gravity Mars Jupiter Japan India Africa Europe").split()
ANSWER_HELLO = "Hello! I know small stories. Ask me for one."
ANSWER_OTHER = "I do not know. I know only small stories."

# What conversations have besides.
THANKS = ["Thank you.", "Thank you!", "Thanks!", "Thanks.", "Thanks a lot!", "Thank you very much.", "That was nice.", "That was a nice story.",
          "Great story!", "I like it.", "I liked that.", "Very good.", "Good.", "Nice!", "How nice!", "Wonderful!", "Great, thanks!", "Ok, thank you."]
BYE = ["Bye!", "Bye.", "Goodbye.", "Goodbye!", "Good night.", "Good night!", "See you!", "I must go now."]
ANOTHER = ["Tell me another story.", "Tell me another one.", "Another story, please.", "Another one, please.", "Another one!", "One more!",
           "One more story.", "And another one?", "Can you tell me another story?", "Tell me a new story.", "Now another story.", "Again!"]
PLEASE = ["Please ", "Can you ", "Could you ", "Now ", "I want you to ", "Ok, "]
# Other words for the questions of ASK, in its order.
FREE = [["Who is it about?", "What was the name of the {child}?", "And the name of the {child}?", "Who is the hero?", "What is the hero called?",
            "Who is the {child}?", "What was {their} name?"],
        ["Which animal was it?", "What kind of animal is it?", "Is there an animal in it?", "And the animal?", "Which animal is in it?",
            "Who helps or meets {name}?", "What animal does {name} meet?"],
        ["Where was that?", "Where did it happen?", "Where did the story happen?", "And where?", "In which place is it?", "Where is {name}?"],
        ["And the color of the {object}?", "Which color does the {object} have?", "What color did the {object} have?", "What color was the {object}?",
            "Which colour is the {object}?", "Do you know the color of the {object}?"],
        ["And which thing?", "Which thing is it about?", "What thing is in it?", "What does the story say about a thing?", "What was the thing?"],
        ["What was {name} like?", "Is {name} nice?", "What kind of {child} is {name}?", "What do you know about {name}?", "And {name}?"],
        ["Was the {object} {color}?", "Is the {object} really {color}?", "So the {object} is {color}?"],
        ["Was the {object} {wrong}?", "Is the {object} really {wrong}?", "So the {object} is {wrong}?"]]
FREE_FACTS = ["Facts, please.", "Give me the facts.", "The facts of the story as JSON.", "Can you give me the facts as JSON?", "As JSON, please.",
              "Now the facts as JSON.", "JSON.", "Write that as JSON.", "What are the facts? JSON please."]
CALM = ["You are a helpful assistant.", "You are a friendly assistant.", "You tell stories.", "Be brief.", "Answer in one sentence.", "Be kind.",
        "You are an assistant that knows stories.", "Speak English.", "Help the user.", "You are a storyteller for children."]
WISH = [("Every story is about {a child} named {name}.", ["name"]), ("All stories are about {name}.", ["name"]),
        ("The hero of your stories is {name}, {a child}.", ["name"]), ("Every story has {an animal}.", ["animal"]),
        ("All stories are about {an animal}.", ["animal"]), ("There is {an animal} in all your stories.", ["animal"]),
        ("In every story there is something {color}.", ["color"]), ("Everything in your stories is {color}.", ["color"])]
ANSWER_THANKS = "You are welcome! Ask me for another story."
ANSWER_BYE = "Goodbye! Come back for a story."
ANSWER_NONE = "There is no story yet. Ask me for one."
HARD = "Yes,", "No,", ANSWER_NONE  # the answers that were learned last

# The sentences that a story of a chat can do without, of stories.PLOTS.
SPARE = {"lost": [1, 4, 6], "gift": [1, 5, 7, 8], "storm": [3, 6, 7, 9], "garden": [1, 3, 4, 7], "race": [3, 4, 7],
         "night": [1, 3, 5, 7], "boat": [1, 3, 5, 8, 10],
         "snow": [2, 5, 7, 8], "letter": [2, 5, 7, 9], "song": [1, 5, 6, 8, 9], "cake": [1, 7, 8, 9], "egg": [2, 3, 6, 8],
         "wish": [1, 4, 6, 8], "bridge": [3, 4, 7, 8], "hide": [1, 5, 7, 8, 9]}


def told(rng, most):
    """A story with every fact once, of at most so many characters."""
    while True:
        text, f = stories.story(rng)
        if len(text) <= most:
            fact, clear = facts(text)
            if clear and fact["name"] == f["name"]:
                kind = "girl" if f["name"] in GIRLS else "boy"
                return text, dict(fact, child=kind, trait=TRAIT.search(text)[1], at=NOUNS[fact["place"]])


def brief(rng, wish=(), unlike=None):
    """A story of 170 to 330 characters as chats have them, with every fact once, and its facts, which those of
    `wish` are; its hero has another name than `unlike`."""
    while True:
        said, plot, f = stories.lines(rng)
        if any(f[{"color": "colour"}.get(k, k)] != v for k, v in dict(wish).items()) or f["name"] == unlike:
            continue
        beats = len(said) - len(stories.PLOTS[plot])  # the sentences before the plot
        spare = list(range(1, beats)) + [beats + i for i in SPARE[plot]]
        rng.shuffle(spare)
        most = rng.randrange(230, 330)
        while spare and len(" ".join(filter(None, said))) > most:
            said[spare.pop()] = ""
        text = " ".join(filter(None, said))
        fact, clear = facts(text)
        if len(text) <= 330 and clear and fact["name"] == f["name"] and stories.check(text)[0] == 0:
            kind = "girl" if f["name"] in GIRLS else "boy"
            return text, dict(fact, child=kind, trait=TRAIT.search(text)[1], at=NOUNS[fact["place"]], their=f["their"])


def casual(rng, text):
    """A message as people type it: one in six without its capital or its last mark, or with words of politeness."""
    if rng.random() < 0.1 and text.split()[0] in ("Tell", "Write", "Give"):
        text = rng.choice(PLEASE) + text[0].lower() + text[1:]
        if text.startswith(("Can", "Could")):
            text = text[:-1] + "?"
    if rng.random() < 0.16:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.12 and text[-1] in ".?!":
        text = text[:-1]
    return text


def conversation(rng, last=""):
    """A conversation of one to six turns: the system's message or "", the turns, each one's kind, and the facts of the
    latest story as it is at the end, {} without one; "wish" has those that the system's message asks for. The last
    question is of the kind `last`."""
    system, wish, turns, kinds, f = "", {}, [], [], {}
    if rng.random() < 0.25:
        system = rng.choice(CALM)
        if rng.random() < 0.5:
            _, w = brief(rng)
            template, keys = rng.choice(WISH)
            system, wish = say(template, w), {k: w[k] for k in keys}
    count = rng.choices(range(1, 7), [5, 5, 5, 4, 3, 3])[0]
    for i in range(count):
        kind = rng.choices(["tell", "another", "ask", "facts", "thanks", "other", "hello", "bye"],
                           [5, 3 if f else 0.2, 6 if f else 1, 3 if f else 0.4, 2 if turns else 0.4, 1.2, 0.3 if turns else 2, 0.3])[0]
        if i == count - 1 and last:
            kind = last
        if kind in ("tell", "another"):
            text, new = brief(rng, wish, f.get("name") if not "name" in wish else None)
            asked = [t for t, _ in TELL][-2:] if wish and rng.random() < 0.6 else [t for t, _ in TELL]
            pair = [say(rng.choice(asked) if kind == "tell" else rng.choice(ANOTHER), new), text]
            f = new
            f["wrong"] = rng.choice([c for c in COLOURS if c != f["color"]])
        elif kind in ("ask", "facts") and not f and rng.random() < 0.6:  # the user tells the story
            text, f = brief(rng) if rng.random() < 0.6 else told(rng, 560)
            f["wrong"] = rng.choice([c for c in COLOURS if c != f["color"]])
            f["their"] = "her" if f["child"] == "girl" else "his"
            pair = freely(rng, f) if kind == "ask" else give(rng, f)
            pair[0] = "Give the facts as JSON: " + text if kind == "facts" and rng.random() < 0.3 else text + " " + pair[0]
        elif kind in ("ask", "facts"):
            g = f or dict(brief(rng)[1], wrong="red")
            pair = freely(rng, g) if kind == "ask" else [rng.choice(FACTS + FREE_FACTS), json.dumps({k: g[k] for k in KEYS})]
            if not f:
                pair[1] = ANSWER_NONE
        elif kind == "thanks":
            pair = [rng.choice(THANKS), ANSWER_THANKS]
        elif kind == "bye":
            pair = [rng.choice(BYE), ANSWER_BYE]
        elif kind == "hello":
            pair = [rng.choice(HELLO[:-2]), ANSWER_HELLO]
        else:
            pair = [rng.choice(OTHER).format(x=rng.choice(TOPICS), n=rng.randrange(2, 99), m=rng.randrange(2, 99)), ANSWER_OTHER]
        turns += [casual(rng, pair[0]) if len(pair[0]) < 100 else pair[0], pair[1]]
        kinds.append(kind)
    return system, turns, kinds, dict(f, wish=list(wish)) if f else f


def freely(rng, f):
    """A question about a story and its answer."""
    i = rng.randrange(len(ASK))
    questions, answer = ASK[i]
    return [say(rng.choice(list(questions) + FREE[i]), f), say(answer, f)]


def say(template, f):
    text = re.sub(r"\{an? (\w+)\}", lambda m: ("an " if f[m[1]][0] in "aeio" else "a ") + f[m[1]], template)
    return text.format(**f)


def ask(rng, f):
    questions, answer = rng.choice(ASK)
    return [say(rng.choice(questions), f), say(answer, f)]


def give(rng, f):
    return [rng.choice(FACTS), json.dumps({k: f[k] for k in KEYS})]


def other(rng):
    if rng.random() < 0.4:
        return [rng.choice(HELLO), ANSWER_HELLO]
    x = rng.choice(TOPICS)
    return [rng.choice(OTHER).format(x=x, n=rng.randrange(2, 99), m=rng.randrange(2, 99)), ANSWER_OTHER]


def dialogue(rng, kind="", more=0):
    """One dialogue: its kind, its turns, what the story's facts are, and the first turn to be answered.
    A story that was told by the model or by the user is followed by the last question, and before it
    by up to `more` others."""
    kind = kind or rng.choices(["tell", "ask", "facts", "other"], [6, 5, 8, 1])[0]
    if kind == "other":
        return kind, other(rng), {}, 1
    text, f = told(rng, 560)
    f["wrong"] = rng.choice([c for c in COLOURS if c != f["color"]])
    tell = say(rng.choices([t for t, _ in TELL], [n for _, n in TELL])[0], f)
    if kind == "tell":
        return kind, [tell, text], f, 1
    own = rng.random() < 0.5  # the story was told by the model
    turns = [tell, text] if own else []
    for _ in range(rng.randint(0, more)):
        turns += ask(rng, f) if rng.random() < 0.7 else give(rng, f)
    turns += ask(rng, f) if kind == "ask" else give(rng, f)
    if not own and turns[0] == FACTS[0] and rng.random() < 0.5:
        turns[0] = "Give the facts as JSON: " + text
    elif not own:
        turns[0] = text + " " + turns[0]
    return kind, turns, f, 3 if own else 1


def prompt(turns):
    """The text before the last answer, as chat_template.jinja writes it."""
    return "".join(USER + t if i % 2 == 0 else ASSISTANT + t + END for i, t in enumerate(turns[:-1])) + ASSISTANT


def values(answer, f):
    """Where an answer has facts: (begin, end) in characters."""
    words = [f[k] for k in KEYS + ["trait", "child"] if f]
    return [m.span() for m in re.finditer(r"\b(?:%s|Yes|No)\b" % "|".join(words), answer)] if words else []


def right(kind, turns, f, answer):
    """Whether an answer is right: a story has the facts that were asked for, a question's answer is the grammar's own,
    JSON has the story's facts."""
    answer = answer.strip()
    if kind == "facts" and turns[-1][0] == "{":
        try:
            return json.loads(answer) == {k: f[k] for k in KEYS}
        except ValueError:
            return False
    if kind not in ("tell", "another"):
        return answer == turns[-1]
    m, asked = HERO.search(answer), turns[-2]
    if not m:
        return False
    got, _ = facts(answer)
    wanted = {k: f[k] for k in KEYS if re.search(r"\b%s\b" % f[k], asked) or k in f.get("wish", [])}
    if f["trait"] in asked and TRAIT.search(answer)[1] != f["trait"]:
        return False
    if f["child"] in asked and (m[1] or m[4]) != f["child"]:
        return False
    return all(got[k] == v for k, v in wanted.items())


def fits(kind, turns, f, answer):
    """Whether an answer is right and, if it is a story, has no contradiction and no slip and comes to an end."""
    answer = answer.strip()
    if not right(kind, turns, f, answer):
        return False
    return kind not in ("tell", "another") or answer.endswith((".", '."')) and stories.check(answer)[0] == stories.slips(answer) == 0


if __name__ == "__main__":
    rng, of = random.Random(int(sys.argv[2])), sys.argv[3:]
    for _ in range(int(sys.argv[1])):
        if of:
            system, turns, kinds, f = conversation(rng)
            while (len(turns) == 2) != (of == ["first"]):
                system, turns, kinds, f = conversation(rng)
            wish = f.pop("wish", [])
            print(json.dumps({"kind": kinds[-1], "system": system, "turns": turns, "facts": f, "wish": wish}))
            continue
        kind, turns, f, _ = dialogue(rng)
        print(json.dumps({"kind": kind, "turns": turns, "facts": f}))
