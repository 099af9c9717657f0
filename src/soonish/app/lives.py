"""What Temporal does for events: the workflows and activities of this process, and the items that reach them."""

from soonish.db.pool import Database
from soonish.due import Kind
from soonish.events.actions.handed import Events
from soonish.events.activities.by_hand import ByHand
from soonish.events.activities.life import Life
from soonish.events.activities.reminders import Reminders
from soonish.events.activities.within import Within
from soonish.events.on_due import signal, watch
from soonish.events.workflow.life import EventWorkflow
from soonish.events.workflow.reminder import ReminderWorkflow
from soonish.temporal.engine import Crew, Engine


def crew(db: Database, events: Events, engine: Engine) -> Crew:
    """Who carries out the lives of events."""
    within = Within(db)
    life, by_hand, reminders = Life(within, events), ByHand(within, events), Reminders(within, events, engine)
    return Crew(
        workflows=[EventWorkflow, ReminderWorkflow],
        activities=[
            life.validate_event_exists,
            life.get_event_details,
            life.unhandled_signals,
            life.send_notification,
            life.notify_organizer,
            life.complete_event,
            life.close_event,
            life.settle_signals,
            by_hand.announce_by_hand,
            by_hand.cancel_by_hand,
            reminders.create_reminder_schedules,
            reminders.create_reminder_schedules_for_subscription,
            reminders.delete_reminder_schedules,
            reminders.delete_reminder_schedules_for_subscription,
            reminders.send_reminder_notification,
        ],
    )


def kinds(db: Database, engine: Engine, events: Events) -> list[Kind]:
    """What comes due and reaches a workflow."""
    return [signal.kind(db, engine, events), watch.kind(db, engine, events)]
