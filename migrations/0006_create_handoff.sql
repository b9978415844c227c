-- Receipts: the queue accepted an invitation.
CREATE TABLE handoff (
  delivery_id uuid NOT NULL REFERENCES reminder_delivery,
  message_id text COLLATE "C" NOT NULL,
  queue text NOT NULL,
  token uuid NOT NULL,
  visible_from timestamptz NOT NULL,
  -- Whether this receipt moved the row to queued; false when the row had gone on by then.
  moved boolean NOT NULL,
  recorded_at timestamptz NOT NULL,
  PRIMARY KEY (delivery_id, message_id)
);
