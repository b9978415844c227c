-- What each role may do: no more than its statements need, column by column. Nobody but the owner may delete or truncate.

-- Nothing comes for free: neither a connection, nor a table of one's own, nor a function, also one made later.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
DO $$
BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format(
    'GRANT CONNECT ON DATABASE %I
     TO ledger_schedule, ledger_claim, ledger_webhook_sender, ledger_operator, ledger_observer', current_database());
END
$$;

-- schedule: products' commands, and the dispatch of what is due in a moment. Payloads go in and are not read.
GRANT SELECT (destination_id, name, state) ON destination TO ledger_schedule;
GRANT SELECT (delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, created_by_command,
              version, due_at, next_attempt_at, expires_at, wake_at, state, state_since, parked, hold_reason,
              cancel_requested_at, lease_owner, lease_until, attempt_no, failures, invitations, first_invited_at,
              last_error, delivered_at),
      INSERT (delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload,
              payload_sha256, created_by_command, created_at, due_at, next_attempt_at, expires_at, wake_at, state,
              state_since),
      UPDATE (version, due_at, next_attempt_at, expires_at, wake_at, state, state_since, parked, hold_reason,
              cancel_requested_at, lease_owner, lease_until, failures, attempts_at_requeue, invitations,
              first_invited_at)
  ON reminder_delivery TO ledger_schedule;
GRANT SELECT (delivery_id, attempt_no, outcome) ON attempt_outcome TO ledger_schedule;
GRANT SELECT, INSERT ON claim_batch, handoff, command_receipt TO ledger_schedule;
GRANT INSERT (delivery_id, version, state, occurred_at) ON lifecycle_event TO ledger_schedule;
GRANT SELECT ON dispatch_gate TO ledger_schedule;

-- claim: advances the calendar and drains the outbox. It never learns what is sent, nor where to.
GRANT SELECT (destination_id, contract, state, policy) ON destination TO ledger_claim;
GRANT SELECT (delivery_id, producer, destination_id, version, due_at, next_attempt_at, expires_at, wake_at, state, parked,
              cancel_requested_at, lease_owner, lease_until, attempt_no, failures, attempts_at_requeue, invitations,
              first_invited_at, last_error),
      UPDATE (next_attempt_at, wake_at, state, state_since, parked, hold_reason, lease_owner, lease_until, failures,
              invitations, first_invited_at, last_error)
  ON reminder_delivery TO ledger_claim;
GRANT INSERT ON attempt_outcome TO ledger_claim;
GRANT SELECT, INSERT ON claim_batch, handoff, command_receipt TO ledger_claim;
GRANT SELECT (event_no, delivery_id, version, state, occurred_at, announced_at),
      INSERT (delivery_id, version, state, occurred_at),
      UPDATE (announced_at)
  ON lifecycle_event TO ledger_claim;
GRANT SELECT ON dispatch_gate TO ledger_claim;

-- webhook_sender: opens and settles attempts. A receiver that is gone disables its destination; nothing else is written there.
GRANT SELECT (destination_id, name, url, contract, state, deadline_ms, policy),
      UPDATE (state, state_since, state_reason)
  ON destination TO ledger_webhook_sender;
GRANT SELECT (delivery_id, destination_id, idempotency_key, payload, version, next_attempt_at, expires_at, wake_at, state,
              cancel_requested_at, lease_owner, lease_until, attempt_no, failures, attempts_at_requeue,
              first_invited_at, last_error),
      UPDATE (next_attempt_at, wake_at, state, state_since, parked, hold_reason, lease_owner, lease_until, attempt_no,
              failures, invitations, first_invited_at, last_error, delivered_at)
  ON reminder_delivery TO ledger_webhook_sender;
GRANT SELECT, INSERT ON delivery_attempt, attempt_outcome TO ledger_webhook_sender;
GRANT INSERT (delivery_id, version, state, occurred_at) ON lifecycle_event TO ledger_webhook_sender;
GRANT SELECT ON dispatch_gate TO ledger_webhook_sender;

GRANT EXECUTE ON FUNCTION
    retry_delay(integer, double precision, double precision, double precision, double precision),
    state_after_failure(text, text, timestamptz, timestamptz, integer, integer, integer, integer, timestamptz, timestamptz)
  TO ledger_claim, ledger_webhook_sender;

-- People: both read everything, also what later migrations add; one of them registers destinations.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO ledger_operator, ledger_observer;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO ledger_operator, ledger_observer;
GRANT INSERT (destination_id, name, url, owner, contract, state, state_since, deadline_ms, created_at)
  ON destination TO ledger_operator;
