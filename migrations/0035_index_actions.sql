-- runs outside a transaction: what people did to a destination, the newest last.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operator_action_destination
  ON operator_action (destination_id, action_no) WHERE destination_id IS NOT NULL;
