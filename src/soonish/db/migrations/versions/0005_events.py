"""What happens at a time, who wants to hear of it, what its organizer said, and when each one is reminded."""

from soonish.db.migrations.wall import open_to_lookup, owned_by_lookup, run, wall_in

revision = "0005_events"
down_revision = "0004_delivery"


def upgrade() -> None:
    run(EVENT)
    run(SUBSCRIPTION)
    run(TOLD)
    run(ASKED)
    wall_in("event", "event_offset", "event_change", "subscription", "broadcast", "event_signal", "snooze")
    wall_in("reminder_schedule", "subscription_request", "event_feed", "event_defaults")
    # What runs in the workflow engine is handed the id of an event alone.
    open_to_lookup("event")
    run(WORKSPACE)
    owned_by_lookup("event_workspace(bigint)", "workspaces_to_replan(text)")
    # The mailbox of a request is sealed under the id of its row, which is taken first.
    run("GRANT USAGE ON SEQUENCE subscription_request_id_seq TO soonish_app")


EVENT = """
CREATE TABLE event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  organizer_id bigint,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
  description text NOT NULL DEFAULT '' CHECK (char_length(description) <= 10000),
  location text NOT NULL DEFAULT '' CHECK (char_length(location) <= 500),
  link text CHECK (char_length(link) BETWEEN 1 AND 2000),
  timezone text NOT NULL,
  start_date timestamptz NOT NULL,
  end_date timestamptz,
  effective_end_date timestamptz NOT NULL,
  is_public boolean NOT NULL DEFAULT false,
  reminder_offsets int[] CHECK (cardinality(reminder_offsets) <= 20),
  state text NOT NULL CHECK (state IN ('draft', 'scheduled', 'live', 'completed', 'cancelled')),
  show_time_in text NOT NULL DEFAULT 'event' CHECK (show_time_in IN ('event', 'recipient')),
  reminder_engine text NOT NULL CHECK (reminder_engine IN ('due', 'temporal')),   -- who planned its reminders
  uid uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  sequence int NOT NULL DEFAULT 0,
  link_generation int NOT NULL DEFAULT 0,
  cancel_message text CHECK (char_length(cancel_message) <= 1000),
  planned_at timestamptz NOT NULL DEFAULT now(),    -- set, moved or published: what was past then is never sent
  published_at timestamptz,
  live_at timestamptz,
  completed_at timestamptz,
  cancelled_at timestamptz,
  closed_at timestamptz,                            -- its workflow has finished
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (workspace_id, id),
  CHECK (end_date > start_date),
  CHECK (effective_end_date > start_date),
  FOREIGN KEY (workspace_id, organizer_id) REFERENCES person (workspace_id, id) ON DELETE SET NULL (organizer_id)
);
CREATE INDEX event_start ON event (workspace_id, start_date, id);
CREATE INDEX event_state ON event (workspace_id, state, start_date, id);
CREATE INDEX event_organizer ON event (organizer_id) WHERE organizer_id IS NOT NULL;
CREATE TABLE event_offset (
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  offset_seconds int NOT NULL CHECK (offset_seconds BETWEEN 0 AND 31622400),
  PRIMARY KEY (event_id, offset_seconds),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE
);
CREATE TABLE event_change (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  version int NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL,
  changes jsonb NOT NULL,                           -- {field: {old, new}}
  note text CHECK (char_length(note) <= 1000),
  told boolean NOT NULL,
  broadcast_id bigint,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX event_change_event ON event_change (event_id, id);
CREATE INDEX event_change_broadcast ON event_change (broadcast_id) WHERE broadcast_id IS NOT NULL;
CREATE TABLE event_signal (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its `seq`: written under the event's lock, so in order
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  name text NOT NULL CHECK (name IN ('start', 'participant_added', 'participant_removed', 'event_updated',
                                     'send_manual_notification', 'cancel_event')),
  payload jsonb NOT NULL,
  sent_at timestamptz,
  handled_at timestamptz,
  outcome text CHECK (char_length(outcome) <= 200),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX event_signal_open ON event_signal (event_id, id) WHERE handled_at IS NULL;
CREATE INDEX event_signal_event ON event_signal (event_id, id);
"""

SUBSCRIPTION = """
CREATE TABLE subscription (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  person_id bigint NOT NULL,
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'removed')),
  source text NOT NULL CHECK (source IN ('api', 'public')),
  reminder_offsets int[] CHECK (cardinality(reminder_offsets) <= 20),   -- distinct, largest first; none = the event's
  selectors jsonb,
  activations int NOT NULL DEFAULT 1,
  activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),      -- activated, or its offsets last changed
  removed_at timestamptz,
  removed_by text CHECK (removed_by IN ('organizer', 'person', 'one_click', 'erased')),
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (workspace_id, id),
  UNIQUE (event_id, person_id),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE,
  FOREIGN KEY (workspace_id, person_id) REFERENCES person (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX subscription_active ON subscription (event_id, id) WHERE state = 'active';
CREATE INDEX subscription_person ON subscription (person_id, state);
CREATE INDEX subscription_offsets ON subscription USING gin (reminder_offsets) WHERE state = 'active';
CREATE TABLE snooze (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  subscription_id bigint NOT NULL,
  at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'told', 'dropped')),
  reason text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (workspace_id, subscription_id) REFERENCES subscription (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX snooze_planned ON snooze (subscription_id) WHERE state = 'planned';
CREATE INDEX snooze_subscription ON snooze (subscription_id, id);
CREATE TABLE event_feed (
  person_id bigint PRIMARY KEY,
  workspace_id bigint NOT NULL,
  generation int NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (workspace_id, person_id) REFERENCES person (workspace_id, id) ON DELETE CASCADE
);
"""

TOLD = """
CREATE TABLE broadcast (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('updated', 'cancelled', 'announcement')),
  notification_level text NOT NULL CHECK (notification_level IN ('info', 'warning', 'critical')),
  title text NOT NULL CHECK (char_length(title) BETWEEN 1 AND 200),
  body text NOT NULL CHECK (char_length(body) <= 20000),
  link text CHECK (char_length(link) <= 2000),
  subscription_ids bigint[] CHECK (cardinality(subscription_ids) <= 10000),   -- none = all
  send_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL,
  state text NOT NULL CHECK (state IN ('scheduled', 'queued', 'telling', 'told', 'withdrawn')),
  reason text,
  first_change_at timestamptz,
  telling_at timestamptz,
  told_at timestamptz,
  after_id bigint NOT NULL DEFAULT 0,
  total int,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX broadcast_newest ON broadcast (event_id, id DESC);
CREATE UNIQUE INDEX broadcast_coalescing ON broadcast (event_id) WHERE kind = 'updated' AND state = 'scheduled';
CREATE TABLE reminder_schedule (
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  subscription_id bigint NOT NULL,
  offset_seconds int NOT NULL,
  moment timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (subscription_id, offset_seconds)
);                                                  -- no foreign key: its schedule outlives what it was made for
CREATE INDEX reminder_schedule_event ON reminder_schedule (event_id, subscription_id, offset_seconds);
"""

ASKED = """
CREATE TABLE subscription_request (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  event_id bigint NOT NULL,
  email bytea,                                      -- encrypted; blanked when it is over, while the print counts on
  email_print bytea NOT NULL,                       -- an HMAC, so that mails to one mailbox can be counted
  name text CHECK (char_length(name) BETWEEN 1 AND 201),
  reminder_offsets int[] CHECK (cardinality(reminder_offsets) <= 20),
  expires_at timestamptz NOT NULL,
  mailed_at timestamptz,
  confirmed_at timestamptz,
  subscription_id bigint,
  created_at timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (workspace_id, event_id) REFERENCES event (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX address_print ON address (workspace_id, target_print);   -- whose mailbox asks
CREATE INDEX subscription_request_print ON subscription_request (email_print, id);
CREATE INDEX subscription_request_event ON subscription_request (event_id, id);
CREATE TABLE event_defaults (
  workspace_id bigint PRIMARY KEY REFERENCES workspace,
  reminder_offsets int[] CHECK (cardinality(reminder_offsets) <= 20),
  default_duration_s int CHECK (default_duration_s BETWEEN 1 AND 31622400),
  coalesce_s int CHECK (coalesce_s BETWEEN 0 AND 86400),
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
"""

WORKSPACE = """
CREATE FUNCTION event_workspace(event_id bigint) RETURNS bigint
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT e.workspace_id FROM event e WHERE e.id = $1
$$;
CREATE FUNCTION workspaces_to_replan(engine text) RETURNS SETOF bigint
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT DISTINCT e.workspace_id FROM event e
  WHERE e.state IN ('scheduled', 'live') AND e.effective_end_date > now() AND e.reminder_engine <> engine
$$;
"""
