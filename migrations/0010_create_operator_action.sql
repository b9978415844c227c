-- What people did to the ledger, and why.
CREATE TABLE operator_action (
  action_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  token uuid NOT NULL UNIQUE,
  verb text NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  ticket text,
  delivery_id uuid REFERENCES reminder_delivery,
  destination_id uuid REFERENCES destination,
  version_seen integer,
  evidence jsonb NOT NULL DEFAULT '{}',
  acted_at timestamptz NOT NULL
);

CREATE INDEX operator_action_delivery ON operator_action (delivery_id) WHERE delivery_id IS NOT NULL;
