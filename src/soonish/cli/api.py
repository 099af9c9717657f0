"""`soonish api`: any operation of the server from the shell. Knows HTTP verbs and JSON, no operation in particular."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from soonish.cli import show
from soonish.cli.server import server

_IN_QUERY = ("GET", "HEAD", "DELETE")


async def call(method: str, path: str, fields: Sequence[str], body_file: str | None, version: int | None) -> None:
    """Ask, and print the answer's body; fields go into the query of a GET or DELETE, else into the body."""
    method, given = method.upper(), dict(map(field, fields))
    headers = {} if version is None else {"if-match": f'"{version}"'}
    async with server() as soonish:
        if method in _IN_QUERY and body_file is None:
            answer = await soonish.request(method, path, query=given, headers=headers)
        else:
            answer = await soonish.request(method, path, body(given, body_file), headers=headers)
    if isinstance(answer.body, str):
        show.say(answer.body)
    elif answer.body is not None:
        show.as_json(answer.body)


def field(text: str) -> tuple[str, Any]:
    """`name=value`; a value that reads as JSON (number, true, null, list, quoted text) is that, else it is text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r}: write a field as NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def body(given: dict[str, Any], body_file: str | None) -> Any:
    """What is sent: the file (`-` = standard input), over it the fields."""
    if body_file is None:
        return given or None
    try:
        text = sys.stdin.read() if body_file == "-" else Path(body_file).read_text()
        content = json.loads(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{body_file} cannot be read as JSON: {error}") from error
    if not given:
        return content
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{body_file} is no JSON object, so no field can be set in it")
    return content | given
