"""Small stories, drawn at random from a grammar of ours: the text that the text demo learns.

    python3 stories.py COUNT SEED > stories.txt      one story a line
    python3 stories.py words > ../stories/words.txt  the words that stories have, for the checker in Go

Each story keeps its own facts (who, which thing, its colour, where, when) to the end, so a
sample that contradicts itself shows that a sampler opened too much at once.
`check` counts such contradictions. Python only.
"""
import random, re, sys

GIRLS = "Anna Clara Ella Julia Lily Mia Nora Rosa".split()
BOYS = "Adam Ben Carl Hugo Jack Leo Max Tom".split()
ANIMALS = "bear bird cat dog dragon duck fox frog goat hedgehog horse lion mouse owl penguin rabbit sheep squirrel turtle wolf".split()
COLOURS = "black blue brown green red white yellow".split()
SMALL = "ball bell book cup doll drum flute hat key kite ring toy".split()
PLACES = {"in the garden": "the garden", "in the forest": "the forest", "at the beach": "the beach", "by the river": "the river",
          "on the hill": "the hill", "in the park": "the park", "at the market": "the market", "by the lake": "the lake",
          "in the barn": "the barn", "near the old mill": "the old mill", "under the bridge": "the bridge", "behind the school": "the school",
          "by the sea": "the sea", "in the mountains": "the mountains", "in the castle": "the castle", "on the island": "the island"}
TIMES = ["One morning", "One evening", "One day", "One sunny day", "One cold day", "One rainy day", "On Monday", "On Sunday",
         "In the spring", "In the summer", "In the autumn", "One winter day"]
FOODS = "apples bread cake carrots cheese cookies honey nuts pancakes pears pie plums porridge soup".split()
TRAITS = "brave clever curious gentle happy kind lazy quiet shy strong tiny wise".split()
KIN = {"mother": "She", "father": "He", "grandmother": "She", "grandfather": "He", "sister": "She", "brother": "He", "aunt": "She", "uncle": "He"}
WEATHER = {"the wind": "blew", "the rain": "fell", "the snow": "fell", "the sun": "shone"}

OPEN = ["Once upon a time there was a {trait} {child} named {name}.", "There once was a {trait} {child} whose name was {name}.",
        "{name} was a {trait} {child}.", "In a little house {at} lived a {trait} {child} named {name}."]
HOME = ["{They} lived with {their} {kin} {home}.", "{They} lived {home} with {their} {kin}.", "{Their} {kin} and {name} lived {home}.",
        "{They} loved {food} and long walks.", "Everybody {home} liked {them}.", "{They} had a {pet} named {petname}."]
HOMES = ["in a small village", "in a big town", "on a farm", "in a tall house", "at the edge of the wood", "near the sea"]
PETNAMES = "Biscuit Button Pepper Rusty Shadow Snowy Spot Whisker".split()
SAY = ["said", "said {name}", "asked {name}"]

PLOTS = {
    "lost": [
        ["{time} {name} could not find {their} {colour} {thing}.", "{time} {name} lost {their} {colour} {thing} {at}.",
         "{time} {their} {colour} {thing} was gone."],
        ["{They} looked under the bed and behind the door, but it was not there.", "{They} looked everywhere, but the {thing} was not at home.",
         "{They} was very sad, because the {thing} was a gift from {their} {kin}."],
        ['"Have you seen my {colour} {thing}?" {they} asked a {animal}.', '{They} met a {animal} and asked, "Have you seen my {colour} {thing}?"'],
        ['"No," said the {animal}, "but I will help you."', '"Yes," said the {animal}, "I saw it {at2}."', '"Come with me," said the {animal}, "I know where it is."'],
        ["So {name} and the {animal} went to {place2}.", "Together they walked to {place2}.", "They ran all the way to {place2}."],
        ["And there it was, the {colour} {thing}, in the grass.", "There lay the {colour} {thing}, a little wet but not broken.",
         "Under a leaf they found the {colour} {thing}."],
        ['"Thank you, {animal}!" said {name}, and gave the {animal} some {food}.', "{name} was so happy that {they} danced with the {animal}.",
         "{name} thanked the {animal} and they ate {food} together."],
        ["From that day on {name} and the {animal} were friends.", "Since then {name} takes good care of the {thing}.",
         "And {name} never lost the {colour} {thing} again."]],
    "gift": [
        ["{time} it was the birthday of {their} {kin}.", "{time} {name} wanted to make {their} {kin} happy."],
        ["{name} had no money for a gift.", "{name} did not know what to give.", '"What can I give?" {name} asked {themself}.'],
        ["{They} went to {place} and met a {trait2} {animal}.", "{time2} a {trait2} {animal} came to {them} {at}."],
        ['"Make something yourself," said the {animal}.', '"A gift from the heart is the best gift," said the {animal}.', '"Bake some {food}," said the {animal}, "everybody likes {food}."'],
        ["So {name} made a {colour} {thing} out of wood and paper.", "So {name} took some paint and made a {colour} {thing}."],
        ["It took {them} the whole day, but {they} did not give up.", "It was hard work, but {name} sang while {they} worked.",
         "The first one broke, so {they} tried again."],
        ["In the evening {they} gave the {colour} {thing} to {their} {kin}.", "Then {name} put the {colour} {thing} on the table for {their} {kin}."],
        ['"What a beautiful {thing}!" said {their} {kin}. {KinThey} was very happy.', '{Their} {kin} smiled and said, "This {thing} is the best gift of all."'],
        ["They ate {food} and laughed until it was dark.", "And the {animal} got a piece of cake too.", "The {colour} {thing} still stands on the table today."]],
    "storm": [
        ["{time} {name} went to {place} with {their} friend {friend}.", "{time} {name} and {friend} played {at}."],
        ["{They} had a {colour} {thing} with {them}.", "{friend} had brought a {colour} {thing}.", "They played with a {colour} {thing} and were happy."],
        ["Suddenly the sky grew dark.", "Then {weather} so hard that they could not see.", "All at once {weather} very hard."],
        ['"We must go home!" said {friend}.', '"I am afraid," said {friend}.', '"Where can we hide?" asked {friend}.'],
        ["A {trait2} {animal} heard them and came out of a hole.", "Then they saw a {trait2} {animal} under a tree."],
        ['"Come into my house," said the {animal}, "it is warm and dry."', '"Follow me," said the {animal}, "I know the way."'],
        ["{name} and {friend} followed the {animal}.", "So they went with the {animal}."],
        ["Inside there was a fire, and the {animal} gave them {food}.", "The {animal} made {food} for them, and they told stories."],
        ["When the storm was over, {name} gave the {colour} {thing} to the {animal}.", "In the morning the sky was blue again, and they walked home.",
         "After an hour the sun came out, and they thanked the {animal}."],
        ['"We were lucky," said {name}.', "{friend} and {name} never forgot the {trait2} {animal}.", "And every year they visit the {animal} {at}."]],
    "garden": [
        ["{time} {name} found a {colour} seed {at}.", "{time} a {animal} gave {name} a {colour} seed."],
        ['"What will it be?" {they} asked {their} {kin}.', '"Put it in the earth," said {their} {kin}, "and wait."'],
        ["{name} dug a hole in the garden and put the seed in it.", "{They} planted the seed behind the house."],
        ["Every day {they} gave it water.", "Every morning {they} ran to the garden, but nothing grew.", "{name} waited for one week, and then for two."],
        ['"It will never grow," said the {animal}.', '"You must be patient," said {their} {kin}.', "The {animal} came every day to look."],
        ["Then, one morning, there was a small green leaf.", "At last something green came out of the earth."],
        ["It grew and grew until it was as tall as the house.", "Soon it was a big plant with {colour} flowers.", "In the summer it had {colour} flowers."],
        ["All the {animal}s came to see it.", "{name} called {their} {kin}, and they were both very proud.", '"How beautiful!" said the {animal}.'],
        ["In the autumn {name} picked the new seeds and gave one to every friend.", "{name} gave the first {colour} flower to {their} {kin}.",
         "Good things take time, thought {name}."]],
    "race": [
        ["{time} there was a race {at}.", "{time} all the children and animals met {at} for a race."],
        ["{name} wanted to win, because the prize was a {colour} {thing}.", "The prize was a {colour} {thing}.", '"Whoever wins gets a {colour} {thing}," said the {animal2}.'],
        ["{name} ran against {friend} and a {trait2} {animal}.", "A {trait2} {animal} and {friend} wanted to run too."],
        ["One, two, three, go! They all ran as fast as they could.", "The {animal2} rang a bell, and they all ran."],
        ["{friend} was the first, and {name} was close behind.", "Soon {name} was the first.", "The {animal} was the fastest of all."],
        ["Then {friend} fell over a stone and hurt {friendtheir} leg.", "But the {animal} stepped into a hole and could not get out."],
        ["{name} stopped. {They} did not think of the {thing} any more.", "{name} heard the cry and turned back."],
        ['"I will help you," {they} said.', '"Do not be afraid, I am here," said {name}.'],
        ["They came in last, but everybody cheered.", "Together they walked to the end, and everybody cheered."],
        ['"You are the real winner," said the {animal2}, and gave {them} the {colour} {thing}.', "The {animal2} gave the {colour} {thing} to {name}, because a friend is more than a prize.",
         "{name} got the {colour} {thing} and shared it with {friend}."]],
    "night": [
        ["{time} {name} could not sleep.", "One night {name} heard a strange sound {at}."],
        ['"Who is there?" {they} asked, but nobody answered.', "Something moved behind the window.", "Tap, tap, tap, it went."],
        ["{They} took a {colour} lamp and went out very quietly.", "{name} put on a {colour} scarf and opened the door."],
        ["The moon was big and round.", "It was dark and cold.", "All the stars were out."],
        ["Behind a tree sat a {trait2} {animal} and cried.", "There was a {trait2} {animal} that could not find its way home."],
        ['"Why do you cry?" asked {name}.', '"Please help me," said the {animal}.'],
        ['"I have lost my {thing}," said the {animal}.', '"I am hungry," said the {animal}, "and my home is far away."'],
        ["{name} gave the {animal} some {food} and a warm blanket.", "{name} sat down and they ate {food} under the stars."],
        ["Then they walked to {place2} together, and there was its mother.", "When the sun came up, they found the way to {place2}."],
        ['"Thank you, {name}," said the {animal}. "You are {trait}."', "The {animal} was happy, and {name} was not afraid of the dark any more.",
         "Then {name} went back to bed and slept until noon."]],
    "boat": [
        ["{time} {name} and {friend} built a {colour} boat.", "{time} {name} and {friend} found an old boat {at} and painted it {colour}."],
        ["They called it the {petname}.", "It was small, but it was strong.", "It had a {colour} sail and room for two."],
        ["They took {food}, a map and a {thing}, and sailed away.", "With {food} for three days they sailed away."],
        ["On the first day they saw only water.", "On the first day {weather}, and the waves were high."],
        ["On the second day a {trait2} {animal} sat on a rock and waved.", "On the second day they heard a {trait2} {animal} call from an island."],
        ['"Where do you go?" asked the {animal}.', '"Take me with you," said the {animal}.'],
        ['"We are looking for the end of the world," said {name}.', '"We want to see what is behind the sea," said {friend}.'],
        ['"There is no end," said the {animal}, "the world is round."', '"Behind the sea is home," said the {animal}, "the world is round."'],
        ["They gave the {animal} some {food} and sailed on.", "So the {animal} came into the {colour} boat, and they sailed on."],
        ["On the third day they saw a house, and it was their own.", "On the third day they came home, and {their} {kin} stood {at} and waved."],
        ["The {colour} boat still lies {at}.", '"Next year we will go again," said {name}.', "{name} told the story to everybody {home}."]],
    "snow": [
        ["{time} the snow lay high {at}.", "{time} {name} woke up and everything {at} was white with snow."],
        ["{name} built a snowman with a {colour} {thing}.", "{name} made a snowman and gave it a {colour} {thing}."],
        ["It was as tall as {their} {kin}.", "{They} gave it two eyes and a big smile.", "It had a carrot for a nose."],
        ["In the night a cold {animal} came by.", "Then a {trait2} {animal} came out of the wood."],
        ['"May I stay with you?" asked the {animal}.', '"I am so cold," said the {animal}.'],
        ['"I cannot speak," thought the snowman, "but I can help."', "The snowman could not speak, but it smiled."],
        ["In the morning {name} found the {animal} asleep under the {colour} {thing}.", "In the morning the {colour} {thing} was on the {animal}."],
        ["{name} took the {animal} into the warm house.", "{name} brought the {animal} some {food}."],
        ["When the snow was gone, the {animal} stayed.", "Every winter they build a snowman together."]],
    "letter": [
        ["{time} {name} found a letter {at}.", "{time} a {animal} brought {name} a letter."],
        ['"Look for the {colour} {thing}," it said.', 'It read, "Bring me the {colour} {thing}."'],
        ["There was no name on it.", "{name} read it twice.", "{Their} {kin} did not know who had written it."],
        ["{name} asked a {trait2} {animal} for help.", "A {trait2} {animal} wanted to help."],
        ['"I can smell it," said the {animal}.', '"I know who wrote this," said the {animal}.'],
        ["They looked {at} and under every stone.", "They looked for a long time."],
        ["At last they found the {colour} {thing} in an old box.", "The {colour} {thing} lay in a tree."],
        ["The letter was from {their} {kin}.", "It was a game of {their} {kin}."],
        ['"You found it!" said {their} {kin}.', '"Well done," said {their} {kin}, and they all ate {food}.'],
        ["Now {name} writes letters too.", "The next letter was for the {animal}."]],
    "song": [
        ["{time} {name} heard a song {at}.", "{time} somebody sang {at}, and {name} listened."],
        ["It was so beautiful that {they} stood still.", "{They} had never heard such a song."],
        ["A {trait2} {animal} sat there and played a {colour} {thing}.", "It was a {trait2} {animal} with a {colour} {thing}."],
        ['"Will you teach me?" asked {name}.', '"Can I learn that?" asked {name}.'],
        ['"Yes," said the {animal}, "but you must try every day."', '"Come back tomorrow," said the {animal}.'],
        ["At first it sounded terrible.", "{Their} {kin} closed all the windows."],
        ["But {name} did not give up.", "{name} tried again and again."],
        ["In the end {they} could sing the whole song.", "After a week {they} sang like a bird in May."],
        ["Then {name} and the {animal} sang for everybody {home}.", "The {animal} was proud and gave {them} the {colour} {thing}."],
        ["Everybody danced until it was dark.", "{Their} {kin} cried a little, because it was so beautiful."]],
    "cake": [
        ["{time} {name} baked a cake for {their} {kin}.", "{time} {name} and {their} {kin} baked a cake."],
        ["{They} put it on the window to cool.", "It smelled so good {at} that everybody stopped."],
        ["When {they} came back, the cake was gone.", "Suddenly it was not there any more."],
        ["Only a {colour} {thing} lay there.", "In its place there was a {colour} {thing}."],
        ['"Whose {thing} is this?" asked {name}.', "{name} took the {thing} and went out."],
        ["A {animal} sat {at} with a full mouth.", "{At} sat a {trait2} {animal} with cake on its nose."],
        ['"I am sorry," said the {animal}, "I was so hungry."', '"It was me," said the {animal}.'],
        ["{name} was angry, but then {they} laughed.", "{name} could not be angry."],
        ["They baked a new cake together.", "The {animal} helped {them} to bake another one."],
        ["The {animal} got its {colour} {thing} back and the biggest piece.", "And the {animal} always asks first now."]],
    "egg": [
        ["{time} {name} found an egg {at}.", "{time} there was a big egg {at}."],
        ["{name} wrapped it in a {colour} scarf.", "{They} put it into a {colour} hat."],
        ['"What is in it?" asked {their} {kin}.', '"Keep it warm," said {their} {kin}.'],
        ["{They} waited the whole night.", "For ten days nothing happened."],
        ["Then the egg broke, and out came a small {animal}.", "Crack! A tiny {animal} looked at {them}."],
        ['"Are you my mother?" asked the {animal}.', '"I am hungry," said the {animal}.'],
        ["{name} gave it some {food}.", "{name} laughed and fed it with {food}."],
        ["The {animal} grew and followed {them} everywhere.", "Soon the {animal} was as big as {name}."],
        ["In the autumn the {animal} had to go.", "One day it went out into the world."],
        ["But every spring the {animal} comes back.", "It never forgot {name}."]],
    "wish": [
        ["{time} {name} found a {colour} {thing} {at}.", "{time} there lay a {colour} {thing} {at}, and {name} picked it up."],
        ["There was a knock inside.", "{name} cleaned it with {their} sleeve."],
        ["All at once a {trait2} {animal} stood before {them}.", "Smoke came out, and then a {trait2} {animal}."],
        ['"You have one wish," said the {animal}.', '"Thank you for waking me," said the {animal}. "Make a wish."'],
        ["{name} thought for a long time.", '"That is hard," said {name}.'],
        ['"I wish that my {kin} is never sad," said {name}.', '"I want a friend," said {name}.', '"I wish for {food} for everybody," said {name}.'],
        ['"That is a good wish," said the {animal}.', "The {animal} smiled."],
        ["And so it was.", "The next morning it came true."],
        ["{name} still has the {colour} {thing}.", "The {animal} stayed with {name}."]],
    "bridge": [
        ["{time} {name} walked to {place} with a {colour} {thing}.", "{time} {name} wanted to bring a {colour} {thing} to {their} {kin}."],
        ["A {trait2} {animal} stood in the way {at}.", "On the path stood a {trait2} {animal}."],
        ['"Nobody goes past me," said the {animal}.', '"Stop!" said the {animal}. "This is my way."'],
        ['"Why?" asked {name}.', '"Are you not lonely?" asked {name}.'],
        ["Nobody had ever asked that.", "The {animal} did not know what to say."],
        ['"I have no friends," said the {animal} at last.', '"Nobody plays with me," said the {animal}.'],
        ['"Then come with me," said {name}.', '"Let us play," said {name}, and showed it the {colour} {thing}.'],
        ["They played until the sun went down.", "They shared {food} and talked."],
        ["Now everybody may pass, and the {animal} says hello.", "Since then the {animal} helps all who want to pass."]],
    "hide": [
        ["{time} {name} and {friend} played hide and seek {at}.", "{time} the children played hide and seek {at}, {name} and {friend} too."],
        ["{friend} counted to twenty.", "{friend} closed {friendtheir} eyes and counted."],
        ["{name} hid in a hollow tree.", "{name} hid behind a big stone."],
        ["There a {trait2} {animal} slept on a {colour} {thing}.", "There {they} found a {animal} with a {colour} {thing}."],
        ['"This is my house," said the {animal}, "but you may stay."', '"Be quiet," said the {animal}, "then nobody will find us."'],
        ["{friend} looked everywhere and found nobody.", "The sun went down, and {friend} still looked."],
        ["Then the {animal} had to sneeze.", "Then {name} had to laugh."],
        ['"I have found you!" said {friend}.', '"There you are!" said {friend}.'],
        ["The {animal} wanted to play too.", "The next time the {animal} counted."],
        ["The {colour} {thing} was the prize, and everybody won.", "They played until it was dark."]],
}


def lines(rng, want={}):
    """The sentences of one story, its plot and its facts. `want` has a plot and facts that it must have."""
    girl = rng.choice(["girl", "boy"]) == "girl"
    names, other = (GIRLS, BOYS) if girl else (BOYS, GIRLS)
    name, friend = rng.choice(names), rng.choice(other)
    at, at2 = rng.sample(sorted(PLACES), 2)
    animal, animal2, pet = rng.sample(ANIMALS, 3)
    kin = rng.choice(sorted(KIN))
    time, time2 = rng.sample(TIMES, 2)
    wind = rng.choice(sorted(WEATHER)[:3])
    rng.choice("ab")  # the stories of a seed stay what they were
    f = dict(name=name, friend=friend, trait=rng.choice(TRAITS), trait2=rng.choice(TRAITS), kin=kin, home=rng.choice(HOMES),
             food=rng.choice(FOODS), pet=pet, petname=rng.choice(PETNAMES), animal=animal, animal2=animal2, colour=rng.choice(COLOURS),
             thing=rng.choice(SMALL), at=at, at2=at2, time=time, time2=time2, weather=f"{wind} {WEATHER[wind]}",
             child="girl" if girl else "boy", friendkind="boy" if girl else "girl")
    plot = rng.choice(sorted(PLOTS))
    if want:
        plot = want.get("plot", plot)
        f.update({k: v for k, v in want.items() if k != "plot"})
        girl = f["child"] == "girl"
    f.update(They="She" if girl else "He", they="she" if girl else "he", Their="Her" if girl else "His", their="her" if girl else "his",
             them="her" if girl else "him", themself="herself" if girl else "himself",
             friendtheir="her" if f["friendkind"] == "girl" else "his", KinThey=KIN[f["kin"]], At=f["at"][0].upper() + f["at"][1:],
             place=PLACES[f["at"]], place2=PLACES[f["at2"]])
    said = [rng.choice(OPEN)] + rng.sample(HOME, 2)
    if said[0].startswith("In a little house"):  # which is no big town or tall house
        said = [said[0]] + [s for s in said[1:] if "{home}" not in s]
    if len(said) > 2 and (said[1].startswith("{Their} {kin} and") or "{home}" in said[1] and "{home}" in said[2]):
        said.pop()
    for beat in PLOTS[plot]:
        said.append(rng.choice(beat))
    return [re.sub(r"\b([Aa]) ([aeioAEIO])", r"\1n \2", line.format(**f)) for line in said], plot, f


def story(rng):
    """One story and its facts."""
    said, _, f = lines(rng)
    return " ".join(said), f


NAME = re.compile(r"\b(%s)\b" % "|".join(GIRLS + BOYS))


def check(text):
    """Contradictions of one story: (found, looked at). Looks at the hero's name, the thing and its
    colour, the animal that speaks, and people who speak before the story has them or who are a third
    one. unmask eval text --stories counts the same."""
    found = looked = 0
    m = re.search(r"(girl|boy) (?:named|whose name was) (\w+)|(\w+) was an? \w+ (girl|boy)\.", text)
    if m:
        kind, name = (m[1], m[2]) if m[1] else (m[4], m[3])
        looked += 1
        found += name not in (GIRLS if kind == "girl" else BOYS)
    for colours in ([c for c, t in re.findall(r"\b(%s) (%s)\b" % ("|".join(COLOURS), "|".join(SMALL)), text)],
                    [t for c, t in re.findall(r"\b(%s) (%s)\b" % ("|".join(COLOURS), "|".join(SMALL)), text)],
                    re.findall(r"(?:said|asked) the (%s)\b" % "|".join(ANIMALS), text)):
        if len(colours) > 1:
            looked += len(colours) - 1
            found += sum(c != colours[0] for c in colours[1:])
    seen = []
    for m in NAME.finditer(text):
        if m[0] not in seen:
            looked += len(seen) > 0
            found += len(seen) > 1 or len(seen) == 1 and text[:m.start()].endswith(("said ", "asked "))
            seen.append(m[0])
    return found, looked


def slips(text):
    """Errors of writing: a word twice in a row, two marks in a row, a sentence without a capital, "a" for "an"
    and the reverse, a quote that does not close, a word that no story has. unmask eval text --stories counts the same."""
    words = list(re.finditer("[A-Za-z]+", text))
    twice = sum(a[0].lower() == b[0].lower() and not text[a.end():b.start()].strip() for a, b in zip(words, words[1:]))
    unknown = sum(w[0].lower() not in WORDS for w in words)
    article = len(re.findall(r"\b[Aa] [aeio][a-z]|\b[Aa]n (?:[^aeiouh]|h[^o]|ho[^u]|hous)", text))
    quotes = sum(line.count('"') % 2 for line in text.split("\n"))
    return (twice + unknown + article + quotes + len(re.findall(r"[.,;:!?]\s*[.,;:!?]", text))
            + len(re.findall(r"[.!?]\s+[a-z]|\.\"\s+[a-z]", text)))


def word_list():
    """Every word that a story may have, in small letters."""
    said = OPEN + HOME + [line for plot in PLOTS.values() for beat in plot for line in beat]
    text = " ".join(re.sub(r"\{\w+\}", " ", line) for line in said)
    lists = (GIRLS, BOYS, ANIMALS, COLOURS, SMALL, PLACES, PLACES.values(), TIMES, FOODS, TRAITS,
             KIN, WEATHER, WEATHER.values(), HOMES, PETNAMES, [a + "s" for a in ANIMALS],
             "girl boy she he her his him herself himself an".split())
    return set(re.findall("[a-z]+", " ".join([text] + [w for of in lists for w in of]).lower()))


WORDS = word_list()


if __name__ == "__main__":
    if sys.argv[1] == "words":
        print("\n".join(sorted(WORDS)))
        sys.exit()
    rng = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        print(story(rng)[0])
