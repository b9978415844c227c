-- The outbox: terminal transitions, written with them, drained to the event bus.
CREATE TABLE lifecycle_event (
  event_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery_id uuid NOT NULL REFERENCES reminder_delivery,
  version integer NOT NULL,
  state text NOT NULL,
  occurred_at timestamptz NOT NULL,
  announced_at timestamptz,
  UNIQUE (delivery_id, version, state)
);

CREATE INDEX lifecycle_event_unannounced ON lifecycle_event (event_no) WHERE announced_at IS NULL;
