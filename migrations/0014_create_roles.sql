-- One group role for each kind of work. Nobody logs in as one: logins are its members, made by set_login.
-- Roles belong to the whole cluster: another of its databases may have made them, or be making them at this moment.
DO $$
DECLARE
  group_role text;
BEGIN
  FOREACH group_role IN ARRAY ARRAY[
    'ledger_schedule', 'ledger_claim', 'ledger_webhook_sender', 'ledger_operator', 'ledger_observer']
  LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', group_role);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
  END LOOP;
END
$$;
