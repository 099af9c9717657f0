"""What may be an Apprise URL, by its words alone and by the library that speaks it."""

import inspect
import re
import sys
from ipaddress import ip_network
from typing import Any

import pytest
import requests

from soonish.delivery.channel import Letter
from soonish.delivery.channels.apprise_library import Targets, check_target, library, list_schemes
from soonish.delivery.egress import Guard
from soonish.delivery.model.targets import apprise_text, apprise_type, check_apprise, masked
from soonish.errors import Invalid

GUARD = Guard()
OPEN = Guard([ip_network("127.0.0.0/8")])


def code_of(url: str, allowed: frozenset[str] | None = None) -> str:
    with pytest.raises(Invalid) as caught:
        check_apprise(url, allowed)
    return caught.value.code


def refusal(url: str, guard: Guard = GUARD, **options: Any) -> str:
    with pytest.raises(Invalid) as caught:
        check_target(url, guard, **options)
    return caught.value.code


def test_a_url_tells_its_scheme_and_host_and_hides_the_rest() -> None:
    found = check_apprise("NTFYS://token@Push.Example.org:8443/ben?priority=high", None)
    assert (found.scheme, found.host, found.hint) == ("ntfys", "push.example.org", "ntfys://***")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ntfys",
        "://x",
        "json://a, json://b",
        "json://a;json://b",
        "json://a json://b",
        "json://a/b c",
        "json://a/\x00",
        "json://a/\r\nHost: b",
        "json://" + "a" * 1994,
    ],
)
def test_a_target_is_one_url_without_spaces_of_at_most_2000_characters(url: str) -> None:
    assert code_of(url) == "apprise_url"


def test_a_url_of_2000_characters_is_not_too_long() -> None:
    assert check_apprise("json://" + "a" * 1993, None).scheme == "json"


@pytest.mark.parametrize(
    "scheme",
    ["syslog", "dbus", "kde", "qt", "glib", "gio", "gnome", "macosx", "windows", "blink1", "mailto", "mailtos"],
)
def test_the_own_machine_and_mail_are_never_a_service_even_if_allowed(scheme: str) -> None:
    assert code_of(f"{scheme}://x") == code_of(f"{scheme}://x", frozenset({scheme})) == "apprise_scheme"


@pytest.mark.parametrize("scheme", ["mqtt", "irc", "xmpp", "growl", "smpp", "rsyslog", "amqp", "aprs", "mqtts", "ircs"])
def test_raw_sockets_are_only_for_those_whose_operator_names_them(scheme: str) -> None:
    assert code_of(f"{scheme}://example.org/x") == "apprise_scheme"
    assert check_apprise(f"{scheme}://example.org/x", frozenset({scheme})).scheme == scheme


def test_what_the_operator_names_is_the_whole_list() -> None:
    assert code_of("json://example.org", frozenset({"ntfys"})) == "apprise_scheme"


def test_mail_is_pointed_to_its_own_kind() -> None:
    with pytest.raises(Invalid, match="use kind email"):
        check_apprise("mailto://me:secret@example.org", None)


@pytest.mark.parametrize(
    "query",
    [
        "template=/etc/passwd",
        "keyfile=x",
        "subfile=x",
        "pgp=yes",
        "pgpkey=/root/x",
        "smtp=10.0.0.1",
        "redirect=yes",
        "verify=no",
        "attach=http://10.0.0.1/",
        "file_url=x",
        "include=x",
        "config=x",
        "a=1&Verify=no",
        "a=1;verify=no",
        "%76erify=no",
        "%20verify=no",
        "verify+=no",
        "verify",
    ],
)
def test_parameters_that_reach_beyond_a_message_are_refused_by_name(query: str) -> None:
    assert code_of(f"json://example.org/?{query}") == "apprise_parameter"


def test_headers_of_these_names_are_headers_and_allowed() -> None:
    assert check_apprise("json://example.org/?+template=a&-verify=b&:config=c&priority=1", None)


@pytest.mark.parametrize(
    "url",
    [
        "json://example.org/in",
        "ntfys://ntfy.sh/topic",
        "tgram://123456789:abcdefg_hijklmnop/12315544/",
        "xml://8.8.8.8",
    ],
)
def test_good_urls_are_taken_by_the_library(url: str) -> None:
    assert check_target(url, GUARD).scheme == url.partition(":")[0]


def test_who_shares_a_host_is_known_by_that_host_and_else_by_the_service() -> None:
    assert check_target("json://User:word@Example.org:8443/in", GUARD).host == "example.org"
    assert check_target("tgram://123456789:abcdefg_hijklmnop/12315544/", GUARD).host == "tgram"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("ntfy://a-topic", "ntfy"),
        ("ntfy://12345", "ntfy"),
        ("ntfys://push.example.org/topic", "push.example.org"),
        ("ntfys://redis/topic", "redis"),
        ("fluxer://123456789012/abcdefghij_token", "fluxer"),
        ("notica://z1", "notica"),
        ("noticas://push.example.org/zxtoken123", "push.example.org"),
        ("matrix://" + "a" * 64, "matrix"),
        ("wechat://corp:secret@1234", "wechat"),
        ("mailgun://user@example.com/" + "a" * 32 + "-" + "b" * 8 + "-" + "c" * 8, "mailgun"),
    ],
)
def test_a_topic_or_a_token_in_the_place_of_a_host_is_none(url: str, host: str) -> None:
    assert check_target(url, GUARD).host == host


def test_a_host_that_could_be_a_topic_is_judged_where_it_is_dialled() -> None:
    assert refusal("ntfys://127.0.0.1/topic") == refusal("noticas://10.0.0.1/zxtoken123") == "egress_refused"


def test_an_unknown_service_and_a_url_that_its_service_cannot_use_are_told_apart() -> None:
    assert refusal("nosuchservice://example.org") == "apprise_scheme"
    assert refusal("https://discord.com/api/webhooks/1/2") == "apprise_scheme"
    assert refusal("discord://x") == "apprise_url"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "user:word@127.0.0.1",
        "%31%32%37.0.0.1",
        "8.8.8.8:25",
    ],
)
def test_a_literal_address_is_judged_when_it_is_stored(host: str) -> None:
    assert refusal(f"json://{host}/in") == refusal(f"xmls://{host}") == "egress_refused"


def test_what_the_operator_opened_may_be_stored() -> None:
    assert check_target("json://127.0.0.1:9/in", OPEN).host == "127.0.0.1"


@pytest.mark.parametrize("url", ["mqtt://example.org/topic", "xmpp://me:word@example.org", "growl://example.org"])
def test_what_has_threads_or_packages_of_its_own_is_for_other_servers_alone(url: str) -> None:
    allowed = frozenset({"mqtt", "xmpp", "growl"})
    assert refusal(url, allowed=allowed) == "apprise_scheme"
    assert check_target(url, GUARD, allowed, remote=True).host == "example.org"


def test_the_list_has_what_speaks_http_with_a_sample_each() -> None:
    found = {each.scheme: each for each in list_schemes()}
    assert {"json", "ntfys", "discord", "tgram", "slack"} <= set(found)
    assert not {"syslog", "mailto", "mqtt", "irc", "dbus", "rsyslog", "nostr"} & set(found)
    assert all(each.sample.startswith(f"{scheme}://") and each.service for scheme, each in found.items())


def test_what_the_operator_allows_is_what_is_listed() -> None:
    assert [each.scheme for each in list_schemes(frozenset({"irc", "json"}))] == ["irc", "json"]


def test_every_listed_service_speaks_by_the_http_client_that_is_guarded() -> None:
    plugins = library().plugins.N_MGR
    for each in list_schemes():
        modules = [sys.modules[base.__module__] for base in plugins[each.scheme].__mro__]
        clients = [vars(module)["requests"] for module in modules if "requests" in vars(module)]
        assert clients, f"{each.scheme} has no client that could be guarded"
        assert not [client for client in clients if client is requests], each.scheme


def test_no_service_that_this_process_speaks_to_starts_threads_of_its_own() -> None:
    plugins = library().plugins.N_MGR
    for each in list_schemes(frozenset(plugins.schemas())):
        for base in plugins[each.scheme].__mro__:
            module = sys.modules[base.__module__]
            if module.__name__.startswith("apprise.plugins."):
                assert not re.search(r"Thread\(|PoolExecutor\(", inspect.getsource(module)), each.scheme


def test_people_get_the_judgement_at_their_field_and_for_other_kinds_their_own() -> None:
    targets = Targets(GUARD, None)
    assert targets.check("email", "ben@example.org").hint == "b***@example.org"
    assert targets.check("apprise", "ntfys://ntfy.sh/topic").scheme == "ntfys"
    with pytest.raises(Invalid) as caught:
        targets.check("apprise", "json://127.0.0.1")
    assert [(each.field, each.code) for each in caught.value.errors] == [("target", "egress_refused")]
    assert len(targets.schemes) == len(list(targets.schemes)) and targets.schemes[0].scheme


@pytest.mark.parametrize(
    ("level", "type_"), [("info", "info"), ("warning", "warning"), ("critical", "failure"), ("other", "info")]
)
def test_levels_have_their_word_in_apprise(level: str, type_: str) -> None:
    assert apprise_type(level) == type_


def test_a_letter_is_title_and_body_with_its_link_below() -> None:
    assert apprise_text(Letter("dlv_1", "Hi", "Body", link="https://example.org")) == (
        "Hi",
        "Body\n\nhttps://example.org",
    )
    assert apprise_text(Letter("dlv_1", "Hi", "")) == ("", "Hi")


def test_an_answer_does_not_tell_the_words_of_its_target() -> None:
    url = "json://user:pass%2Fword1@example.org/token123"
    assert masked("no token123 at example.org for pass/word1: json", url) == "no *** at *** for ***: json"
