-- Rows that no claim can advance because updating them fails: set aside, so that the others go, until a person readmits them.
CREATE TABLE claim_exclusion (
  exclusion_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- No foreign key: to check one PostgreSQL locks the very row that could not be updated.
  delivery_id uuid NOT NULL,
  -- Of the claim of this row alone that failed: run again, the exclusion is not made twice.
  token uuid NOT NULL UNIQUE,
  excluded_at timestamptz NOT NULL,
  sql_state text NOT NULL,
  reason text NOT NULL,
  readmitted_at timestamptz,
  -- The operator's command; operator_action has who and why.
  readmitted_by uuid
);

-- One at a time for each reminder; and the list that every claim reads is no longer than what is set aside now.
CREATE UNIQUE INDEX claim_exclusion_standing ON claim_exclusion (delivery_id) WHERE readmitted_at IS NULL;

CREATE TRIGGER exclusion_is_never_deleted BEFORE DELETE ON claim_exclusion
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

GRANT SELECT, INSERT ON claim_exclusion TO ledger_claim;
GRANT UPDATE (readmitted_at, readmitted_by) ON claim_exclusion TO ledger_operator;
GRANT INSERT ON operator_action TO ledger_operator;
