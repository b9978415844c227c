-- Where reminders may go. Registered by operators; a product only names one.
CREATE TABLE destination (
  destination_id uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  url text NOT NULL,
  owner text NOT NULL,
  -- What the receiver promises about a repeated key; decides what an unknown outcome leads to.
  contract text NOT NULL CHECK (contract IN ('honours-key', 'status-lookup', 'none')),
  state text NOT NULL CHECK (state IN ('active', 'paused', 'disabled', 'broken')),
  state_since timestamptz NOT NULL,
  state_reason text,
  -- NULL: the stage's deadline.
  deadline_ms integer CHECK (deadline_ms BETWEEN 100 AND 10000),
  -- Overrides of the stage's retry policy: {"maxFailures": n}.
  policy jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL
);
