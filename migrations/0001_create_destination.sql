-- Where reminders may go. Registered by operators; a product only names one.
CREATE TABLE destination (
  destination_id uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  url text NOT NULL CONSTRAINT https_url CHECK (url ~ '^https://[^/?#]+'),
  owner text NOT NULL,
  -- What the receiver promises about a repeated key; decides what an unknown outcome leads to.
  contract text NOT NULL CHECK (contract IN ('honours-key', 'status-lookup', 'none')),
  state text NOT NULL CHECK (state IN ('active', 'paused', 'disabled', 'broken')),
  state_since timestamptz NOT NULL,
  state_reason text,
  -- NULL: the stage's deadline.
  deadline_ms integer CHECK (deadline_ms BETWEEN 100 AND 10000),
  -- Overrides of the stage's retry policy: {"maxFailures": n}.
  -- Checked here because a claim reads it for every row: a value of another type would stop the tick for everybody.
  policy jsonb NOT NULL DEFAULT '{}' CONSTRAINT policy_is_readable CHECK (
    NOT policy ? 'maxFailures' OR (policy ->> 'maxFailures') ~ '^[1-9][0-9]{0,2}$'),
  created_at timestamptz NOT NULL
);
