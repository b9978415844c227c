-- runs outside a transaction: the reminders of a user, page by page.
-- HOT updates stay as they are: a due time changes only in statements that change wake_at too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_user ON reminder_delivery (user_id, due_at, delivery_id);
