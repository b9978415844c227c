-- The one role that may delete: evidence of archived reminders, and receipts of commands long over. The triggers hold it to that.
-- Roles belong to the whole cluster: another of its databases may have made it, or be making it at this moment.
DO $$
BEGIN
  CREATE ROLE ledger_retain NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END
$$;

DO $$
BEGIN
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO ledger_retain', current_database());
END
$$;

GRANT SELECT, UPDATE (payload, last_error, archived_at) ON reminder_delivery TO ledger_retain;
GRANT SELECT, DELETE ON delivery_attempt, attempt_outcome, handoff TO ledger_retain;
GRANT SELECT (delivery_id, announced_at), DELETE ON lifecycle_event TO ledger_retain;
GRANT SELECT (token, claimed_at), DELETE ON claim_batch TO ledger_retain;
GRANT SELECT (token, item, answered_at), DELETE ON command_receipt TO ledger_retain;

CREATE OR REPLACE FUNCTION set_login(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  group_role text = substring(login FROM '^(ledger_schedule|ledger_claim|ledger_webhook_sender|ledger_operator|ledger_observer|ledger_retain)_[ab]$');
BEGIN
  IF group_role IS NULL THEN
    RAISE EXCEPTION 'login: got %; name one of the ledger''s roles with _a or _b', quote_nullable(login)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- PostgreSQL would take any other text for a password.
  IF (verifier ~ '^SCRAM-SHA-256\$[1-9][0-9]{3,6}[:][A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=[:][A-Za-z0-9+/]{43}=$') IS NOT TRUE THEN
    RAISE EXCEPTION 'verifier of %: got no SCRAM-SHA-256 verifier with a salt of 16 bytes', login
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- A rotation and a deployment may come together.
  PERFORM pg_advisory_xact_lock(hashtextextended('reminder-ledger set_login', 0));
  BEGIN
    EXECUTE format('CREATE ROLE %I', login);
  EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
  END;
  EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', login, verifier);
  EXECUTE format('GRANT %I TO %I', group_role, login);
END
$$;
