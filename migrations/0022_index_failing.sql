-- runs outside a transaction: what goes on although it failed three times, by destination.
-- HOT updates stay as they are: failures changes only in statements that change wake_at too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_failing
  ON reminder_delivery (destination_id) WHERE failures >= 3 AND wake_at IS NOT NULL;
