-- Makes a login of a group role, or gives it another password. Only the owner may: nobody else has EXECUTE.
-- It takes a SCRAM verifier, from which no password can be had: so none stands in SQL, in a log or in an audit trail.
-- A utility statement takes no parameters, so a function builds it from checked texts; it never repeats the verifier.
CREATE FUNCTION set_login(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  group_role text = substring(login FROM '^(ledger_schedule|ledger_claim|ledger_webhook_sender|ledger_operator|ledger_observer)_[ab]$');
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
