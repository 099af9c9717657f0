"""The docs say what the code says: parts made from code are current, every name has its entry, every example holds."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from soonish import due
from soonish.cli.commands import app
from soonish.client import Soonish
from soonish.due.model import Lane
from soonish.ops.model.items import EndFate, LiveState
from soonish.settings import SETTINGS
from soonish.telemetry import REGISTRY
from soonish.web.problems import CODES, PLAIN
from tests.rules import reference
from tests.rules.repository import ROOT, nodes, text, under

PAGES: Final = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *under("docs/", suffix=".md")]
DATABASE: Final = "postgresql://localhost/shop"
_FENCE: Final = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_CALL: Final = re.compile(r"(?:^|[|;&(] *)(?:[A-Z_]+=\S+ +)*(soonish|make)\b([^|;&)\n]*)", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\bSOONISH_[A-Z][A-Z0-9_]*[A-Z0-9]\b")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of one language, without their indentation."""
    found = [(indent, body) for indent, named, body in _FENCE.findall(text(page)) if named == language]
    return [re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) for indent, body in found]


def prose(page: str) -> str:
    return _FENCE.sub("", text(page))


def programs() -> Iterator[Any]:
    """Whole programs among the examples that need no more than a database."""
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            if DATABASE in block and "asyncio.run(" in block:
                yield pytest.param(block, id=f"{page}-{number}")


# --- made from code ---------------------------------------------------------------------------------------------------


def test_what_is_made_from_code_is_current() -> None:
    stale = [page for page in reference.pages() if reference.renewed(text(page)) != text(page)]
    assert stale == [], "run: python -m tests.rules.reference"


def test_all_that_can_be_made_from_code_stands_in_a_page() -> None:
    written = "\n".join(map(text, reference.pages()))
    assert [name for name in reference.BLOCKS if f"<!-- from code: {name} -->" not in written] == []


def test_a_page_that_says_something_else_is_found() -> None:
    page = "docs/reference/kinds.md"
    changed = text(page).replace("system.rekey", "system.reseal")
    assert changed != text(page)
    assert reference.renewed(changed) == text(page)


# --- every name has its entry -----------------------------------------------------------------------------------------


def test_every_setting_metric_kind_and_command_has_its_entry() -> None:
    settings, metrics, kinds, commands = (
        text(f"docs/reference/{name}.md") for name in ("settings", "metrics", "kinds", "cli")
    )
    assert [one.variable for one in SETTINGS if f"| `{one.variable}` |" not in settings] == []
    assert [one.name for one in REGISTRY.collect() if one.name not in metrics] == []
    assert [one.name for one in reference.kinds() if f"| `{one.name}` |" not in kinds] == []
    assert [one for one in reference.commands() if f"## `{one}`\n" not in commands] == []


def test_every_error_code_has_its_entry_and_no_other_is_named() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text("docs/reference/errors.md")))
    used = set(codes())
    assert used - named == set()
    entries = set(re.findall(r"^\| `(\w+)` \|", text("docs/reference/errors.md"), re.MULTILINE))
    assert entries - used == set()


def test_every_plain_code_of_a_field_stands_among_those_of_fields() -> None:
    _, _, fields = text("docs/reference/errors.md").partition("## Of a field")
    entries = re.findall(r"^\| `(\w+)` \| (.*) \|$", fields.partition("\n## ")[0], re.MULTILINE)
    assert {code for code, told in entries if "(named)" not in told} == PLAIN


def codes() -> Iterator[str]:
    """Every code of an error: of the kit, and all that stand in the source."""
    yield from PLAIN
    for group in CODES.values():
        yield from group
    for path in under("src/soonish/", suffix=".py"):
        for node in nodes(path):
            yield from _codes(node)


def _codes(node: ast.AST) -> Iterator[str]:
    """`code = "..."` in a class, `code="..."`, `codes=[...]`, and the second word of a FieldError."""
    given: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        given += [node.value] if getattr(target, "id", "") == "code" and node.value else []
    elif isinstance(node, ast.Call):
        given += [word.value for word in node.keywords if word.arg == "code"]
        lists = [word.value for word in node.keywords if word.arg == "codes"]
        given += [one for found in lists if isinstance(found, ast.List) for one in found.elts]
        given += node.args[1:2] if getattr(node.func, "id", "") == "FieldError" else []
    yield from (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_every_operation_of_the_api_is_listed_with_its_role() -> None:
    rows = text("docs/reference/http.md").splitlines()
    for path, methods in reference.openapi()["paths"].items():
        for method, one in methods.items():
            assert [row for row in rows if row.startswith(f"| `{method.upper()} {path}` | {one['x-role']} |")]


def test_every_public_name_of_the_library_is_told() -> None:
    page = text("docs/reference/library.md")
    names = [name for group in due._HOMES.values() for name in group]
    assert [name for name in names if f"### `{name}`\n" not in page] == []
    verbs = [name for name, value in vars(Soonish).items() if callable(value) and not name.startswith("_")]
    assert [name for name in verbs if f" def {name}(" not in page] == []


def test_every_column_of_the_due_tables_is_explained() -> None:
    page = prose("docs/reference/due-tables.md")
    columns = set(
        re.findall(r"^  ([a-z_]+) (?:bigint|text|smallint|timestamptz|int|jsonb)\b", reference.due_tables(), re.M)
    )
    assert len(columns) > 15
    assert [column for column in columns if f"`{column}`" not in page] == []


def test_every_word_of_the_code_is_in_the_glossary() -> None:
    words = [one.name for one in reference.kinds()]
    words += [lane.name.lower() for lane in Lane]
    words += [*EndFate.__args__, *LiveState.__args__]  # type: ignore[attr-defined]
    words += ["again", "held", "parked", "read", "write", "admin", "operator"]
    assert [word for word in words if f"`{word}`" not in text("docs/glossary.md")] == []


@pytest.mark.parametrize(
    "word",
    ["due item", "kind", "key", "put", "cancel", "lane", "bell", "claim", "lease", "workspace", "role", "action"],
)
def test_the_glossary_has_the_words_that_all_else_is_told_in(word: str) -> None:
    assert re.search(rf"^\| \*\*{word}\*\* \|", text("docs/glossary.md"), re.MULTILINE)


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    wanted = tomllib.loads(text("pyproject.toml"))["project"]["dependencies"]
    names = [re.split(r"[<>=~!\[ ]", one)[0] for one in wanted]
    assert [name for name in names if f"`{name}`" not in text("ARCHITECTURE.md")] == []


# --- what is written holds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    lost = [link for link in _LINK.findall(prose(page)) if "://" not in link and not leads(page, link)]
    assert lost == []


def leads(page: str, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    if not target.exists():
        return False
    return not anchor or anchor in {slug(title) for title in re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)}


def slug(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_example_in_python_compiles(page: str) -> None:
    for block in blocks(page, "python"):
        compile(block, page, "exec")


@pytest.mark.parametrize("program", list(programs()))
def test_every_whole_program_runs(program: str, bare_url: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", program.replace(DATABASE, bare_url)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr


def test_there_are_whole_programs_to_run() -> None:
    assert len(list(programs())) >= 5


@pytest.mark.parametrize("page", [*PAGES, "compose.yaml", "Dockerfile"])
def test_every_variable_is_a_setting(page: str) -> None:
    known = {one.variable for one in SETTINGS}
    used = set(_VARIABLE.findall(text(page)))
    assert {name for name in used if name.removesuffix("_FILE") not in known} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_with_its_options(page: str) -> None:
    typed = [call for block in blocks(page, "sh") for call in _CALL.findall(block)]
    typed += [call for span in _SPAN.findall(prose(page)) for call in _CALL.findall(span) if span.startswith(call[0])]
    assert [problem for program, rest in typed if (problem := strange(program, rest.split()))] == []


def strange(program: str, words: list[str]) -> str | None:
    """What there is no command, target or option for."""
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
        wrong = [word for word in words[:1] if word not in targets and "=" not in word]
        return f"make {wrong[0]}" if wrong else None
    command: Any = typer.main.get_command(app)
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif word.startswith("--"):
            if not any(word in parameter.opts for parameter in command.params) and word != "--help":
                return f"{command.name} {word}"
        elif getattr(command, "commands", None) and not command.params:
            return f"soonish {word}"
    return None


def test_a_command_that_is_not_there_is_seen() -> None:
    assert strange("soonish", ["backup", "make", "file"]) == "soonish make"
    assert strange("soonish", ["up", "--port", "1"]) == "up --port"
    assert strange("make", ["coffee"]) == "make coffee"


@pytest.mark.parametrize("page", PAGES)
def test_nothing_names_a_place_of_one_machine(page: str) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|root|home|Users|mnt)/\S*", text(page)) == []
    hidden = set(re.findall(r"(?<![\w.…/])\.[a-z][\w-]*(?=/)", text(page)))
    assert hidden - {".venv", ".ci", ".local"} == set()


# --- containers -------------------------------------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    read: dict[str, Any] = yaml.safe_load(text("compose.yaml"))
    return read


def own_services() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose()["services"].items() if one["image"] == "soonish"}


def test_the_containers_run_commands_that_exist() -> None:
    services = own_services()
    assert {name: strange("soonish", one["command"]) for name, one in services.items()} == dict.fromkeys(services)
    assert {one["command"][0] for one in services.values()} == {"serve", "work", "migrate"}
    assert {name: one.get("deploy", {}).get("replicas") for name, one in services.items()} == {
        "serve": 2, "work": 4, "migrate": None,
    }  # fmt: skip


def test_the_containers_get_settings_that_exist_and_secrets_from_files() -> None:
    secret = {one.variable for one in SETTINGS if one.secret}
    for service in own_services().values():
        given = set(service["environment"])
        assert {name.removesuffix("_FILE") for name in given} <= {one.variable for one in SETTINGS}
        assert given & secret == set()
        files = [Path(path).name for name, path in service["environment"].items() if name.endswith("_FILE")]
        assert set(files) <= set(service["secrets"]) <= set(compose()["secrets"])


def test_the_containers_have_no_rights_and_say_when_they_are_ready() -> None:
    for name, service in own_services().items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        if name != "migrate":
            *_, program = service["healthcheck"]["test"]
            assert "/readyz" in program
            compile(program, name, "exec")


def test_whatever_a_container_waits_for_can_come_about() -> None:
    services = compose()["services"]
    for service in services.values():
        for other, wait in service.get("depends_on", {}).items():
            wanted = wait["condition"]
            assert wanted in ("service_healthy", "service_completed_successfully")
            assert wanted != "service_healthy" or "healthcheck" in services[other]


def test_the_image_is_made_of_files_that_are_there_and_not_ignored() -> None:
    sources = [
        source for line in re.findall(r"^COPY ([^-\n].*)$", text("Dockerfile"), re.M) for source in line.split()[:-1]
    ]
    let_in = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    assert set(sources) == let_in
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert re.search(r"^USER soonish$", text("Dockerfile"), re.MULTILINE)
