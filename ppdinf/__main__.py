"""``python -m ppdinf``: the command line."""

from ppdinf.cli import app

if __name__ == "__main__":
    app(prog_name="ppdinf")
