-- Outcomes: what is known of an attempt, and by whom. None while it is open; a late answer adds another.
CREATE TABLE attempt_outcome (
  delivery_id uuid NOT NULL,
  attempt_no integer NOT NULL,
  -- The command that recorded it: run again, it records nothing new.
  token uuid NOT NULL,
  recorded_by text NOT NULL CHECK (recorded_by IN ('sender', 'recover', 'lookup', 'operator')),
  recorded_at timestamptz NOT NULL,
  outcome text NOT NULL CHECK (outcome IN (
    'delivered', 'retry', 'permanent', 'gone', 'unknown', 'not_sent', 'overtaken')),
  phase text CHECK (phase IN ('none', 'dns', 'connect', 'tls', 'written', 'headers', 'body')),
  status integer,
  error_class text,
  detail text CHECK (octet_length(detail) <= 1024),
  latency_ms integer,
  -- The state this outcome moved the reminder to; NULL when it is evidence only.
  moved_to text,
  PRIMARY KEY (delivery_id, attempt_no, token),
  FOREIGN KEY (delivery_id, attempt_no) REFERENCES delivery_attempt
);
