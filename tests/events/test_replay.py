"""What workflows did before is what they would do again: else events that are under way would be stuck."""

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from soonish.events.workflow.life import EventWorkflow
from soonish.events.workflow.reminder import ReminderWorkflow
from soonish.temporal.way import runner, way
from tests.support.histories import FOLDER

HISTORIES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.json"))}


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_history_that_was_kept_is_replayed(name: str) -> None:
    replayer = Replayer(
        workflows=[EventWorkflow, ReminderWorkflow], interceptors=[way("queue")], workflow_runner=runner()
    )
    await replayer.replay_workflow(WorkflowHistory.from_json(name, HISTORIES[name]))


def test_there_are_histories_of_each_story() -> None:
    stories = {name.rpartition("_")[0] for name in HISTORIES}
    assert stories == {"completed", "reminded", "renewed"}
