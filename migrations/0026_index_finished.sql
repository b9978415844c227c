-- runs outside a transaction: what is finished and not archived, by producer, the longest due first.
-- HOT updates stay as they are: what it names changes only in statements that change wake_at or unreviewed_since too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_finished
  ON reminder_delivery (producer, next_attempt_at, delivery_id)
  WHERE wake_at IS NULL AND archived_at IS NULL AND unreviewed_since IS NULL;
