-- runs outside a transaction: what is finished and not archived, the longest due first.
-- HOT updates stay as they are: next_attempt_at changes only in statements that change wake_at too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_finished
  ON reminder_delivery (next_attempt_at, delivery_id) WHERE wake_at IS NULL AND archived_at IS NULL;
