"""Ends a script that lacks packages with one line that names them."""
import importlib.util
import os
import sys


def need(*modules):
    """Ends the script unless all of these modules are there. The docstring of each script says how to install them."""
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        name = os.path.basename(sys.argv[0])
        sys.exit(f"{name} needs {', '.join(missing)}: see the first lines of tools/peers/{name} for how to install it")
