-- What people decide about reminders: the moves, their receipts and events, and who did it and why.
GRANT UPDATE (version, next_attempt_at, expires_at, wake_at, state, state_since, parked, hold_reason, reviewed_at,
              cancel_requested_at, lease_owner, lease_until, attempts_at_requeue, failures, invitations, first_invited_at,
              delivered_at)
  ON reminder_delivery TO ledger_operator;
GRANT INSERT ON command_receipt TO ledger_operator;
GRANT INSERT (delivery_id, version, state, occurred_at) ON lifecycle_event TO ledger_operator;
