"""The page of the command line: each command with its description, arguments and options, as ``--help`` states them."""

import re

from typer.main import get_command

from ppdinf.cli import app

KINDS = {"path": "PATH", "str": "TEXT", "int": "INTEGER", "float": "NUMBER"}


def commands():
    """Return each command by its full name, such as ``ppdinf session begin``, with the context for its help."""
    found = {}

    def add(name, command):
        found[name] = command, command.context_class(command, info_name=name)
        for word, part in getattr(command, "commands", {}).items():
            add(f"{name} {word}", part)

    add("ppdinf", get_command(app))
    return found


def markdown(text):
    """Return a help text with code where the terminal has bold letters, and for names of options."""
    parts = re.split(r"\*\*(.+?)\*\*", text, flags=re.S)
    parts[::2] = [re.sub(r"--[a-z][a-z-]*", r"`\g<0>`", part) for part in parts[::2]]
    parts[1::2] = [f"`{' '.join(part.split())}`" for part in parts[1::2]]
    return "".join(parts)


def parameters(command, context):
    """Return the name and the help of each argument and option, as on the terminal."""
    rows = []
    for parameter in (parameter for parameter in command.params if not parameter.hidden):
        name, text = parameter.get_help_record(context)
        plain, _, kind = name.partition(" <")
        kind = re.sub(r"list\[(.*)\]| range", r"\1", kind.rstrip(">")).lower()
        word = f" {KINDS[kind]}" if kind in KINDS and plain.startswith("-") else ""
        rows.append((plain + word, markdown(" ".join(text.split()))))
    return rows


def command_line_page():
    """Return the page."""
    found = commands()
    main, _ = found.pop("ppdinf")
    parts = ["# Command line: all commands and options", markdown(main.help)]
    parts.append(
        "`ppdinf COMMAND --help` shows the same text. An option that can be repeated is given once for each value, for "
        "example `--public total --public margin:county`. [How-to](../how_to.md#files-and-the-command-line) links to "
        "examples of the commands."
    )
    groups = {name for name, (command, _) in found.items() if hasattr(command, "commands")}
    for name, (command, context) in found.items():
        parts += [f"## {name}", markdown(command.help)]
        if name in groups:
            continue
        usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
        parts += [f"```text\n{usage}\n```"]
        rows = "\n".join(f"| `{option}` | {text} |" for option, text in parameters(command, context))
        parts += [f"| argument or option | meaning |\n|---|---|\n{rows}"] if rows else []
    return "\n\n".join(parts) + "\n"
