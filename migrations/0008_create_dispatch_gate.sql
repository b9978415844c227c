-- The pause switch: one row.
CREATE TABLE dispatch_gate (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  paused boolean NOT NULL,
  paused_since timestamptz,
  reason text,
  CHECK (paused = (paused_since IS NOT NULL))
);

INSERT INTO dispatch_gate (paused) VALUES (false);
