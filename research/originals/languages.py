"""Writes the languages of OmniVoice: python3 languages.py > ../../families/omnivoice/languages.txt

A line has the id of a language and its English name in lower case, ids of two letters first. Both are
the keys and values of LANG_NAME_TO_ID in omnivoice/utils/lang_map.py of the package omnivoice 0.2.1, in NFC.
The rest of the package is not loaded. originals.py compares the file with it.
"""
import importlib.util
import os
import unicodedata


def lines():
    package = importlib.util.find_spec("omnivoice").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("lang_map",
                                                  os.path.join(package, "utils", "lang_map.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    named = [(id, unicodedata.normalize("NFC", name)) for name, id in module.LANG_NAME_TO_ID.items()]
    return [f"{id} {name}" for id, name in sorted(named, key=lambda one: (len(one[0]), one))]


if __name__ == "__main__":
    print("\n".join(lines()))
