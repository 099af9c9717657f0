"""What may be stored about a broker, and what SQS is told and says, without any broker."""

from collections.abc import Mapping

import pytest

from soonish.delivery.model.brokers import amqp_errors, group_of, is_fifo, refusal, service_of, sqs_errors

QUEUE = "https://sqs.eu-west-1.amazonaws.com/1/q"
NONE: Mapping[str, str] = {}
KEYS = {"access_key_id": "AKIA", "secret_access_key": "s"}


def of_amqp(url: str = "amqps://user:pass@mq.example.org/vhost", exchange: str = "soonish.facts") -> list[str]:
    return [f"{error.field} {error.code}" for error in amqp_errors({"url": url, "exchange": exchange})]


def of_sqs(queue_url: str = QUEUE, keys: Mapping[str, str] = NONE, *, operator: bool = False) -> list[str]:
    found = sqs_errors({"queue_url": queue_url, **keys}, operator=operator)
    return [f"{error.field} {error.code}" for error in found]


@pytest.mark.parametrize("url", ["amqp://mq.example.org", "amqp://mq.example.org/", "amqps://a:b@mq.example.org/a%2Fb"])
def test_a_broker_and_its_virtual_host_are_a_url(url: str) -> None:
    assert of_amqp(url) == []


@pytest.mark.parametrize("options", ["?cafile=/etc/passwd", "?no_verify_ssl=1", "?heartbeat=0", "#x"])
def test_options_in_the_url_of_a_broker_are_refused_and_not_dropped_in_silence(options: str) -> None:
    assert of_amqp("amqps://mq.example.org/v" + options) == ["config.url pattern"]


def test_a_virtual_host_is_one_part_of_the_path() -> None:
    assert of_amqp("amqps://mq.example.org/a/b") == ["config.url pattern"]


def test_an_exchange_has_a_name_that_the_broker_lets_others_take() -> None:
    assert of_amqp(exchange="amq.topic") == []
    assert of_amqp(exchange="amq.direct") == ["config.exchange pattern"]
    assert of_amqp(exchange="ü" * 128) == ["config.exchange length"]


def test_a_queue_is_named_by_its_whole_url() -> None:
    assert of_sqs(keys=KEYS) == []
    assert of_sqs("https://sqs.eu-west-1.amazonaws.com/", KEYS) == ["config.queue_url pattern"]
    assert of_sqs(QUEUE + "?Action=DeleteQueue", KEYS) == ["config.queue_url pattern"]


@pytest.mark.parametrize("operator", [True, False])
def test_half_a_pair_of_keys_is_refused(operator: bool) -> None:
    assert of_sqs(keys={"access_key_id": "AKIA"}, operator=operator) == ["config.secret_access_key required"]
    assert of_sqs(keys={"secret_access_key": "s"}, operator=operator) == ["config.access_key_id required"]


def test_only_the_first_workspace_goes_with_the_login_of_the_server() -> None:
    assert of_sqs(operator=True) == []
    assert of_sqs(operator=False) == ["config.access_key_id required"]


def test_requests_go_to_the_server_in_the_queues_url_unless_another_is_given() -> None:
    assert service_of(QUEUE, None) == "https://sqs.eu-west-1.amazonaws.com"
    assert service_of(QUEUE, "http://127.0.0.1:9324") == "http://127.0.0.1:9324"


def test_a_fifo_queue_is_known_by_its_name() -> None:
    assert is_fifo(QUEUE + ".fifo")
    assert not is_fifo(QUEUE)


def test_what_is_kept_in_order_are_the_facts_of_a_subject() -> None:
    assert group_of("game/17", "game.reminder_due") == "game/17"
    assert group_of("", "game.reminder_due") == "game.reminder_due"


@pytest.mark.parametrize("subject", ["game/seven teen", "spiel/ü", "x" * 129])
def test_a_subject_that_no_group_can_be_called_has_a_print_of_its_own(subject: str) -> None:
    assert group_of(subject, "t") == group_of(subject, "t") != group_of(subject + "!", "t")
    assert len(group_of(subject, "t")) == 64


@pytest.mark.parametrize(
    ("code", "text", "status", "wanted"),
    [
        ("AccessDenied", "", 403, ("access_denied", True)),
        ("AccessDeniedException", "", 400, ("access_denied", True)),
        ("InvalidClientTokenId", "", 403, ("access_denied", True)),
        ("AWS.SimpleQueueService.NonExistentQueue", "", 400, ("no_such_queue", True)),
        ("com.amazonaws.sqs#QueueDoesNotExist", "", 400, ("no_such_queue", True)),
        ("AWS.SimpleQueueService.BatchRequestTooLong", "", 400, ("too_long", True)),
        ("InvalidParameterValue", "Message must be shorter than 1024 bytes.", 400, ("too_long", True)),
        ("InvalidParameterValue", "The queue should have it.", 400, ("http_400", False)),
        ("InvalidMessageContents", "", 400, ("rejected", True)),
        ("403", "<html>", 403, ("access_denied", True)),
        ("RequestThrottled", "", 403, ("throttled", False)),
        ("ThrottlingException", "", 400, ("throttled", False)),
        ("ExpiredToken", "", 403, ("http_403", False)),
        ("InternalFailure", "", 500, ("http_500", False)),
        ("ServiceUnavailable", "", 503, ("http_503", False)),
    ],
)
def test_only_what_will_be_refused_for_ever_ends_a_delivery(
    code: str, text: str, status: int, wanted: tuple[str, bool]
) -> None:
    assert refusal(code, text, status) == wanted
