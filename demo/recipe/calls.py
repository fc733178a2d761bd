"""Talks with tools: calls of functions and answers from their results, for talks.py.

Tools are listed in the system's turn, a call is a line `Call: NAME {"argument": "value"}`, and its result is a turn of
its own, as ../chat/chat_template.jinja writes it. Three in five tools are of the list below, the others are put together
from a verb and a noun, so that a tool is learned by what is said of it and not by its name. Python only.
"""
import json, random, re

CITIES = """Paris|London|Berlin|Rome|Madrid|Vienna|Oslo|Tokyo|Beijing|Sydney|Boston|Chicago|Seattle|Toronto|Lima|Cairo|Delhi|Moscow|Prague|Lisbon|Dublin|Athens|New York|Los Angeles|San Diego|Hong Kong|
Buenos Aires|Zurich|Geneva|Munich|Hamburg|Milan|Naples|Kyoto|Seoul|Bangkok|Dallas|Houston|Miami|Denver|Austin|Portland|Las Vegas|Brussels|Warsaw|Helsinki|Stockholm|Nairobi|Cape Town|NYC|LA|SF|Santa Cruz|San Jose""".replace("\n", "").split("|")
PEOPLE = "Anna Ben Clara David Emma Felix Grace Hugo Ida Jack Karl Lily Mia Noah Olivia Paul Rosa Sam Tom Zoe Alice Bob Carol Eve Mary John Kim Lee Maria Omar".split()
THINGS = "bread milk apples shoes lamp table chair book phone laptop bike car house guitar piano camera watch bag coat ticket pizza coffee tea rice soap paper".split()
WORDS = "love peace river stone winter music friend dragon fox house garden magic light water mountain forest hello goodbye thanks night morning".split()
LANGUAGES = "French German Spanish Italian Dutch Polish Greek Latin Japanese Chinese".split()
DAYS = "today tomorrow Monday Tuesday Friday Saturday Sunday tonight".split()
SKY = "sunny cloudy rainy windy foggy snowy warm cold hot stormy clear mild".split()
SYMBOLS = "AAPL GOOG MSFT TSLA NVDA IBM AMZN META ORCL INTC".split()


def word(rng):
    n = rng.choice((1, 2, 2, 3))
    return "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(["", "", "n", "r", "l", "s"]) for _ in range(n))


def city(rng):
    return rng.choice(CITIES) if rng.random() < 0.7 else word(rng).capitalize() if rng.random() < 0.7 else (word(rng) + " " + word(rng)).title()


def person(rng):
    return rng.choice(PEOPLE) if rng.random() < 0.75 else word(rng).capitalize()


def thing(rng):
    return rng.choice(THINGS) if rng.random() < 0.7 else word(rng)


def code(rng):
    return rng.choice([str(rng.randrange(10, 99999)), rng.choice("ABCDEFGHKLMNPQRSTUVWXYZ") + str(rng.randrange(1, 999)), word(rng).upper()])


NUMBER = {i: w for i, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())}


def spoken(rng, n):
    return NUMBER[n] if n in NUMBER and rng.random() < 0.5 else str(n)


# Each tool: names, descriptions, what it draws (arguments with several names each, words for the texts), questions,
# results, answers. {a}, {b} are its arguments as people say them.
def draw(rng, kind):
    """A tool's call: (name, description, arguments, question, result, answer)."""
    r = rng.choice
    if kind == "weather":
        c, d, sky, deg = city(rng), r(DAYS), r(SKY), rng.randrange(-9, 40)
        p, both = r(["city", "location", "place", "town", "where"]), rng.random() < 0.2
        name = r(["get_weather", "weather", "get_current_weather", "getWeather", "current_weather", "weather_lookup", "fetch_weather",
            "get_forecast", "forecast", "get_temperature", "temperature_at", "weather_tool"])
        desc = r(["Get weather for a given city.", "Get the weather in a location",
            "Lookup the weather for a given city in either celsius or fahrenheit", "Returns the weather of a place.", "The weather in a city",
            "Get the current weather", "Fetch the weather at the given location.", "Weather forecast for a city."])
        q = r(["What is the weather in {c}?", "what's the weather in {c}", "What is the weather like in {c}?", "How is the weather in {c}?",
            "Weather in {c}?", "weather {c}", "Is it raining in {c}?", "Do I need an umbrella in {c}?", "Tell me the weather in {c}.",
               "How warm is it in {c}?", "How cold is it in {c}?", "what is the temperature in {c}?",
               "I am going to {c}. What is the weather there?", "Is it sunny in {c}?", "Can you tell me the weather in {c}?",
               "Will it be hot in {c}?"])
        args = {p: c}
        if both:
            q = q.rstrip("?.") + " " + d + "?"
            args[r(["day", "date", "when"])] = d
        result, answer = r([("{sky}", "It is {sky} in {c}."), ("It's {sky} in {c}.", "It is {sky} in {c}."),
            ("It's always sunny in {c}!", "It is always sunny in {c}."), ("{deg} degrees and {sky}", "In {c} it is {sky} with {deg} degrees."),
                            ('{{"temperature": {deg}}}', "In {c} it is {deg} degrees."),
                            ('{{"temperature": {deg}, "conditions": "{sky}"}}', "In {c} it is {sky} with {deg} degrees."),
                            ('{{"location": "{c}", "temperature": {deg}}}', "In {c} it is {deg} degrees."),
                            ('{{"weather": "{sky}"}}', "It is {sky} in {c}."), ("{deg}°F", "In {c} it is {deg}°F."),
                            ("{deg} C, {sky}", "In {c} it is {sky} with {deg} C."), ("The weather in {c} is {sky}.", "The weather in {c} is {sky}.")])
        return name, desc, args, q.format(c=c), result.format(sky=sky, deg=deg, c=c), answer.format(sky=sky, deg=deg, c=c)
    if kind == "math":
        a, b = rng.randrange(1, 13) if rng.random() < 0.5 else rng.randrange(1, 999), rng.randrange(1,
            13) if rng.random() < 0.5 else rng.randrange(1, 99)
        op = r(["add", "subtract", "multiply"])
        value = {"add": a + b, "subtract": a - b, "multiply": a * b}[op]
        p, s = r([("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("n", "m")])
        name = r({"add": ["add", "add_two_numbers", "sum", "plus", "addition", "add_numbers", "calculate_sum"],
            "subtract": ["subtract", "subtract_two_numbers", "minus", "difference"],
            "multiply": ["multiply", "multiply_two_numbers", "times", "product", "mul"]}[op])
        desc = r({"add": ["Add two numbers", "Adds a and b.", "The sum of two numbers", "Returns the sum."],
            "subtract": ["Subtract two numbers", "The difference of two numbers.", "Subtracts b from a."],
            "multiply": ["Multiply two numbers", "The product of two numbers.", "Multiplies a and b."]}[op])
        q = r({"add": ["What is {a} plus {b}?", "what is {a} + {b}", "{a} + {b} = ?", "Add {a} and {b}.", "What is the sum of {a} and {b}?",
            "How much is {a} and {b}?", "Compute {a} + {b}."], "subtract": ["What is {a} minus {b}?", "{a} - {b}?", "Subtract {b} from {a}.",
            "Compute {a} minus {b}."],
               "multiply": ["What is {a} times {b}?", "{a} * {b}?", "Multiply {a} and {b}.", "what is {a} x {b}?", "Compute {a} times {b}."]}[op])
        return name, desc, {p: a, s: b}, q.format(a=spoken(rng, a), b=spoken(rng, b)), r(["{v}", "{v}", '{{"result": {v}}}',
            "The result is {v}."]).format(v=value), r(["The result is {v}.", "The result is {v}."]).format(v=value)
    if kind == "square":
        a = rng.randrange(2, 200)
        name, desc, q = r([("square", "The square of a number.", "What is the square of {a}?"),
            ("double", "Doubles a number.", "What is the double of {a}?"), ("is_prime", "Is a number prime?", "Is {a} a prime number?"),
            ("factorial", "The factorial of a number.", "What is the factorial of {a}?"),
                           ("magic_function", "Applies a magic function to an input.", "what is the value of magic_function({a})?"),
                           ("square_root", "The square root.", "What is the square root of {a}?"),
                           ("celsius", "Converts degrees to celsius.", "How much is {a} Fahrenheit in celsius?")])
        v = r([str(rng.randrange(2, 9999)), str(a + 2), "true", "false"]) if name == "is_prime" else str(rng.randrange(2, 9999))
        return name, desc, {r(["n", "x", "number", "input", "value", "a"]): a}, q.format(a=a), v, f"The result is {v}."
    if kind == "none":
        name, desc, q, v, ans = r([
            ("get_time", "The current time.", "What time is it?", "{t}", "It is {t}."),
                ("current_time", "Get the current time", "what's the time", "{t}", "It is {t}."),
                ("now", "Returns the time now.", "Tell me the time.", "{t}", "It is {t}."),
            ("get_date", "Today's date.", "What day is it today?", "{d}", "It is {d}."),
            ("today", "The date of today", "What is the date?", "{d}", "It is {d}."),
            ("roll_dice", "Roll a die and return the result.", "Roll the dice.", "{n}", "The result is {n}."),
            ("roll_dice", "Roll a six-sided die and return the result.", "My guess is {n}", "{n}", "The result is {n}."),
            ("roll_die", "Rolls a die.", "Can you roll a die for me?", "{n}", "The result is {n}."),
            ("flip_coin", "Flips a coin.", "Heads or tails?", "{h}", "The result is {h}."),
            ("flip_coin", "Flip a coin", "Flip a coin.", "{h}", "The result is {h}."),
            ("get_player_name", "Get the player's name.", "Who is playing?", "{p}", "The name is {p}."),
            ("get_user", "The name of the user", "Who am I?", "{p}", "The name is {p}."),
            ("whoami", "Returns the user.", "What is my name?", "{p}", "The name is {p}."),
            ("get_location", "Where the user is.", "Where am I?", "{c}", "You are in {c}."),
            ("my_location", "The user's location", "Which city am I in?", "{c}", "You are in {c}."),
            ("random_number", "A random number.", "Give me a random number.", "{m}", "The result is {m}."),
            ("get_battery", "The battery level.", "How full is the battery?", "{m}%", "The result is {m}%."),
            ("tell_joke", "A joke.", "Tell me a joke.", "{j}", "{j}"), ("get_news", "The news of the day.", "What is in the news?", "{j}", "{j}"),
            ("next_train", "When the next train goes.", "When is the next train?", "{t}", "It is {t}."),
            ("count_users", "How many users there are.", "How many users are there?", "{m}", "The result is {m}."),
            ("get_temperature", "The temperature in the room.", "How warm is it here?", "{m} degrees", "The result is {m} degrees."),
            ("lucky_color", "The color of the day.", "Which color is lucky?", "{k}", "The result is {k}.")])
        x = dict(t=f"{rng.randrange(24)}:{rng.randrange(10, 60)}", d=r(["Monday", "Friday", "Sunday",
            "2026-%02d-%02d" % (rng.randrange(1, 13), rng.randrange(1, 29)), "May 5", "March 1"]), n=rng.randrange(1, 7), h=r(["heads", "tails"]),
            p=person(rng), c=city(rng), m=rng.randrange(1, 999),
                 j=r(["A fox walks into a barn and asks for tea.", "The river is high today.", "Nobody knows what the owl knows.",
                 "A new bridge opened."]), k=r(["red", "blue", "green", "yellow"]))
        return name, desc, {}, q.format(**x), v.format(**x), ans.format(**x)
    if kind == "search":
        w = r([rng.choice(WORDS), word(rng), rng.choice(WORDS) + " " + rng.choice(WORDS), person(rng), city(rng)])
        name = r(["search", "web_search", "search_web", "lookup", "search_docs", "wiki", "find_page", "google", "search_wikipedia", "knowledge_base",
            "retrieve", "query_docs"])
        desc = r(["Search the web.", "Search for information", "Searches the documents.", "Looks a word up in the wiki.",
            "Find pages about a topic.", "Search for a query", "Search the knowledge base."])
        q = r(["Search for {w}.", "What is {w}?", "Look up {w}.", "Find something about {w}.", "Who is {w}?", "What do you know about {w}?",
            "Search the web for {w}", "Please search {w}.", "Tell me what {w} means.", "Find pages about {w}", "google {w}"])
        v = r(["{w} is a {x} river.", "{w}: a small town.", "No results.", "{w} is the name of a {x} stone.", "A {x} page about {w}.",
            "There are {n} pages."]).format(w=w, x=r(["long", "big", "red", "old", "new"]), n=rng.randrange(2, 99))
        return name, desc, {r(["query", "q", "text", "term", "topic", "question"]): w}, q.format(w=w), v, v if v[-1] == "." else v + "."
    if kind == "price":
        w = r([thing(rng), rng.choice(SYMBOLS), word(rng).upper()])
        n = r([str(rng.randrange(1, 999)), "%d.%02d" % (rng.randrange(1, 400), rng.randrange(100))])
        name, desc, p = r([("get_price", "The price of a product.", "product"), ("price", "Get the price of an item", "item"),
            ("stock_price", "The price of a stock", "symbol"), ("get_stock_price", "Get the current stock price", "ticker"),
            ("lookup_price", "Price of a thing.", "name"), ("get_stock", "How much a share costs", "symbol")])
        q = r(["What is the price of {w}?", "How much is {w}?", "What does {w} cost?", "price of {w}", "How much does {w} cost?",
            "Price of {w}, please", "What is {w} worth?"])
        return name, desc, {p: w}, q.format(w=w), r([n, "$" + n, f'{{"price": {n}}}', n + " euros"]), None
    if kind == "translate":
        w, to = r(WORDS), r(LANGUAGES)
        v = word(rng)
        name = r(["translate", "translate_text", "translator"])
        return name, r(["Translate a text.", "Translates a word into a language.", "Translate text to a target language"]), {r(["text", "word"]): w,
            r(["language", "to", "target"]): to}, r(["Translate {w} into {to}.", "What is {w} in {to}?", "How do you say {w} in {to}?",
            "Say {w} in {to}."]).format(w=w, to=to), v, f"In {to} it is {v}."
    if kind == "send":
        p, w = person(rng), r([rng.choice(WORDS), rng.choice(["I am late", "come home", "see you soon", "good luck", "call me", "dinner is ready"])])
        name, desc = r([("send_message", "Send a message to a person."), ("send_email", "Sends an email."), ("text", "Text somebody."),
            ("notify", "Notify a user"), ("send_sms", "Send a text message")])
        return name, desc, {r(["to", "recipient", "person", "name"]): p, r(["message", "text", "body"]): w}, r(["Tell {p}: {w}.",
            "Send {p} the message {w}.", "Write to {p}: {w}", "Message {p} that {w}.", "Send {w} to {p}."]).format(p=p,
            w=w), r(["ok", "sent", "done", "true", "Message sent."]), "Done."
    if kind == "remind":
        n, w = rng.randrange(1, 60), r(["call home", "buy milk", "go to bed", "feed the cat", "drink water", "write to " + person(rng)])
        name, desc, args, q = r([("set_timer", "Set a timer in minutes.", {"minutes": n}, f"Set a timer for {n} minutes."),
            ("set_alarm", "Sets an alarm.", {"minutes": n}, f"Wake me in {n} minutes."),
            ("add_todo", "Add a task to the list.", {"task": w}, f"Add {w} to my list."),
                                 ("create_reminder", "Creates a reminder.", {"text": w}, f"Remind me to {w}."),
                                 ("remind", "Remind the user", {"text": w, "minutes": n}, f"Remind me to {w} in {n} minutes."),
                                 ("add_note", "Write a note.", {"note": w}, f"Note: {w}.")])
        return name, desc, args, q, r(["ok", "done", "set", "added", "true"]), "Done."
    if kind == "switch":
        w, on = r(["light", "lamp", "radio", "heater", "tv", "door", "window", "fan"]), r(["on", "off"])
        name, desc = r([("switch", "Switch a device on or off."), ("set_device", "Sets the state of a device."),
            ("turn", "Turns things on and off."), ("control", "Control a device in the house")])
        return name, desc, {r(["device", "name"]): w, "state": on}, r(["Turn the {w} {on}.", "Switch {on} the {w}.", "Please turn {on} the {w}.",
            "{w} {on}"]).format(w=w, on=on), r(["ok", "done", "true"]), "Done."
    if kind == "who":
        p, n = person(rng), rng.randrange(1, 99)
        name, desc, q, v, a = r([("get_age", "The age of a person.", "How old is {p}?", "{n}", "{p} is {n}."),
            ("get_phone", "The phone number of a person.", "What is the number of {p}?", "{c}", "The result is {c}."),
            ("get_city", "Where a person lives.", "Where does {p} live?", "{t}", "{p} lives in {t}."),
                                 ("find_user", "Find a user by name.", "Find the user {p}.", "{c}", "The result is {c}."),
                                 ("get_balance", "The money in a customer's account.", "How much money has {p}?", "{n}", "The result is {n}."),
                                 ("get_email", "The email of a person", "What is the email of {p}?", "{w}@mail.com", "The result is {w}@mail.com."),
                                 ("birthday", "When somebody has birthday", "When is the birthday of {p}?", "May {n}", "It is May {n}.")])
        x = dict(p=p, n=n, c=code(rng), t=city(rng), w=word(rng))
        return name, desc, {r(["name", "person", "user", "who", "customer"]): p}, q.format(**x), v.format(**x), a.format(**x)
    if kind == "order":
        c = code(rng)
        name, desc, q = r([("get_order", "The state of an order.", "Where is my order {c}?"),
            ("order_status", "Get the status of an order", "What is the status of order {c}?"),
            ("track", "Track a parcel.", "Track the parcel {c}."), ("get_ticket", "Read a ticket.", "What about ticket {c}?"),
            ("get_file", "Reads a file.", "Read the file {c}."),
                           ("read_file", "Read a file", "What is in the file {c}?"),
                           ("get_customer", "Find a customer by number.", "Who is customer {c}?"),
                           ("flight_status", "The status of a flight.", "Is flight {c} on time?")])
        v = r(["shipped", "on the way", "delivered", "lost", "open", "closed", "ready", "late", person(rng)])
        return name, desc, {r(["id", "order_id", "number", "name", "path"]): c if not c.isdigit() or rng.random() < 0.5
            else int(c)}, q.format(c=c), r([v, v, f'{{"status": "{v}"}}']), f"The result is {v}."
    if kind == "route":
        a, b, n = city(rng), city(rng), rng.randrange(2, 2000)
        name, desc, q = r([("distance", "The distance between two cities.", "How far is {a} from {b}?"),
            ("get_distance", "Distance of two places", "What is the distance between {a} and {b}?"),
            ("find_flight", "Find a flight.", "Find a flight from {a} to {b}."), ("route", "The way from one place to another.",
            "How do I get from {a} to {b}?"),
                           ("find_train", "Trains between cities.", "Is there a train from {a} to {b}?"),
                           ("book_flight", "Book a flight.", "Book a flight from {a} to {b}.")])
        x, y = r([("from", "to"), ("origin", "destination"), ("start", "end"), ("a", "b")])
        return name, desc, {x: a, y: b}, q.format(a=a, b=b), str(n) + r([" km", " miles", ""]), None
    # made of parts
    verb, noun = r(["get", "find", "fetch", "read", "check", "look_up", "show", "count", "load", "query", "list",
        "compute"]), r("score size height weight owner author color status name rank level speed length capital population recipe film song team result grade room road shop menu date code value rate hotel museum river".split())
    w = r([person(rng), city(rng), thing(rng), word(rng), word(rng).capitalize(), code(rng)])
    v = r([person(rng), city(rng), str(rng.randrange(1, 99999)), word(rng), word(rng).capitalize(), thing(rng),
        str(rng.randrange(1, 99)) + " " + word(rng)])
    p = r(["name", "of", "id", "item", "key", "query", "subject", "target", word(rng)])
    name = r([f"{verb}_{noun}", f"{noun}", f"{verb}{noun.capitalize()}", f"{noun}_of", f"{word(rng)}_{noun}", f"{noun}_tool"])
    desc = r([f"The {noun} of something.", f"Get the {noun}.", f"Returns the {noun} by {p}.", f"Gives the {noun} for the {p}", f"Finds the {noun}."])
    q = r(["What is the {noun} of {w}?", "Tell me the {noun} of {w}.", "{noun} of {w}?", "Which {noun} has {w}?", "Give me the {noun} of {w}",
        "I need the {noun} of {w}.", "Do you know the {noun} of {w}?", "What {noun} does {w} have?", "Find the {noun} of {w}."]).format(noun=noun,
        w=w)
    return name, desc, {p: w}, q, r([v, v, f'{{"{noun}": "{v}"}}', f"The {noun} is {v}."]), f"The {noun} of {w} is {v}."


KINDS = ["weather"] * 5 + ["math"] * 3 + ["square"] + ["none"] * 3 + ["search"] * 2 + "price translate send remind switch who order route".split() + ["parts"] * 11


def listing(tools):
    """The tools as the template lists them: (name, arguments, description)."""
    return "Tools:" + "".join("\n%s(%s)%s" % (n, ", ".join(a), ": " + d if d else "") for n, a, d in tools)


def written(name, arguments):
    return "Call: %s %s" % (name, json.dumps(arguments, ensure_ascii=False))


def talk(rng):
    """A talk in which tools are at hand: (role, text) pairs."""
    import talks
    calls = []
    for _ in range(rng.choices((1, 2, 3, 4), (6, 4, 2, 1))[0]):
        c = draw(rng, rng.choice(KINDS))
        if all(c[0] != other[0] for other in calls):
            calls.append(c)
    tools = [(n, list(a), d if rng.random() < 0.93 else "") for n, d, a, *_ in calls]
    if rng.random() < 0.15:  # an argument that nobody has to give
        n, a, d = tools[0]
        if a:
            tools[0] = n, a + [rng.choice(["unit", "limit", "format", "lang", "page"])], d
    rng.shuffle(tools)
    said = listing(tools)
    if rng.random() < 0.35:
        said = rng.choice(["You are a helpful assistant", "You are a helpful assistant.", "Be concise.", "You are a helpful AI assistant.",
            "Use tools.", "Answer questions with the tools.", "Reply in one sentence.", "You're a dice game.",
                           "You are a friendly bot.", "Help the user."]) + "\n" + said
    turns = [("system", said)]
    for _ in range(rng.choices((0, 1), (8, 2))[0]):  # something before
        before, _ = talks.chat(rng)
        if before[0][0] != "system" and sum(len(t) for _, t in before[:2]) < 400:
            turns += before[:2]
    if rng.random() < 0.2:  # no tool is needed
        other, _ = talks.chat(rng)
        other = [t for t in other if t[0] != "system"]
        if len(turns) == 1 and (other[1][1] != talks.OTHER) and other[1][1] != talks.UNKNOWN:
            return turns + other[:2]
    c = rng.choice(calls)
    name, desc, args, q, result, answer = c
    if answer is None:
        answer = "The result is %s." % (json.loads(result)["price"] if result[0] == "{" else result)
    if len(calls) > 1 and rng.random() < 0.1 and args:  # two calls at once
        kind = next((k for k in ["weather"] if "eather" in name or "eather" in desc), "")
        if kind:
            (p, v), = list(args.items())[:1]
            w = city(rng)
            turns += [("user", talks.typed(rng, f"What is the weather in {v} and in {w}?", 0.8, None)),
                ("assistant", written(name, {p: v}) + "\n" + written(name, {p: w}))]
            if rng.random() < 0.5:
                sky = rng.sample(SKY, 2)
                turns += [("tool", sky[0]), ("tool", sky[1]), ("assistant", f"It is {sky[0]} in {v} and {sky[1]} in {w}.")]
            return turns
    turns += [("user", talks.typed(rng, q, 0.75, None)), ("assistant", written(name, args))]
    if rng.random() < 0.55:
        turns += [("tool", result), ("assistant", answer)]
        if rng.random() < 0.25:
            c = rng.choice(calls)
            if c[5]:
                turns += [("user", c[3]), ("assistant", written(c[0], c[2]))]
                if rng.random() < 0.5:
                    turns += [("tool", c[4]), ("assistant", c[5])]
    return turns
