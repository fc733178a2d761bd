"""The texts, sequences and questions that the models are measured on, all written for this."""
import os
import random
import re

TRAINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trained")

ENGLISH = [
    "The train to the coast leaves at seven in the morning, and it is almost always late in winter.",
    "She opened the window, looked at the garden for a while and decided to paint the fence green.",
    "Water boils at a lower temperature in the mountains, because the pressure of the air is lower.",
    "A library lends books, but the small one near our school also lends tools, games and seeds.",
    "The committee met twice, argued for six hours, and then accepted the first proposal unchanged.",
    "If you mix flour, water and salt and wait for a day, you have nearly everything that bread needs.",
    "Nobody in the village knew who had repaired the bridge, yet everybody used it the next morning.",
    "A good map leaves most things out; that is why it can be read while walking in the rain.",
]

PROTEINS = [
    "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVVHSLAKWKRQTLGQHDFSAGEGLYTHMKALRPDEDR",
    "MSKGEELFTGVVPILVELDGDVNGHKFSVSGEGEGDATYGKLTLKFICTTGKLPVPWPTLVTTFSYGVQCFSRYPDHMKQHDFFKSAMPEGYVQERTIFFKDDGN",
    "MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHFDLSHGSAQVKGHGKKVADALTNAVAHVDDMPNALSALSDLHAHKLRVDPVNFKLLSHC",
    "MNIFEMLRIDEGLRLKIYKDTEGYYTIGIGHLLTKSPSLNAAKSELDKAIGRNTNGVITKDEAEKLFNQDVDAAVRGILRNAKLKPVYDSLDAVRRAALINMVFQ",
]

# QUESTIONS are texts with one missing word that anybody knows, and the words that are right.
QUESTIONS = [
    ("The capital of France is", ["paris"]), ("The opposite of hot is", ["cold"]),
    ("Two plus two is", ["four", "4"]), ("The sun rises in the", ["east", "morning"]),
    ("A week has seven", ["days"]), ("The color of fresh snow is", ["white"]),
    ("Bees make", ["honey"]), ("The largest planet of the solar system is", ["jupiter"]),
    ("Fish live in", ["water", "the"]), ("The first month of the year is", ["january"]),
]

# DECISIONS are states with a question and the right answer, for models of typed decisions.
DECISIONS = [
    ("I was charged twice for my subscription this month.", "Which team should handle this?",
     ["billing", "technical support", "sales"], "billing"),
    ("The app crashes whenever I open the settings page.", "Which team should handle this?",
     ["billing", "technical support", "sales"], "technical support"),
    ("How much would forty licences for our school cost?", "Which team should handle this?",
     ["billing", "technical support", "sales"], "sales"),
    ("Thank you, everything works again and I am very happy.", "What is the mood of the message?",
     ["pleased", "angry", "worried"], "pleased"),
    ("This is the third time you lost my parcel. I am furious.", "What is the mood of the message?",
     ["pleased", "angry", "worried"], "angry"),
    ("Please send the money to this account today or your mail is deleted.", "What kind of message is it?",
     ["fraud", "invitation", "invoice"], "fraud"),
    ("We would love to see you at our wedding on the second of June.", "What kind of message is it?",
     ["fraud", "invitation", "invoice"], "invitation"),
    ("Invoice 4417: 312 euros for the repair of the roof, due in 14 days.", "What kind of message is it?",
     ["fraud", "invitation", "invoice"], "invoice"),
    ("The flight at nine is cancelled because of fog.", "What happened to the flight?",
     ["cancelled", "delayed", "on time"], "cancelled"),
    ("Your table for four at eight is confirmed.", "What was reserved?",
     ["a table", "a room", "a car"], "a table"),
]


def fasta(name):
    """Returns the sequences of a file of research/trained."""
    records = open(os.path.join(TRAINED, name)).read().split(">")[1:]
    return ["".join(r.split()[1:]) for r in records]


def lines(name):
    """Returns the texts of a list by its name, one text each."""
    if name == "english":
        return ENGLISH
    if name == "proteins":
        return PROTEINS
    if name == "antibodies":
        return fasta("heavy.fasta")[:8]
    if name == "light chains":
        return fasta("light.fasta")
    if name == "reactions":
        reactions = open(os.path.join(TRAINED, "reactions.txt")).read().split()
        return [r for r in reactions if ">>" in r][:8]
    raise ValueError(f"texts is {name}, want english, proteins, antibodies, light chains or reactions")


PIECES = [
    "the quick brown fox", "a bridge over the river", "how to repair a bicycle", "terms of payment",
    "the temperature of the sea", "import numpy as np", "for i in range(10):", "SELECT name FROM users;",
    "if (x == nullptr) return;", "https://example.org/a?b=c", "3.14159", "12,000 km", "C\u2084H\u2081\u2080O",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u5929\u6c14\u5f88\u597d", "\u3053\u3093\u306b\u3061\u306f", "\u0434\u043e\u0431\u0440\u044b\u0439 \u0434\u0435\u043d\u044c",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u03ba\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1", "na\u00efve caf\u00e9", "Stra\u00dfe",
    "\U0001F600\U0001F680", "\u2764\ufe0f", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "e\u0301te\u0301", "\u00bd cup", "\u2014 said nobody \u2014",
    "CAPITAL LETTERS", "snake_case_name", "CamelCaseName", "a\tb", "(in brackets)", "[1, 2, 3]", "$5.00 & more",
]


def varied(count, seed=1):
    """Returns texts for vectors: sentences, other scripts, emoji, code, empty-looking, very long ones."""
    g = random.Random(seed)
    words = re.findall(r"[a-z]+", " ".join(ENGLISH).lower())
    texts = []
    for i in range(count):
        kind = i % 8
        if kind == 0:
            text = g.choice(PIECES)
        elif kind == 1:
            text = " ".join(g.choices(words, k=g.randint(3, 20))).capitalize() + "."
        elif kind == 2:
            text = " ".join(g.choices(PIECES, k=g.randint(2, 6)))
        elif kind == 3:
            text = " ".join(g.choices(words + PIECES, k=g.randint(20, 60)))
        elif kind == 4:
            text = g.choice(ENGLISH)[:g.randint(5, 90)].strip()
        elif kind == 5:
            text = "".join(g.choices("abcdefghijklmnopqrstuvwxyz0123456789-_./", k=g.randint(1, 40)))
        elif kind == 6:
            text = g.choice(PIECES) + " " + " ".join(g.choices(words, k=g.randint(1, 8))) + g.choice(["?", "!", "..."])
        else:
            text = " ".join(g.choices(words, k=g.randint(60, 400)))
        texts.append(text.replace("\n", " "))
    return texts
