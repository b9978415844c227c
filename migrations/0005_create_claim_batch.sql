-- What each claim took, under its token: run again, it takes nothing more and answers the same.
CREATE TABLE claim_batch (
  token uuid PRIMARY KEY,
  claimed uuid[] NOT NULL,
  recovered uuid[] NOT NULL,
  expired uuid[] NOT NULL,
  parked uuid[] NOT NULL,
  high_water timestamptz,
  request_id text NOT NULL,
  log_stream text NOT NULL,
  claimed_at timestamptz NOT NULL
);
