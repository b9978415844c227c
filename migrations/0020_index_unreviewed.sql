-- runs outside a transaction: what waits for a person, the longest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_unreviewed
  ON reminder_delivery (unreviewed_since) WHERE unreviewed_since IS NOT NULL;
