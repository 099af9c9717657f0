"""`soonish api`: every operation of the server from the shell."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Service
from tests.support.shell import Done, shell


def api(service: Service, *arguments: str, text: str | None = None) -> Done:
    return shell("api", *arguments, environ=service.settings, text=text)


def answer(told: Done) -> Any:
    assert (told.code, told.err) == (0, "")
    return json.loads(told.out)


def test_it_prints_the_answer_as_json(service: Service) -> None:
    told = answer(api(service, "get", "/v1/me"))
    assert (told["role"], told["workspace"]["slug"]) == ("operator", "main")


def test_it_finds_what_runs_on_the_data_directory_wherever_that_listens(service: Service) -> None:
    here = {"SOONISH_DATA_DIR": str(service.folder)}
    assert answer(shell("api", "GET", "/v1/me", environ=here))["role"] == "operator"
    elsewhere = shell("api", "GET", "/v1/me", environ=here | {"SOONISH_URL": "http://127.0.0.1:1"})
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert "http://127.0.0.1:1" in elsewhere.err


def test_fields_go_into_the_body_of_a_post_and_the_query_of_a_get(service: Service) -> None:
    name = f"key {uuid.uuid4().hex[:6]}"
    made = answer(api(service, "POST", "/v1/api-keys", f"name={name}", "role=read", "expires_at=null"))
    assert made["key"].startswith("sk_")
    assert len(answer(api(service, "GET", "/v1/api-keys", "limit=1"))["items"]) == 1
    gone = api(service, "DELETE", f"/v1/api-keys/{made['id']}")
    assert (gone.code, gone.out, gone.err) == (0, "", "")


def test_a_body_comes_from_a_file_or_from_standard_input(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text('{"role": "read", "minutes": 5}')
    assert "/login/" in answer(api(service, "POST", "/v1/login-links", "--json", str(file)))["url"]
    assert "/login/" in answer(api(service, "POST", "/v1/login-links", "--json", "-", text='{"role": "read"}'))["url"]


def test_a_change_can_ask_for_the_version_that_it_saw(service: Service) -> None:
    version = answer(api(service, "GET", "/v1/workspace"))["version"]
    name = f"Main {uuid.uuid4().hex[:6]}"
    changed = answer(api(service, "PATCH", "/v1/workspace", f"name={name}", "--if-match", str(version)))
    assert (changed["name"], changed["version"]) == (name, version + 1)
    stale = api(service, "PATCH", "/v1/workspace", "name=Mine", "--if-match", str(version))
    assert stale.code == 1
    assert answer(api(service, "GET", "/v1/workspace"))["name"] == name


def test_all_bad_fields_are_named(service: Service) -> None:
    told = api(service, "POST", "/v1/login-links", "role=king", "minutes=0", "shoe=42")
    assert (told.code, told.out) == (1, "")
    assert [line.split(":")[0].strip() for line in told.err.splitlines()[1:]] == ["role", "minutes", "shoe"]


def test_text_is_printed_as_it_is(service: Service) -> None:
    told = api(service, "GET", "/metrics")
    assert "# TYPE soonish_due_pending gauge" in told.out


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("GET", "/v1/nowhere"), "There is nothing here"),
        (("FETCH", "/v1/me"), "GET"),
        (("GET", "/v1/ops/due/999999999"), "soonish: "),
    ],
)
def test_a_refusal_is_one_sentence_and_ends_with_1(service: Service, typed: tuple[str, ...], told: str) -> None:
    refused = api(service, *typed)
    assert (refused.code, refused.out) == (1, "")
    assert told in refused.err
    assert len(refused.err.splitlines()) == 1


def test_a_path_without_its_slash_is_understood(service: Service) -> None:
    assert answer(api(service, "GET", "v1/me"))["role"] == "operator"
