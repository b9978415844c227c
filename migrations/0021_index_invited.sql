-- runs outside a transaction: what is in flight, the longest due first.
-- HOT updates stay as they are: both columns change only in statements that change wake_at too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_invited
  ON reminder_delivery (next_attempt_at) WHERE invitations > 0;
