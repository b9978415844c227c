-- Intents: one row an attempt, committed before its first byte leaves, and which worker made it.
CREATE TABLE delivery_attempt (
  delivery_id uuid NOT NULL REFERENCES reminder_delivery,
  attempt_no integer NOT NULL CHECK (attempt_no >= 1),
  version integer NOT NULL,
  lease_owner uuid NOT NULL,
  lease_until timestamptz NOT NULL,
  started_at timestamptz NOT NULL,
  destination_host text NOT NULL,
  function_version text NOT NULL,
  request_id text NOT NULL,
  log_stream text NOT NULL,
  PRIMARY KEY (delivery_id, attempt_no)
);
