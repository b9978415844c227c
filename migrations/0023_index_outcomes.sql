-- runs outside a transaction: what became of attempts lately.
CREATE INDEX CONCURRENTLY IF NOT EXISTS attempt_outcome_recorded ON attempt_outcome (recorded_at);
